"""Kafka's error codes, as kio's schemas list them."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

__all__ = ["ErrorCode", "error_code_from_int"]

_BY_NUMBER: Final = {int(code): code for code in ErrorCode}


def error_code_from_int(number: int) -> ErrorCode:
    """The error code with that number; `unknown_server_error` for one that a newer peer knows and we do not."""
    return _BY_NUMBER.get(number, ErrorCode.unknown_server_error)
