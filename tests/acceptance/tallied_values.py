"""A state machine for `kraft server`: the latest value of each key, and a count and a hash of every record there was.

It is as large as its keys; the hash says that each record was applied, once and in order, however much of the log is
gone.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

import attrs

from kraft_trio import NewRecord, Record

NAME = f"{__name__}:TalliedValues"
"""For `kraft.state.machine`."""
TALLY_KEY = b"\x00tally"
"""Of the first record of a snapshot, which sorts before every key that a test writes."""
_HASH_BYTES = 16


@attrs.frozen
class Tally:
    """What there was, records that were overwritten since included."""

    count: int = 0
    hash: bytes = bytes(_HASH_BYTES)

    def after(self, key: bytes, value: bytes) -> Tally:
        digest = hashlib.blake2b(self.hash, digest_size=_HASH_BYTES)
        digest.update(len(key).to_bytes(4, "big"))
        digest.update(key)
        digest.update(value)
        return Tally(self.count + 1, digest.digest())

    def encode(self) -> bytes:
        return self.count.to_bytes(8, "big") + self.hash

    @classmethod
    def decode(cls, data: bytes) -> Tally:
        return cls(int.from_bytes(data[:8], "big"), data[8:])


class TalliedValues:
    """`kraft_trio.application.state_machine.BatchStateMachine`."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._tally = Tally()

    async def on_commit(self, records: Sequence[Record]) -> None:
        for record in records:
            key, value = record.key or b"", record.value or b""
            self._values[key] = value
            self._tally = self._tally.after(key, value)

    async def load(self, end_offset: int, records: AsyncIterator[Sequence[Record]]) -> None:
        self._values.clear()
        async for batch in records:
            for record in batch:
                key, value = record.key or b"", record.value or b""
                if key == TALLY_KEY:
                    self._tally = Tally.decode(value)
                else:
                    self._values[key] = value

    def save(self) -> Iterable[NewRecord]:
        return self._saved(self._tally, sorted(self._values.items()))

    @staticmethod
    def _saved(tally: Tally, values: Sequence[tuple[bytes, bytes]]) -> Iterator[NewRecord]:
        yield NewRecord(tally.encode(), key=TALLY_KEY)
        for key, value in values:
            yield NewRecord(value, key=key)
