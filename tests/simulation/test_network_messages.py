"""What the world is shown of the traffic: whole frames, when they are sent and when they are read; and older builds."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.protocol.types import Endpoint
from kraft_trio.simulation.network.link_faults import FrameFate, frames_of
from kraft_trio.simulation.network.message import FrameSplitter
from kraft_trio.wire.api import API_VERSIONS, FETCH, PRODUCE, VOTE, advertised_ranges
from kraft_trio.wire.apis.api_versions import (
    ApiRange,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeature,
    SupportedFeature,
)
from kraft_trio.wire.apis.produce import ProduceRequest
from kraft_trio.wire.apis.vote import VoteResponse
from kraft_trio.wire.codec import decode_response, encode_request, encode_response
from kraft_trio.wire.error_codes import ErrorCode
from tests.simulation.echo_world import EchoWorld, answer_frame, request_frame
from tests.wire.test_round_trips import VOTE_REQUEST

Clock = trio.testing.MockClock

ENDPOINT = Endpoint("b", 9093)
PRODUCE_REQUEST = ProduceRequest(0, 1000, ())


async def test_a_message_is_shown_when_sent_and_when_read(autojump_clock: Clock) -> None:
    world = EchoWorld(("a", "b"))
    shown = []
    world.network.on_message = lambda message: shown.append((message, message.delivered, trio.current_time()))
    async with world.running():
        near, far = await pair(world)
        begun = trio.current_time()
        await near.send_all(encode_request(VOTE, 2, 7, "me", VOTE_REQUEST))
        await trio.sleep(1)
        await far.receive_some()
        (message, *sent), (same, *delivered) = shown
        assert message is same
        assert sent == [False, begun]
        assert delivered == [True, begun + 1], "not when it arrives: when the process has read it"
        assert (message.source, message.target, message.is_request) == ("a", "b", True)
        assert (message.api, message.version, message.correlation_id) == (VOTE, 2, 7)
        assert message.sent_at_s == begun
        assert message.value == VOTE_REQUEST
        assert message.value is message.value, "decoded once"


async def pair(world: EchoWorld):
    """A connection from a to b of which the test has both ends."""
    world.network.disconnect_host("b", silent=False)
    listener = await world.network.seen_from("b").listen(ENDPOINT)
    near = await world.network.seen_from("a").connect(ENDPOINT)
    return near, await listener.accept()


async def test_an_answer_knows_its_request(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        near, far = await pair(world)
        response = VoteResponse(vote_granted=True, leader_epoch=5, topic=VOTE_REQUEST.topic)
        await near.send_all(encode_request(PRODUCE, 9, 6, "me", PRODUCE_REQUEST))
        await near.send_all(encode_request(VOTE, 2, 7, "me", VOTE_REQUEST))
        await far.send_all(encode_response(VOTE, 2, 7, response))
        await far.send_all(answer_frame(6))
        _, request, answer, stray = world.sent
        assert answer.request is request
        assert (answer.source, answer.target, answer.is_request) == ("b", "a", False)
        assert (answer.api, answer.version, answer.value) == (VOTE, 2, response)
        assert stray.request is None, "answers come in order: the one to 6 was left out for good"
        assert (stray.api, stray.value) == (None, None)
        assert "request 7 a -> b" in repr(request)


async def test_an_answer_to_nothing_takes_no_other_requests_place(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        near, far = await pair(world)
        await near.send_all(request_frame(6))
        await far.send_all(answer_frame(5))
        await far.send_all(answer_frame(6))
        request, stray, answer = world.sent
        assert (stray.request, answer.request) == (None, request)


async def test_what_is_no_request_has_no_value(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        near, _far = await pair(world)
        await near.send_all(request_frame(1))
        await near.send_all(bytes.fromhex("00000008 7fff0000 00000001"))
        await near.send_all(bytes.fromhex("00000002 0000"))
        known, unknown = world.sent
        assert (known.api, known.value) == (FETCH, None)
        assert (unknown.api, unknown.api_key, unknown.value) == (None, 0x7FFF, None)


@pytest.mark.parametrize("size", [1, 3, 7])
async def test_a_frame_sent_in_pieces_is_one_message(autojump_clock: Clock, size: int) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        near, far = await pair(world)
        frames = request_frame(1) + request_frame(2) + request_frame(3)[:9]
        for start in range(0, len(frames), size):
            await near.send_all(frames[start : start + size])
        assert [message.raw for message in world.sent] == [request_frame(1), request_frame(2)]
        received = b""
        while len(received) < len(frames):
            received += await far.receive_some(5)
            assert len(world.delivered) == len(received) // len(request_frame(1)), "delivered with its last byte"
        assert received == frames


async def test_a_frame_above_the_window_is_one_message_if_taken_whole(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world, trio.open_nursery() as nursery:
        near, far = await pair(world)
        frame = request_frame(1, body=bytes(3 * 2**20))
        nursery.start_soon(near.send_all, frame)
        await trio.testing.wait_all_tasks_blocked()
        assert world.sent == []
        received = 0
        while received < len(frame):
            received += len(await far.receive_some())
        assert [message.raw == frame for message in world.delivered] == [True]


async def test_garbage_is_carried_but_is_no_message(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        near, far = await pair(world)
        garbage = b"GET / HTTP/1.1\r\n\r\n"
        await near.send_all(garbage)
        await near.send_all(request_frame(1))
        received = b""
        while len(received) < len(garbage + request_frame(1)):
            received += await far.receive_some()
        assert received == garbage + request_frame(1)
        assert world.sent == []


async def test_requests_are_counted_by_host_and_api(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        world.network.plan(frames_of(VOTE, is_request=True), FrameFate.RESET)
        for source, target, api in (("a", "b", FETCH), ("a", "b", VOTE), ("b", "a", FETCH), ("a", "b", FETCH)):
            await world.ask(source, target, api=api, reconnect=True)
        assert dict(world.network.requests_sent) == {
            ("a", FETCH.key): 2,
            ("a", VOTE.key): 1,
            ("b", FETCH.key): 1,
        }


@given(st.lists(st.binary(max_size=9), max_size=6), st.lists(st.integers(1, 12), min_size=1, max_size=9))
def test_frames_are_found_however_their_bytes_are_cut(bodies: list[bytes], sizes: list[int]) -> None:
    frames = [len(body).to_bytes(4, "big") + body for body in bodies]
    stream = b"".join(frames)
    splitter, found, carried, position, turn = FrameSplitter(), [], b"", 0, 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        for piece, frame in splitter.split(stream[position : position + size]):
            assert piece
            carried += piece
            if frame is not None:
                assert carried.endswith(frame[-len(piece) :])
                assert len(carried) == len(b"".join(frames[: len(found) + 1])), "its last byte is the piece's last"
                found.append(frame)
        position, turn = position + size, turn + 1
    assert found == frames
    assert carried == stream


# Older builds

HELLO = encode_request(API_VERSIONS, 4, 1, "me", ApiVersionsRequest())
CURRENT = ApiVersionsResponse(
    apis=advertised_ranges(),
    supported_features=(SupportedFeature("kraft.version", 0, 1), SupportedFeature("other", 1, 9)),
    finalized_features=(FinalizedFeature("kraft.version", 1),),
    finalized_features_epoch=3,
)


async def told(world: EchoWorld, opener: str, acceptor: str, response: ApiVersionsResponse = CURRENT, version: int = 4):
    """What the opener of a connection reads as the answer to its ApiVersions."""
    endpoint = attrs.evolve(ENDPOINT, host=acceptor, port=9094)
    listener = await world.network.seen_from(acceptor).listen(endpoint)
    near = await world.network.seen_from(opener).connect(endpoint)
    far = await listener.accept()
    await listener.aclose()
    await near.send_all(HELLO)
    await far.receive_some()
    assert far.send_now(encode_response(API_VERSIONS, version, 1, response)) > 0
    return decode_response(API_VERSIONS, version, (await near.receive_some())[4:])[1]


def range_of(response: ApiVersionsResponse, key: int) -> ApiRange | None:
    return next((api for api in response.apis if api.key == key), None)


@pytest.mark.parametrize(("opener", "acceptor"), [("a", "b"), ("b", "a")], ids=["it is asked", "it asks"])
async def test_both_sides_of_an_older_build_use_what_it_has(autojump_clock: Clock, opener: str, acceptor: str) -> None:
    async with EchoWorld(("a", "b", "c")).running() as world:
        assert not world.network.has_caps
        world.network.cap_versions("b", {VOTE.key: 1, PRODUCE.key: -1}, kraft_version=0)
        response = await told(world, opener, acceptor)
        assert range_of(response, VOTE.key) == ApiRange(VOTE.key, VOTE.advertised_min_version, 1)
        assert range_of(response, PRODUCE.key) is None
        assert range_of(response, FETCH.key) == range_of(CURRENT, FETCH.key)
        assert response.supported_features == (
            SupportedFeature("kraft.version", 0, 0),
            SupportedFeature("other", 1, 9),
        )
        assert world.sent[-1].value == response, "what is shown is what was on the wire"
        assert await told(world, "a", "c") == CURRENT
        world.network.end_faults()
        assert await told(world, opener, acceptor) == response, "an old build stays old"
        world.network.uncap_versions("b")
        assert await told(world, opener, acceptor) == CURRENT
        assert world.network.has_caps, "on the connections from before it is as old as it was (seed 510243)"
        for host in ("a", "b"):
            world.network.disconnect_host(host, silent=False)
        assert not world.network.has_caps


async def test_a_cap_leaves_versions_alone_that_are_old_enough(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        world.network.cap_versions("b", {VOTE.key: 99})
        assert await told(world, "a", "b") == CURRENT


async def test_the_refusal_of_a_too_new_version_is_passed_unchanged(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        world.network.cap_versions("b", {API_VERSIONS.key: 1})
        refusal = ApiVersionsResponse(ErrorCode.unsupported_version, (ApiRange(API_VERSIONS.key, 0, 3),))
        assert await told(world, "a", "b", refusal, version=0) == refusal
        assert world.sent[-1].value == refusal
