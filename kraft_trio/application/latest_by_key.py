"""A state machine that keeps the newest record of each key, like a compacted topic of Kafka."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from typing import Final

from kraft_trio.storage.batches.batch import NewRecord, Record

_Key = bytes | int
"""A record's key, or a unique number for a record without a key."""

_Layer = OrderedDict[_Key, NewRecord | None]
"""Changes in log order; None for a deleted key."""

_MAX_TIMESTAMP_MS: Final = 2**62
"""The limit of a timestamp.  Timestamps in one batch must not be further apart than a varint can express."""


_MERGED_PER_RECORD: Final = 8
"""Changes that each record merges after a snapshot, so that no single step merges all of them."""

_MAX_LAYERS: Final = 16


class LatestByKey:
    """A state machine that keeps the newest record of each key, in log order.

    A null value deletes its key.  Records without a key are all kept.  Equal logs give equal snapshots, byte for byte,
    even if one replica started from a snapshot and another did not.
    """

    def __init__(self) -> None:
        self._base: dict[_Key, NewRecord] = {}
        """The records in log order; while a snapshot is written, as they were at its start."""
        self._layers: deque[_Layer] = deque()
        """Changes that are not merged into the base yet.  Each save starts a layer, and the last one takes changes."""
        self._is_saving = False
        self._saves = 0
        """Counts saves and loads, so that an older save that is still read does not affect a newer one."""

    def __len__(self) -> int:
        """The number of records."""
        return sum(1 for _ in _newest(self._base, tuple(self._layers)))

    async def on_commit(self, records: Sequence[Record]) -> None:
        """Apply committed records, in log order."""
        for record in records:
            self._apply(record)

    async def load(self, end_offset: int, records: AsyncIterator[Sequence[Record]]) -> None:
        """Replace the state by that of a snapshot."""
        base: dict[_Key, NewRecord] = {}
        async for batch in records:
            for record in batch:
                # Below zero: records that are committed later use their offsets.
                key = -1 - record.offset if record.key is None else record.key
                base[key] = _kept(record)
        self._base, self._layers = base, deque()
        self._is_saving = False
        self._saves += 1

    def save(self) -> Generator[NewRecord, None, None]:
        """Return the present state.  Later changes are kept apart, and merged in small steps once it has been read."""
        if len(self._layers) >= _MAX_LAYERS:
            self._merge(sum(map(len, self._layers)))
        frozen = tuple(layer for layer in self._layers if layer)
        self._layers = deque((*frozen, OrderedDict()))
        self._is_saving = True
        self._saves += 1
        return self._records(self._base, frozen, self._saves)

    def _records(
        self, base: dict[_Key, NewRecord], frozen: Sequence[_Layer], save: int
    ) -> Generator[NewRecord, None, None]:
        try:
            yield from _newest(base, frozen)
        finally:
            if save == self._saves:
                self._is_saving = False

    def _apply(self, record: Record) -> None:
        key = record.offset if record.key is None else record.key
        deletes = record.value is None and record.key is not None
        newest = None if deletes else _kept(record)
        if self._layers:
            layer = self._layers[-1]
            layer.pop(key, None)
            layer[key] = newest
        else:
            self._put(key, newest)
        if not self._is_saving:
            self._merge(_MERGED_PER_RECORD)

    def _merge(self, count: int) -> None:
        """Merge the oldest changes, at most `count` of them."""
        layers = self._layers
        while layers:
            if not layers[0]:
                layers.popleft()
            elif count:
                self._put(*layers[0].popitem(last=False))
                count -= 1
            else:
                return

    def _put(self, key: _Key, newest: NewRecord | None) -> None:
        self._base.pop(key, None)
        if newest is not None:
            self._base[key] = newest


def _newest(base: dict[_Key, NewRecord], layers: Sequence[_Layer]) -> Iterator[NewRecord]:
    """The newest record of each key, in log order."""
    if not layers:
        yield from base.values()
        return
    for key, record in base.items():
        if not any(key in layer for layer in layers):
            yield record
    for index, layer in enumerate(layers):
        later = layers[index + 1 :]
        for key, changed in layer.items():
            if changed is not None and not any(key in other for other in later):
                yield changed


def _kept(record: Record) -> NewRecord:
    timestamp_ms = max(-1, min(record.timestamp_ms, _MAX_TIMESTAMP_MS))
    return NewRecord(record.value, record.key, record.headers, timestamp_ms)
