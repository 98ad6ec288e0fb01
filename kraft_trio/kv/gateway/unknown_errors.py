"""What goes wrong within a lock or an election: etcd tells its clients only the message, with the code Unknown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kraft_trio.kv.errors import Code, KvError


@contextmanager
def as_unknown() -> Iterator[None]:
    """Raise KvErrors of the block with the code Unknown, except those of an unavailable quorum."""
    try:
        yield
    except KvError as error:
        if error.code is Code.UNAVAILABLE:
            raise
        raise KvError(Code.UNKNOWN, error.message) from None
