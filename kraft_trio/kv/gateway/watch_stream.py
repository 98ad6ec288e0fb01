"""One watch stream: a client creates watches on it, and gets their events."""

from __future__ import annotations

from math import inf
from typing import Any, Final

import attrs
import trio

from kraft_trio.http.exchange import Disconnected
from kraft_trio.kv.errors import COMPACTED
from kraft_trio.kv.gateway.change_waiters import Place
from kraft_trio.kv.gateway.read_turns import asker
from kraft_trio.kv.gateway.request_stream import ResponseStream
from kraft_trio.kv.gateway.service import KvService
from kraft_trio.kv.gateway.watch_messages import send_events
from kraft_trio.kv.intervals import Interval
from kraft_trio.kv.requests import WatchCancelRequest, WatchCreateRequest, WatchRequest
from kraft_trio.kv.responses import WatchResponse
from kraft_trio.kv.watches import Batch, EventReader

PROGRESS_INTERVAL_S: Final = 600.0
"""A watch that asks for progress gets a report if it had no event for so long."""
MAX_WATCHES: Final = 1000
"""Of one stream."""
MAX_WATCHES_OF_ADDRESS: Final = 10_000
"""Each takes 5 KB, and each change of the store is compared with the range of each."""
KEY_BYTES_OF_WATCH: Final = 1024
"""A watch counts as another one for so many bytes of its range."""
_ENDS_PER_TURN: Final = 100
_KEYS_PER_END: Final = 20
"""The task of a watch takes as long to end as to look at so many changes."""
_NO_WATCH: Final = -1


