"""The store's state as records of a snapshot: one with the revisions, and one for each lease and each version."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

import msgpack

from kraft_trio.errors import SerdeError
from kraft_trio.kv.leases import Lease, Leases
from kraft_trio.kv.responses import KeyValue
from kraft_trio.kv.space import Space
from kraft_trio.kv.store import Store
from kraft_trio.storage.batches.batch import NewRecord, Record

_FORMAT: Final = 1
_LEASE: Final = "l"
_VERSION: Final = "v"


def state_records(
    store: Store, leases: Leases, space: Space, members: Mapping[int, tuple[str, ...]]
) -> Iterator[NewRecord]:
    """The present state; what changes after this call is not in it."""
    head = [_FORMAT, store.revision, store.compacted_revision, leases.now_ms, sorted(members.items())]
    if space != Space():
        head += [space.quota_bytes, space.is_full]
    return _records(head, list(leases), store.all_changes())


def _records(head: list[Any], leases: list[Lease], changes: list[KeyValue]) -> Iterator[NewRecord]:
    yield NewRecord(_pack(head))
    for lease in leases:
        yield NewRecord(_pack((_LEASE, lease.id, lease.ttl_s, lease.ends_ms)))
    for kv in changes:
        version = (_VERSION, kv.key, kv.create_revision, kv.mod_revision, kv.version, kv.value, kv.lease)
        yield NewRecord(_pack(version))


async def load_state(records: AsyncIterator[Record]) -> tuple[Store, Leases, Space, dict[int, tuple[str, ...]]]:
    """Make the state from what `state_records` returned.  Raises SerdeError for another format."""
    head: list[Any] | None = None
    store, leases = Store(), Leases()
    async for record in records:
        kind, *parts = msgpack.unpackb(record.value or b"", raw=False)
        if kind == _VERSION:
            kv = KeyValue(*parts)
            leases.replace(store.restore(kv), kv)
        elif kind == _LEASE:
            leases.restore(*parts)
        elif kind == _FORMAT:
            head = parts
        else:
            raise SerdeError(f"snapshot of the key-value store: a record of kind {kind!r}, which this version lacks")
    if head is None:
        return Store(), Leases(), Space(), {}
    revision, compacted_revision, leases.now_ms, members, *space = head
    store.restored(revision, compacted_revision)
    return store, leases, Space(*space), {node_id: tuple(urls) for node_id, urls in members}


def _pack(parts: object) -> bytes:
    packed: bytes = msgpack.packb(parts, use_bin_type=True)
    return packed
