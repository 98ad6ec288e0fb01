"""Kafka's error codes, as kio's schemas list them."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

__all__ = ["ERROR_CODES", "ErrorCode"]

ERROR_CODES: Final = {int(code): code for code in ErrorCode}
"""By number.  One that a newer peer knows and we do not is to be taken for `unknown_server_error`."""
