"""The templates of Fetch frames say exactly what the general codec says."""

from __future__ import annotations

from uuid import UUID

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_trio.errors import ProtocolError, UnsupportedVersionError
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.wire import frame_templates
from kraft_trio.wire.api import FETCH, VOTE
from kraft_trio.wire.apis.fetch import (
    UNSUPPORTED_HIGH_WATERMARK,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
)
from kraft_trio.wire.apis.vote import VoteRequest
from kraft_trio.wire.codec import (
    PART_BYTES,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    encode_response_parts,
)
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.frame_templates import Frames
from tests.support import sizes
from tests.wire.values import VALUES

INT32 = st.integers(-1, 2**31 - 1)
INT64 = st.integers(-1, 2**63 - 1)
VERSIONS = range(FETCH.min_version, FETCH.max_version + 1)
NEWEST = FETCH.max_version

REQUEST_KEY = ReplicaKey(1, UUID(int=9))
REQUEST = FetchRequest(
    cluster_id="cluster",
    replica_id=2,
    partitions=(FetchPartition("topic", UUID(int=7), 0, 100, 8_000_000, 5, 5, -1, UUID(int=9), high_watermark=99),),
)
RESPONSE = FetchResponse(
    partitions=(
        FetchPartitionResponse(
            "topic",
            UUID(int=7),
            0,
            high_watermark=100,
            last_stable_offset=100,
            log_start_offset=3,
            records=b"records",
            leader_id=1,
            leader_epoch=5,
        ),
    )
)


def request_at(request: FetchRequest, **numbers: int) -> FetchRequest:
    return attrs.evolve(request, partitions=tuple(attrs.evolve(each, **numbers) for each in request.partitions))


def response_with(response: FetchResponse, **values: object) -> FetchResponse:
    return attrs.evolve(response, partitions=tuple(attrs.evolve(each, **values) for each in response.partitions))


@st.composite
def requests(draw: st.DrawFn) -> list[FetchRequest]:
    """Fetches of which most differ from the one before in the numbers alone."""
    request = draw(st.just(REQUEST) | VALUES["Fetch", "request"])
    made = [request]
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.integers(0, 4)) == 0:
            request = draw(VALUES["Fetch", "request"])
        numbers = {"fetch_offset": INT64, "last_fetched_epoch": INT32, "high_watermark": INT64}
        made.append(request_at(request, **{name: draw(values) for name, values in numbers.items()}))
    return made


@st.composite
def responses(draw: st.DrawFn) -> list[FetchResponse]:
    response = draw(st.just(RESPONSE) | VALUES["Fetch", "response"])
    made = [response]
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.integers(0, 4)) == 0:
            response = draw(VALUES["Fetch", "response"])
        numbers = {"high_watermark": INT64, "last_stable_offset": INT64, "log_start_offset": INT64}
        records = draw(st.binary(max_size=300) | st.sampled_from([b"x" * PART_BYTES, b"y" * (PART_BYTES - 1)]))
        values = {name: draw(values) for name, values in numbers.items()}
        made.append(response_with(response, records=records, **values))
    return made


@settings(max_examples=300 if sizes.IS_ALL else 25)
@given(requests(), st.sampled_from(VERSIONS), st.text(max_size=5))
def test_requests_are_those_of_the_general_codec(made: list[FetchRequest], version: int, client_id: str) -> None:
    client, server = Frames(FETCH), Frames(FETCH)
    for number, request in enumerate(made):
        frame = encode_request(FETCH, version, number, client_id, request)
        assert client.encode_request(version, number, client_id, request) == frame
        assert server.decode_request(frame[4:]) == decode_request(frame[4:])


@settings(max_examples=300 if sizes.IS_ALL else 25)
@given(responses(), st.sampled_from(VERSIONS))
def test_responses_are_those_of_the_general_codec(made: list[FetchResponse], version: int) -> None:
    server, client = Frames(FETCH), Frames(FETCH)
    for number, response in enumerate(made):
        parts = server.encode_response_parts(version, number, response)
        assert b"".join(parts) == encode_response(FETCH, version, number, response)
        frame = b"".join(parts)[4:]
        assert client.decode_response(version, frame) == decode_response(FETCH, version, frame)[1]


def outcome(decode, *arguments):
    try:
        return decode(*arguments)
    except (ProtocolError, UnsupportedVersionError) as error:
        return str(error)