@attrs.define(eq=False)
class _Watch:
    """One watch of the stream."""

    id: int
    request: WatchCreateRequest
    cost: int
    """As how many watches of its address it counts."""
    revision: int
    """The client has got all events before it."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    """Cancelled only while none of its messages is being sent."""
    place: Place | None = None
    """Where it waits for a change, after it has sent all that is before `revision`."""
    progress_at: float = inf

    def delay_progress(self) -> None:
        """Have the next timed notification after a whole interval."""
        if self.request.progress_notify:
            self.progress_at = trio.current_time() + PROGRESS_INTERVAL_S


class WatchStream:
    """Owns the watches of one client's stream.  Each has a task in `nursery`."""

    def __init__(self, service: KvService, nursery: trio.Nursery, stream: ResponseStream[Any]) -> None:
        self._service = service
        self._nursery = nursery
        self._stream = stream
        self.sending = trio.Lock()
        """Held by who sends a message, from its first byte to its last."""
        self._watches: dict[int, _Watch] = {}
        self._next_id = 0
        self._asked = self._asked_last = 0
        """Progress is to be told as soon as it reaches `_asked`, and again at `_asked_last`; 0 if nobody asks."""
        self._host = asker.get()
        self._has_lost_client = False

    async def handle(self, request: WatchRequest) -> None:
        """Do what the client asks."""
        if request.create_request is not None:
            await self._create(request.create_request)
        elif request.cancel_request is not None:
            await self._cancel(request.cancel_request)
        elif request.progress_request is not None:
            self._ask_for_progress()
            await self._tell_asked_progress()

    async def _create(self, request: WatchCreateRequest) -> None:
        request = attrs.evolve(request, key=request.key or b"\0", filters=tuple(dict.fromkeys(request.filters)))
        cost = 1 + (len(request.key) + len(request.range_end)) // KEY_BYTES_OF_WATCH
        refusal = self._refusal(request, cost)
        header = self._service.header()
        if refusal is not None:
            await self._tell(WatchResponse(header, _NO_WATCH, created=True, canceled=True, cancel_reason=refusal))
            return
        watch = _Watch(self._id_for(request), request, cost, request.start_revision or header.revision + 1)
        watch.delay_progress()
        self._watches[watch.id] = watch
        await self._tell(WatchResponse(header, watch.id, created=True))
        self._service.watches[self._host] += cost
        self._nursery.start_soon(self._run, watch)

    def _id_for(self, request: WatchCreateRequest) -> int:
        if request.watch_id:
            return request.watch_id
        while self._next_id in self._watches:
            self._next_id += 1
        self._next_id += 1
        return self._next_id - 1

    def _refusal(self, request: WatchCreateRequest, cost: int) -> str | None:
        if request.start_revision < 0:
            return COMPACTED[1]
        if request.range_end > b"\0" and request.range_end <= request.key:
            return "mvcc: watcher range is empty"
        if request.watch_id and request.watch_id in self._watches:
            return "mvcc: duplicate watch ID provided on the WatchStream"
        if len(self._watches) >= MAX_WATCHES:
            return f"more than {MAX_WATCHES} watches on one stream"
        if self._service.watches[self._host] + cost > MAX_WATCHES_OF_ADDRESS:
            return (
                f"more than {MAX_WATCHES_OF_ADDRESS} watches of {self._host}, where {KEY_BYTES_OF_WATCH} bytes of a "
                "range count as one"
            )
        return None

    async def end(self) -> None:
        """End the watches of a client that has left, some in each turn, because each is a task."""
        while self._watches:
            await self._service.reads.begin_part(keys=_ENDS_PER_TURN * _KEYS_PER_END)
            for _ in range(min(_ENDS_PER_TURN, len(self._watches))):
                self._watches.popitem()[1].scope.cancel()

    async def _cancel(self, request: WatchCancelRequest) -> None:
        if request.watch_id not in self._watches:
            return
        async with self.sending:
            watch = self._watches.pop(request.watch_id, None)
            if watch is not None:
                watch.scope.cancel()
                await self._stream.send(WatchResponse(self._service.header(), request.watch_id, canceled=True))
        await self._tell_asked_progress()

    async def _run(self, watch: _Watch) -> None:
        try:
            await self._serve(watch)
        except Disconnected:
            if not self._has_lost_client:
                self._has_lost_client = True
                self._nursery.start_soon(self._end_lost)

    async def _end_lost(self) -> None:
        """End the watches of a client that takes no messages, although it may still be connected."""
        await self.end()
        self._nursery.cancel_scope.cancel()

    async def _serve(self, watch: _Watch) -> None:
        service = self._service
        with watch.scope, service.ending_watch(self._host, watch.cost):
            while True:
                batch = await self._read(watch)
                if batch is None:
                    await self._end_compacted(watch)
                    return
                if batch.parts:
                    await self._send(watch, batch)
                watch.revision = batch.next_revision
                await self._tell_asked_progress()
                if watch.revision > service.machine.store.revision:
                    await self._wait_for_change(watch)

    async def _read(self, watch: _Watch) -> Batch | None:
        """The next events of a watch; None if they are compacted."""
        service = self._service
        reader = EventReader(watch.request, watch.revision)
        batch = None
        while batch is None:
            await service.reads.begin_part(keys=reader.cost(service.machine.store))
            store = service.machine.store
            if reader.is_compacted(store):
                return None
            batch = reader.read(store)
        return batch

    async def _send(self, watch: _Watch, batch: Batch) -> None:
        async with self.sending:
            response = WatchResponse(self._service.header(batch.next_revision - 1), watch.id)
            await send_events(self._stream, response, batch.parts, watch.request.fragment, self._service.reads)
            watch.revision = batch.next_revision
        watch.delay_progress()

    async def _wait_for_change(self, watch: _Watch) -> None:
        """Wait until there is a change in the range of the watch, and tell the client of progress meanwhile."""
        with self._service.changes.place(Interval.of(watch.request.key, watch.request.range_end)) as place:
            watch.place = place
            try:
                while not place.revision:
                    with trio.move_on_at(watch.progress_at):
                        await place.wait()
                    if not place.revision and trio.current_time() >= watch.progress_at:
                        await self._tell_timed_progress(watch)
                        watch.delay_progress()
            finally:
                watch.revision = self._sent_below(watch)
                watch.place = None

    def _sent_below(self, watch: _Watch) -> int:
        """The revision before which the client has got all events of the watch."""
        place = watch.place
        if place is None:
            return watch.revision
        return max(watch.revision, place.revision or self._service.changes.told_revision + 1)

    async def _tell_timed_progress(self, watch: _Watch) -> None:
        await self._service.reads.begin_part()
        async with self.sending:
            revision = self._sent_below(watch) - 1
            if watch.request.start_revision <= revision:
                await self._stream.send(WatchResponse(self._service.header(revision), watch.id))

    def _ask_for_progress(self) -> None:
        """etcd does not answer without a watch, nor if one waits for a revision of the future."""
        revision = self._service.machine.store.revision
        if self._watches and all(watch.request.start_revision <= revision for watch in self._watches.values()):
            self._asked = self._asked or revision
            self._asked_last = revision

    async def _tell_asked_progress(self) -> None:
        """Answer a request for progress if the client has got all events before it."""
        while self._asked:
            async with self.sending:
                if not self._watches or not self._asked:  # Another task may have answered meanwhile.
                    self._asked = 0
                    return
                store = self._service.machine.store
                revision = min(*map(self._sent_below, self._watches.values()), store.revision + 1) - 1
                if revision < self._asked:
                    return
                self._asked = self._asked_last if revision < self._asked_last else 0
                await self._stream.send(WatchResponse(self._service.header(revision), _NO_WATCH))

    async def _end_compacted(self, watch: _Watch) -> None:
        async with self.sending:
            self._watches.pop(watch.id, None)
            compacted = self._service.machine.store.compacted_revision
            response = WatchResponse(self._service.header(0), watch.id, canceled=True, compact_revision=compacted)
            await self._stream.send(response)
        await self._tell_asked_progress()

    async def _tell(self, response: WatchResponse) -> None:
        async with self.sending:
            await self._stream.send(response)
