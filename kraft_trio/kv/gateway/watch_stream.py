"""One watch stream: a client creates watches on it, and gets their events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from typing import Final

import attrs
import trio

from kraft_trio.kv.gateway.read_turns import asker
from kraft_trio.kv.gateway.service import KvService
from kraft_trio.kv.intervals import Interval
from kraft_trio.kv.requests import WatchCancelRequest, WatchCreateRequest, WatchRequest
from kraft_trio.kv.responses import WatchResponse
from kraft_trio.kv.watches import next_events

PROGRESS_INTERVAL_S: Final = 600.0
"""A watch that asks for it is told of progress if it had no event for so long."""
MAX_WATCHES: Final = 1000
"""Of one stream."""
MAX_WATCHES_OF_ADDRESS: Final = 10_000
"""Each takes 5 KB, and each change of the store is compared with the range of each."""
_NO_WATCH: Final = -1


class WatchStream:
    """Owns the watches of one client's stream.  Each has a task in `nursery`."""

    def __init__(
        self, service: KvService, nursery: trio.Nursery, send: Callable[[WatchResponse], Awaitable[None]]
    ) -> None:
        self._service = service
        self._nursery = nursery
        self._send = send
        self._sending = trio.Lock()
        self._watches: dict[int, trio.CancelScope] = {}
        self._next_id = 0
        self._host = asker.get()

    async def handle(self, request: WatchRequest) -> None:
        """Do what the client asks."""
        if request.create_request is not None:
            await self._create(request.create_request)
        elif request.cancel_request is not None:
            await self._cancel(request.cancel_request)
        elif request.progress_request is not None:
            await self._tell(WatchResponse(self._service.header(), _NO_WATCH))

    async def _create(self, watch: WatchCreateRequest) -> None:
        watch = attrs.evolve(watch, key=watch.key or b"\0")
        refusal = self._refusal(watch)
        header = self._service.header()
        if refusal is not None:
            await self._tell(WatchResponse(header, _NO_WATCH, created=True, canceled=True, cancel_reason=refusal))
            return
        while not watch.watch_id and self._next_id in self._watches:
            self._next_id += 1
        watch_id = watch.watch_id or self._next_id
        self._next_id = max(self._next_id, watch_id + 1)
        scope = self._watches[watch_id] = trio.CancelScope()
        revision = watch.start_revision or header.revision + 1
        await self._tell(WatchResponse(header, watch_id, created=True))
        self._service.watches[self._host] += 1
        self._nursery.start_soon(self._watch, watch_id, watch, revision, scope)

    def _refusal(self, watch: WatchCreateRequest) -> str | None:
        if watch.range_end > b"\0" and watch.range_end <= watch.key:
            return "mvcc: watcher range is empty"
        if watch.watch_id and watch.watch_id in self._watches:
            return "mvcc: duplicate watch ID provided on the WatchStream"
        if len(self._watches) >= MAX_WATCHES:
            return f"more than {MAX_WATCHES} watches on one stream"
        if self._service.watches[self._host] >= MAX_WATCHES_OF_ADDRESS:
            return f"more than {MAX_WATCHES_OF_ADDRESS} watches of {self._host}"
        return None

    async def _cancel(self, request: WatchCancelRequest) -> None:
        scope = self._watches.pop(request.watch_id, None)
        if scope is not None:
            scope.cancel()
            await self._tell(WatchResponse(self._service.header(), request.watch_id, canceled=True))

    async def _watch(self, watch_id: int, watch: WatchCreateRequest, revision: int, scope: trio.CancelScope) -> None:
        machine, changes = self._service.machine, self._service.changes
        interval = Interval.of(watch.key, watch.range_end)
        progress_at = self._next_progress(watch)
        with scope, self._service.ending_watch(self._host):
            while True:
                store = machine.store
                if revision < store.compacted_revision:
                    await self._end_compacted(watch_id, store.compacted_revision)
                    return
                batch = next_events(store, watch, revision)
                revision = batch.next_revision
                if batch.events:
                    await self._tell(WatchResponse(self._service.header(), watch_id, events=batch.events))
                    progress_at = self._next_progress(watch)
                elif revision <= store.revision:
                    await trio.lowlevel.checkpoint()
                else:
                    with trio.move_on_at(progress_at) as waiting:
                        revision = max(revision, await changes.wait(interval))
                    if waiting.cancelled_caught:
                        revision = max(revision, machine.store.revision + 1)
                        await self._tell(WatchResponse(self._service.header(), watch_id))
                        progress_at = self._next_progress(watch)

    @staticmethod
    def _next_progress(watch: WatchCreateRequest) -> float:
        return trio.current_time() + PROGRESS_INTERVAL_S if watch.progress_notify else inf

    async def _end_compacted(self, watch_id: int, compacted_revision: int) -> None:
        self._watches.pop(watch_id, None)
        header = attrs.evolve(self._service.header(), revision=0)
        await self._tell(WatchResponse(header, watch_id, canceled=True, compact_revision=compacted_revision))

    async def _tell(self, response: WatchResponse) -> None:
        async with self._sending:
            await self._send(response)
