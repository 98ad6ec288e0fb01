"""What one command may cost, and how much of it is done in one turn of the event loop.

Every replica applies the same limits to the same command, wherever it came from, so all of them refuse it, or none.
A change of these numbers is a change of what the log means: docs/reference/key-value-store.md#what-a-command-may-cost
says how to upgrade.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Final, TypeVar

from kraft_trio.kv.errors import Code, KvError
from kraft_trio.kv.responses import KeyValue

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work in pieces: it yields where others may run, and returns its result."""

MAX_COMMAND_BYTES: Final = 4 * 1024 * 1024
"""Of a command in the log."""
MAX_COMMAND_ITEMS: Final = 20_000
"""Numbers, texts and lists of a command in the log, counted before they are decoded."""
MAX_OPERATIONS: Final = 1024
"""Comparisons and operations of a transaction, in all its branches, with those of nested transactions."""
MAX_LISTED_OPERATIONS: Final = 128
"""Of each list in a transaction; a nested transaction has what its parent leaves."""
MAX_DEPTH: Final = 32
"""Transactions within one another."""
MAX_KEYS: Final = 100_000
"""Keys that a transaction looks at: those of its comparisons, ranges and deletions, each time that it does."""
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
"""Keys and values in the answer to a transaction or a deletion, with VERSION_BYTES for each key."""
VERSION_BYTES: Final = 256
"""What a version takes besides its key and value, as etcd counts it."""
KEYS_PER_PIECE: Final = 1024
"""Keys that are looked at before others may run."""
KEY_BYTES_PER_PIECE: Final = 1024 * 1024
"""Bytes of these keys, if their number does not end the piece: to find a key takes the longer, the longer it is."""
_KEY_BYTES_PER_STEP: Final = KEY_BYTES_PER_PIECE // KEYS_PER_PIECE
_COMPARED_BYTES_PER_STEP: Final = 8 * 1024


class Budget:
    """What is left to one command, and how much of it was done since others ran."""

    def __init__(self, max_keys: int | None = MAX_KEYS, max_bytes: int | None = MAX_ANSWER_BYTES) -> None:
        """None is no limit: for work that looks at each key once, and for answers that are sent in pieces."""
        self._max_keys = max_keys
        self._max_bytes = max_bytes
        self._keys = 0
        self._bytes = 0
        self._in_piece = 0

    @classmethod
    def without_limits(cls) -> Budget:
        return cls(None, None)

    @property
    def is_limited(self) -> bool:
        """Whether the answer belongs to a command, or to a transaction."""
        return self._max_bytes is not None

    def look_at(self, keys: Sequence[bytes]) -> None:
        """Note that keys are looked at.  Raises KvError."""
        self._keys += len(keys)
        self.work(len(keys) + sum(map(len, keys)) // _KEY_BYTES_PER_STEP)
        if self._max_keys is not None and self._keys > self._max_keys:
            raise KvError(
                Code.INVALID_ARGUMENT, f"etcdserver: request is too large: it looks at over {self._max_keys} keys"
            )

    def change(self, key: bytes) -> None:
        """Note that a key is changed which was not looked at."""
        self.work(1 + len(key) // _KEY_BYTES_PER_STEP)

    def compare(self, one: bytes, other: bytes) -> None:
        """Note that two values are compared, which may be alike up to the end of the shorter one."""
        self.work(min(len(one), len(other)) // _COMPARED_BYTES_PER_STEP)

    def work(self, steps: int) -> None:
        """Note work that takes as long as to look at so many keys."""
        self._in_piece += steps

    def answer(self, kvs: Iterable[KeyValue]) -> None:
        """Note what the answer has.  Raises KvError."""
        if self._max_bytes is None:
            return
        self._bytes += sum(version_bytes(kv) for kv in kvs)
        if self._bytes > self._max_bytes:
            raise KvError(
                Code.INVALID_ARGUMENT, f"etcdserver: request is too large: its answer has over {self._max_bytes} bytes"
            )

    @property
    def ends_piece(self) -> bool:
        """Whether others may run now: enough was done since they did."""
        if self._in_piece < KEYS_PER_PIECE:
            return False
        self._in_piece = 0
        return True


def version_bytes(kv: KeyValue) -> int:
    """What one version of a key takes."""
    return len(kv.key) + len(kv.value) + VERSION_BYTES


def run_at_once(steps: Steps[T]) -> T:
    """Do all pieces, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
