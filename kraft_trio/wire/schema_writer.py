"""`Fields` into bytes, by a shape of `schema`.

The fields may hold more than the version has: what the schema does not name is not written.  A value that does not
fit its type is a bug of ours and raises what `struct` raises; a missing field raises KeyError.

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
"""The pieces of a message, to be joined: records are then copied once."""

Writer: TypeAlias = Callable[[Chunks, Fields], None]


@cache
def entity_writer(shape: EntityShape) -> Writer:
    """Appends the pieces of a structure."""
    return compile_writer(shape, _NAMES)


def _refuse_null(name: str) -> NoReturn:
    raise AssertionError(f"{name} may not be null in this version")


_NAMES: Final = {
    "one_byte": tuple(bytes((value,)) for value in range(128)),
    "unsigned_varint": unsigned_varint,
    "refuse_null": _refuse_null,
}
"""What the generated writers call."""
