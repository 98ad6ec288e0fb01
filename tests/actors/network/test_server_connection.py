"""What a connection's kernel does not take at once is sent later, part by part, and the answers after it behind it."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast
from uuid import UUID

import pytest
import trio
import trio.testing

from kraft_trio.actors.network.client_lane import ClientLanes
from kraft_trio.actors.network.request_router import RequestRouter
from kraft_trio.actors.network.server_connection import ServerConnection
from kraft_trio.actors.peers.answers import Answer, Awaited, Ready
from kraft_trio.actors.waiting.memory_budget import MemoryBudget
from kraft_trio.channels import Reply
from kraft_trio.errors import UnsupportedVersionError
from kraft_trio.limits.refusals import Refusals
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.wire.api import API_VERSIONS, DESCRIBE_QUORUM, FETCH_SNAPSHOT, PRODUCE
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kraft_trio.wire.apis.produce import ProducePartition, ProduceRequest, ProduceResponse
from kraft_trio.wire.codec import RequestHeader, encode_request, encode_response
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.network import ImmediateStream

PIECE = bytes(range(256)) * 400


class Narrow(ImmediateStream):
    """Takes as many bytes at a time as it likes, often none; notes all it took."""

    def __init__(self, inner: trio.abc.Stream, source: random.Random) -> None:
        self._inner = inner
        self._random = source
        self.taken = bytearray()
        self.has_room = trio.Event()
        self.has_room.set()

    def send_now(self, *parts: bytes | memoryview) -> int:
        size = self._random.choice((0, 1, 50, 60_000, 2**20))
        taken = b"".join(parts)[:size]
        self.taken += taken
        return len(taken)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        raise AssertionError("what is left is sent as there is room")

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()
        await self.has_room.wait()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._inner.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._inner.aclose()


def wide(inner: trio.abc.Stream) -> Narrow:
    stream = Narrow(inner, random.Random(1))
    stream._random.choice = lambda _sizes: 2**20  # type: ignore[method-assign, assignment]
    return stream


class Router:
    def trusts(self, asker: object) -> bool:
        return True

    async def route(self, header: Any, listener_name: str, request: FetchSnapshotRequest, *, asker: Any) -> Answer:
        return Ready(answer_to(request.position))


def answer_to(position: int) -> FetchSnapshotResponse:
    piece = PIECE[position:] if position % 2 else b"small"
    return FetchSnapshotResponse(topic="topic", position=position, size=10**6, unaligned_records=piece)


def request_at(position: int) -> bytes:
    request = FetchSnapshotRequest("cluster", 4, 2**20, "topic", 0, 1, OffsetAndEpoch(10, 1), position)
    return encode_request(FETCH_SNAPSHOT, 1, position, "client", request)


def serving(
    stream: ImmediateStream,
    router: object,
    memory: MemoryBudget | None = None,
    *,
    lanes: ClientLanes | None = None,
    may_be_replica: bool = False,
    max_request_bytes: int = 1000,
) -> ServerConnection:
    """Without lanes that run, no more may be sent than one turn admits."""
    return ServerConnection(
        stream,
        "CONTROLLER",
        cast(RequestRouter, router),
        lanes=lanes or ClientLanes(),
        memory=memory or MemoryBudget(2**24),
        refusals=Refusals(),
        may_be_replica=may_be_replica,
        initial_request_bytes=max_request_bytes,
        max_request_bytes=max_request_bytes,
    )


@asynccontextmanager
async def running(lanes: ClientLanes) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lanes.run)
        yield
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("seed", range(20))
async def test_every_byte_is_sent_once_and_in_order(seed: int) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    stream = Narrow(theirs, random.Random(seed))
    expected = b"".join(encode_response(FETCH_SNAPSHOT, 1, position, answer_to(position)) for position in range(8))
    lanes = ClientLanes()
    async with running(lanes), trio.open_nursery() as nursery:
        nursery.start_soon(serving(stream, Router(), lanes=lanes).run)
        for position in range(8):
            await ours.send_all(request_at(position))
        with trio.fail_after(30):
            while len(stream.taken) < len(expected):
                await trio.lowlevel.checkpoint()
        await ours.aclose()
    assert stream.taken == expected


async def test_a_connection_that_ends_within_a_frame_sends_no_more(autojump_clock: trio.testing.MockClock) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    stream = Narrow(theirs, random.Random())
    stream._random.choice = lambda _sizes: 50  # type: ignore[method-assign, assignment]
    async with trio.open_nursery() as nursery:
        stream.has_room = trio.Event()
        nursery.start_soon(serving(stream, Router()).run)
        await ours.send_all(request_at(1))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    stream.has_room.set()
    assert stream.taken == encode_response(FETCH_SNAPSHOT, 1, 1, answer_to(1))[:50]
    with pytest.raises(trio.ClosedResourceError):
        await theirs.send_all(b"x")


def taken_by_clients() -> MemoryBudget:
    """The memory, with all that clients may hold in use."""
    memory = MemoryBudget(2**24)
    while memory.take_now(memory.per_connection, for_replica=False):
        pass
    return memory


class WithVersions(Router):
    async def route(self, header: Any, listener_name: str, request: Any, *, asker: Any) -> Answer:
        if header.api is API_VERSIONS:
            return Ready(ApiVersionsResponse())
        return await super().route(header, listener_name, request, asker=asker)


@pytest.mark.parametrize("hellos", [0, 1, 2])
async def test_a_replica_can_connect_while_clients_hold_all_their_memory(hellos: int) -> None:
    """Before it can be told from a client, it asks for versions, with SASL after a login."""
    ours, theirs = trio.testing.memory_stream_pair()
    stream = wide(theirs)
    memory, lanes = taken_by_clients(), ClientLanes()
    hello = encode_request(API_VERSIONS, 3, 9, "test", ApiVersionsRequest())
    async with running(lanes), trio.open_nursery() as nursery:
        nursery.start_soon(serving(stream, WithVersions(), memory, lanes=lanes, may_be_replica=True).run)
        await ours.send_all(hello * hellos + request_at(0))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert stream.taken.endswith(encode_response(FETCH_SNAPSHOT, 1, 0, answer_to(0)))


@pytest.mark.parametrize("is_trusted", [False, True])
async def test_only_whom_the_rules_trust_is_a_replica(is_trusted: bool) -> None:
    class Judging(Router):
        def trusts(self, asker: object) -> bool:
            return is_trusted

    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        connection = serving(wide(theirs), Judging(), may_be_replica=True)
        nursery.start_soon(connection.run)
        await ours.send_all(request_at(0))
        await trio.testing.wait_all_tasks_blocked()
        assert connection.is_of_replica is is_trusted
        nursery.cancel_scope.cancel()


async def test_only_the_first_requests_may_be_those_of_a_replica() -> None:
    """Also if they ask for versions in a version that nobody has."""
    ours, theirs = trio.testing.memory_stream_pair()
    stream = wide(theirs)
    memory, lanes = taken_by_clients(), ClientLanes()
    asked = 0

    class TooNew(Router):
        def refuse_version(self, error: UnsupportedVersionError, _listener_name: str) -> tuple[RequestHeader, Answer]:
            nonlocal asked
            asked += 1
            response = ApiVersionsResponse(error=ErrorCode.unsupported_version)
            return RequestHeader(API_VERSIONS, 0, asked), Ready(response)

    hello = bytearray(encode_request(API_VERSIONS, 3, 9, "test", ApiVersionsRequest()))
    hello[6:8] = (99).to_bytes(2, "big")
    async with running(lanes), trio.open_nursery() as nursery:
        nursery.start_soon(serving(stream, TooNew(), memory, lanes=lanes, may_be_replica=True).run)
        await ours.send_all(hello * 20)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert asked == 3


async def test_a_large_first_request_has_no_part_in_the_memory_of_replicas() -> None:
    """Those of replicas are small, and strangers could hold all of it."""
    ours, theirs = trio.testing.memory_stream_pair()
    stream = wide(theirs)
    memory, lanes = taken_by_clients(), ClientLanes()
    request = encode_request(API_VERSIONS, 3, 9, "test", ApiVersionsRequest(client_software_name="x" * 5000))
    async with running(lanes), trio.open_nursery() as nursery:
        connection = serving(stream, WithVersions(), memory, lanes=lanes, may_be_replica=True, max_request_bytes=9000)
        nursery.start_soon(connection.run)
        await ours.send_all(request)
        await trio.testing.wait_all_tasks_blocked()
        assert not stream.taken
        memory.give_back(memory.per_connection)
        await trio.testing.wait_all_tasks_blocked()
        assert stream.taken
        nursery.cancel_scope.cancel()


LARGE = 2**21
LARGE_REQUESTS = {
    "a name": encode_request(API_VERSIONS, 3, 9, "test", ApiVersionsRequest("x" * LARGE)),
    "records": encode_request(
        PRODUCE, 12, 9, "test", ProduceRequest(-1, 9, (ProducePartition("topic", UUID(int=0), 0, bytes(LARGE)),))
    ),
    "a topic": encode_request(
        PRODUCE, 12, 9, "test", ProduceRequest(-1, 9, (ProducePartition("x" * LARGE, UUID(int=0), 0, b""),))
    ),
}


@pytest.mark.parametrize("request_", LARGE_REQUESTS.values(), ids=LARGE_REQUESTS)
async def test_a_request_takes_no_memory_once_it_is_answered(request_: bytes) -> None:
    """It has given back what it took of the budget, and there may be a thousand connections that send no more."""

    class Answering(Router):
        async def route(self, header: Any, listener_name: str, request: object, *, asker: Any) -> Answer:
            return Ready(ApiVersionsResponse() if header.api is API_VERSIONS else ProduceResponse())

    ours, theirs = trio.testing.memory_stream_pair()
    stream = wide(theirs)
    memory, lanes = MemoryBudget(2**24), ClientLanes()
    async with running(lanes), trio.open_nursery() as nursery:
        nursery.start_soon(serving(stream, Answering(), memory, lanes=lanes, max_request_bytes=2**22).run)
        await trio.testing.wait_all_tasks_blocked()
        tracemalloc.start()
        try:
            await ours.send_all(request_)
            await trio.testing.wait_all_tasks_blocked()
            left, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        nursery.cancel_scope.cancel()
    assert stream.taken
    assert most > LARGE
    assert left < LARGE // 8


async def test_clients_that_send_large_requests_slowly_leave_room_for_others() -> None:
    """And give it back when they go in the middle of one."""
    memory, lanes, size = MemoryBudget(2**24), ClientLanes(), 2**22
    slow = [trio.testing.memory_stream_pair() for _ in range(3)]
    ours, theirs = trio.testing.memory_stream_pair()
    stream = wide(theirs)
    async with running(lanes), trio.open_nursery() as nursery:
        for sender, receiver in slow:
            nursery.start_soon(serving(wide(receiver), Router(), memory, lanes=lanes, max_request_bytes=size).run)
            await sender.send_all(request_at(0) + size.to_bytes(4, "big") + bytes(1000))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(serving(stream, Router(), memory, lanes=lanes).run)
        await ours.send_all(request_at(0))
        await trio.testing.wait_all_tasks_blocked()
        assert stream.taken == encode_response(FETCH_SNAPSHOT, 1, 0, answer_to(0))
        for sender, _ in (*slow, (ours, theirs)):
            await sender.aclose()
    assert memory.taken == 0
    await memory.take_for_arrival(size)


async def test_large_requests_that_read_the_log_do_not_wait_for_each_other() -> None:
    """Three that hold all memory of clients would each want more, for its answer."""
    memory, lanes, size = MemoryBudget(2**24), ClientLanes(), 2**22
    replies: list[Reply[Any]] = []

    class Polling(Router):
        async def route(self, header: Any, listener_name: str, request: Any, *, asker: Any) -> Answer:
            if header.api is not API_VERSIONS:
                return await super().route(header, listener_name, request, asker=asker)
            replies.append(Reply())
            return Awaited((replies[-1],), lambda answers: answers[0])

    poll = encode_request(API_VERSIONS, 3, 8, "", ApiVersionsRequest())
    large = FetchSnapshotRequest("c" * (size - 200), 4, 2**20, "topic", 0, 1, OffsetAndEpoch(10, 1), 0)
    readers = [trio.testing.memory_stream_pair() for _ in range(3)]
    ours, theirs = trio.testing.memory_stream_pair()
    stream = wide(theirs)
    async with running(lanes), trio.open_nursery() as nursery:
        for sender, receiver in readers:
            nursery.start_soon(serving(wide(receiver), Polling(), memory, lanes=lanes, max_request_bytes=size).run)
            await sender.send_all(poll + encode_request(FETCH_SNAPSHOT, 1, 9, "", large))
        await trio.testing.wait_all_tasks_blocked()
        for reply in replies:
            reply.answer(ApiVersionsResponse())
        nursery.start_soon(serving(stream, Router(), memory, lanes=lanes).run)
        await ours.send_all(request_at(0))
        await trio.testing.wait_all_tasks_blocked()
        assert stream.taken == encode_response(FETCH_SNAPSHOT, 1, 0, answer_to(0))
        nursery.cancel_scope.cancel()
    assert memory.taken == 0


@pytest.mark.parametrize(("size", "held"), [(40_000, 2), (70_000, 1)])
async def test_requests_of_one_connection_hold_no_more_than_its_share(size: int, held: int) -> None:
    """Small ones, and those that wait before they are received."""
    memory, lanes = MemoryBudget(2**24, per_connection=100_000), ClientLanes()
    ours, theirs = trio.testing.memory_stream_pair()
    router = Silent()
    ask = encode_request(DESCRIBE_QUORUM, 1, 1, "", DescribeQuorumRequest("t" * (size - 50)))
    async with running(lanes), trio.open_nursery() as nursery:
        nursery.start_soon(serving(wide(theirs), router, memory, lanes=lanes, max_request_bytes=size).run)
        await ours.send_all(4 * ask)
        await trio.testing.wait_all_tasks_blocked()
        assert (len(router.replies), memory.waits) == (held, 1)
        router.replies[0].answer(DescribeQuorumResponse(topic="t"))
        await trio.testing.wait_all_tasks_blocked()
        assert (len(router.replies), memory.waits) == (held + 1, 2)
        nursery.cancel_scope.cancel()
    assert memory.taken == 0


async def test_large_request_that_has_arrived_leaves_room_for_the_next() -> None:
    """Although nobody has answered it yet."""
    memory, lanes, size = MemoryBudget(2**24), ClientLanes(), 2**22
    router = Silent()
    large = encode_request(API_VERSIONS, 3, 1, "", ApiVersionsRequest(client_software_name="x" * (size - 100)))
    async with running(lanes), trio.open_nursery() as nursery:
        for _ in range(2):
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(serving(wide(theirs), router, memory, lanes=lanes, max_request_bytes=size).run)
            await ours.send_all(large)
            await trio.testing.wait_all_tasks_blocked()
        assert len(router.replies) == 2
        nursery.cancel_scope.cancel()


class Silent:
    """Routes requests to somebody who answers none of them."""

    def __init__(self) -> None:
        self.replies: list[Reply[Any]] = []
        self.abandoned: list[int] = []

    async def route(self, header: Any, listener_name: str, request: object, *, asker: Any) -> Answer:
        reply: Reply[Any] = Reply()
        reply.when_abandoned(lambda: self.abandoned.append(header.correlation_id))
        self.replies.append(reply)
        return Awaited((reply,), lambda replies: replies[0])


@pytest.mark.parametrize("ending", ["closed", "cancelled", "garbage"])
async def test_unanswered_requests_are_abandoned_at_the_end(ending: str) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    router = Silent()
    lanes = ClientLanes()
    connection = serving(Narrow(theirs, random.Random(1)), router, lanes=lanes)
    async with running(lanes), trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        others = [encode_request(DESCRIBE_QUORUM, 1, number, "", DescribeQuorumRequest("topic")) for number in (1, 2)]
        await ours.send_all(b"".join([request_at(0), *others]))
        await trio.testing.wait_all_tasks_blocked()
        router.replies[0].answer(answer_to(0))
        match ending:
            case "closed":
                await ours.aclose()
            case "garbage":
                await ours.send_all(b"\xff" * 8)
            case "cancelled":
                nursery.cancel_scope.cancel()
    assert router.abandoned == [1, 2]
    router.replies[1].answer(None)
