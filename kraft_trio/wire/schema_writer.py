"""Writes a message as bytes, by what its class declares.

A value that does not fit its type is a bug and raises what `struct` raises.  The writers are generated, one function
for each message and version (`writer_source`).  To print one, use `inspect.getsource(api.writer(…))`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

from kraft_trio.errors import UnsupportedVersionError
from kraft_trio.wire.schema import Structure
from kraft_trio.wire.writer_source import compile_writer, unsigned_varint

__all__ = ["Chunks", "Writer", "message_writer", "unsigned_varint"]

Chunks: TypeAlias = list[bytes]
"""The pieces of a message.  They are joined at the end, so that records are copied only once."""

Writer: TypeAlias = Callable[[Chunks, Any], None]
"""`write(chunks, message)` appends pieces.  Raises UnsupportedVersionError for what the version cannot express."""

T = TypeVar("T")


def message_writer(structure: Structure, title: str) -> Writer:
    """Compile the writer of a message; tracebacks name the `title`."""
    return compile_writer(structure, title, _NAMES)


def _neighbours(values: Sequence[T], key: Callable[[T], object]) -> list[list[T]]:
    """Groups of neighbours with an equal key, in order."""
    return [list(members) for _, members in groupby(values, key)]


def _refuse_null(name: str) -> NoReturn:
    raise AssertionError(f"{name} may not be null in this version")


def _refuse_no_topic(name: str) -> NoReturn:
    raise AssertionError(f"a response without a top-level error names the {name} of its request")


def _refuse_version(reason: str) -> NoReturn:
    raise UnsupportedVersionError(reason)


_NAMES: Final = {
    "one_byte": tuple(bytes((value,)) for value in range(128)),
    "unsigned_varint": unsigned_varint,
    "neighbours": _neighbours,
    "refuse_null": _refuse_null,
    "refuse_no_topic": _refuse_no_topic,
    "refuse_version": _refuse_version,
}
"""The names that generated writers use."""
