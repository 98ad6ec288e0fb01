"""Writes `Fields` as bytes, following a shape of `schema`.

`Fields` may have more entries than the version: entries that the schema does not name are not written.  A value that
does not fit its type is a bug and raises what `struct` raises.  A missing field raises KeyError.

The writers are generated, one function for each message (`writer_source`).  To print one, use
`inspect.getsource(entity_writer(shape))`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final, NoReturn, TypeAlias

from kraft_trio.wire.schema import EntityShape, Fields
from kraft_trio.wire.writer_source import compile_writer, unsigned_varint

__all__ = ["Chunks", "Writer", "entity_writer", "unsigned_varint"]

Chunks: TypeAlias = list[bytes]
"""The pieces of a message.  They are joined at the end, so that records are copied only once."""

Writer: TypeAlias = Callable[[Chunks, Fields], None]


@cache
def entity_writer(shape: EntityShape) -> Writer:
    """The compiled writer of a structure; it appends pieces to a list."""
    return compile_writer(shape, _NAMES)


def _refuse_null(name: str) -> NoReturn:
    raise AssertionError(f"{name} may not be null in this version")


_NAMES: Final = {
    "one_byte": tuple(bytes((value,)) for value in range(128)),
    "unsigned_varint": unsigned_varint,
    "refuse_null": _refuse_null,
}
"""The names that generated writers use."""