@settings(max_examples=300 if sizes.IS_ALL else 25)
@given(st.data())
def test_damaged_frames_are_judged_by_the_general_codec(data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(range(FETCH.flexible_version, NEWEST + 1)))
    frames = Frames(FETCH)
    request = encode_request(FETCH, version, 1, "client", REQUEST)[4:]
    response = encode_response(FETCH, version, 1, RESPONSE)[4:]
    frames.decode_request(request)
    frames.decode_response(version, response)
    for frame, ours, general in (
        (request, lambda frame: frames.decode_request(frame), decode_request),
        (
            response,
            lambda frame: frames.decode_response(version, frame),
            lambda frame: decode_response(FETCH, version, frame)[1],
        ),
    ):
        damaged = bytearray(frame)
        for _ in range(data.draw(st.integers(1, 3))):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        cut = bytes(damaged[: data.draw(st.integers(8, len(damaged)))])
        extended = bytes(damaged) + data.draw(st.binary(max_size=3))
        for wrong in (bytes(damaged), cut, extended):
            assert outcome(ours, wrong) == outcome(general, wrong)


def forbidden(*_arguments: object) -> None:
    raise AssertionError("the general codec has a template")


def test_fetches_like_the_last_one_need_no_general_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    client, server = Frames(FETCH), Frames(FETCH)
    first = client.encode_request(NEWEST, 0, "client", REQUEST)
    server.decode_request(first[4:])
    (answer,) = server.encode_response_parts(NEWEST, 0, RESPONSE)
    client.decode_response(NEWEST, answer[4:])
    for name in ("encode_request", "decode_request", "encode_response_parts", "decode_response"):
        monkeypatch.setattr(frame_templates, name, forbidden)
    for number in range(1, 10):
        request = request_at(REQUEST, fetch_offset=100 + number, last_fetched_epoch=5, high_watermark=number)
        header, read = server.decode_request(client.encode_request(NEWEST, number, "client", request)[4:])
        assert (header.correlation_id, read.partitions[0].fetch_offset) == (number, 100 + number)
        records = bytes(number * 1000)
        parts = server.encode_response_parts(NEWEST, number, response_with(RESPONSE, records=records))
        assert client.decode_response(NEWEST, b"".join(parts)[4:]).partitions[0].records == records


@pytest.mark.parametrize(
    "other",
    [
        response_with(RESPONSE, error=ErrorCode.not_leader_or_follower),
        response_with(RESPONSE, diverging=OffsetAndEpoch(5, 4)),
        response_with(RESPONSE, snapshot_id=OffsetAndEpoch(5, 4)),
        response_with(RESPONSE, read_round=3),
        response_with(RESPONSE, leader_epoch=6),
        attrs.evolve(RESPONSE, error=ErrorCode.invalid_request, partitions=()),
    ],
)
def test_another_kind_of_response_does_not_take_the_template(other: FetchResponse) -> None:
    server, client = Frames(FETCH), Frames(FETCH)
    for response in (RESPONSE, other, RESPONSE):
        frame = b"".join(server.encode_response_parts(NEWEST, 1, response))
        assert frame == encode_response(FETCH, NEWEST, 1, response)
        assert client.decode_response(NEWEST, frame[4:]) == decode_response(FETCH, NEWEST, frame[4:])[1]


def test_a_peer_whose_fetches_always_differ_costs_few_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(frame_templates._Template, "like", lambda *arguments: made.append(arguments))
    frames = Frames(FETCH)
    for number in range(1000):
        frames.encode_request(NEWEST, number, "client", attrs.evolve(REQUEST, read_round=number))
    assert len(made) == 10


def test_a_replica_without_a_high_watermark_has_no_template() -> None:
    frames = Frames(FETCH)
    request = request_at(REQUEST, high_watermark=UNSUPPORTED_HIGH_WATERMARK)
    for number, each in enumerate((request, REQUEST, request)):
        assert frames.encode_request(NEWEST, number, "c", each) == encode_request(FETCH, NEWEST, number, "c", each)


def test_requests_of_other_apis_are_decoded_as_usual() -> None:
    frames = Frames(FETCH)
    frames.decode_request(encode_request(FETCH, NEWEST, 1, "client", REQUEST)[4:])
    vote = VoteRequest("c", 2, "t", 0, REQUEST_KEY, 5, UUID(int=0), 100, 4, pre_vote=True)
    frame = encode_request(VOTE, VOTE.max_version, 1, "client", vote)[4:]
    assert frames.decode_request(frame) == decode_request(frame)


def test_large_records_are_not_copied() -> None:
    frames = Frames(FETCH)
    records = bytes(PART_BYTES)
    for response in (RESPONSE, response_with(RESPONSE, records=records)):
        parts = frames.encode_response_parts(NEWEST, 1, response)
    assert any(part is records for part in parts)
    assert b"".join(parts) == b"".join(encode_response_parts(FETCH, NEWEST, 1, response))
