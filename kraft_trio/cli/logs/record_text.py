"""Records as text and as JSON, for the commands that print them."""

from __future__ import annotations

from typing import Any

from kraft_trio.cli.terminal.output import field
from kraft_trio.storage.batches.batch import Record


def printable(data: bytes | None) -> str:
    """One line: the text, or hexadecimal if the bytes are not printable UTF-8."""
    if data is None:
        return "null"
    text = data.decode(errors="replace")
    return field(text if text.isprintable() and "\ufffd" not in text else f"0x{data.hex()}")


def bytes_field(name: str, data: bytes | None) -> dict[str, str | None]:
    """Text if the bytes are UTF-8; otherwise hexadecimal under another name, so that the two cannot be confused."""
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        assert data is not None
        return {f"{name}Hex": data.hex()}


def headers_field(record: Record) -> dict[str, Any]:
    """The headers, if there are any."""
    if not record.headers:
        return {}
    return {"headers": [{"name": name, **bytes_field("value", value)} for name, value in record.headers]}
