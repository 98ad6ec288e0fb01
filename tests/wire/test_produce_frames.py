"""The templates of Produce frames say exactly what the general codec says."""

from __future__ import annotations

import gc
from uuid import UUID

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_trio.errors import ProtocolError, UnsupportedVersionError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire import frame_templates
from kraft_trio.wire.api import PRODUCE
from kraft_trio.wire.apis.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
)
from kraft_trio.wire.codec import decode_request, encode_request, encode_response
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.frame_templates import Frames
from tests.support import sizes
from tests.wire.values import VALUES

VERSIONS = range(PRODUCE.min_version, PRODUCE.max_version + 1)
NEWEST = PRODUCE.max_version
REQUEST = ProduceRequest(-1, 30_000, (ProducePartition("topic", UUID(int=7), 0, b"records"),))
ANSWER = ProducePartitionResponse("topic", UUID(int=7), 0, base_offset=100, log_start_offset=3)
RESPONSE = ProduceResponse((ANSWER,))
OFFSET = st.integers(-1, 2**63 - 1)
RECORDS = st.none() | st.binary(max_size=300) | st.sampled_from([b"x" * 127, b"y" * 126, b"z" * 20_000])


def with_records(request: ProduceRequest, records: bytes | None) -> ProduceRequest:
    return attrs.evolve(request, partitions=tuple(attrs.evolve(each, records=records) for each in request.partitions))


@settings(max_examples=300 if sizes.IS_ALL else 25)
@given(st.data(), st.sampled_from(VERSIONS), st.none() | st.text(max_size=5))
def test_requests_are_those_of_the_general_codec(data: st.DataObject, version: int, client_id: str | None) -> None:
    frames = Frames(PRODUCE)
    request = data.draw(st.just(REQUEST) | VALUES["Produce", "request"])
    for number in range(data.draw(st.integers(2, 6))):
        if data.draw(st.integers(0, 4)) == 0:
            request = data.draw(VALUES["Produce", "request"])
        request = with_records(request, data.draw(RECORDS))
        frame = encode_request(PRODUCE, version, number, client_id, request)[4:]
        assert frames.decode_request(frame) == decode_request(frame)


@settings(max_examples=300 if sizes.IS_ALL else 25)
@given(st.data(), st.sampled_from(VERSIONS))
def test_responses_are_those_of_the_general_codec(data: st.DataObject, version: int) -> None:
    frames = Frames(PRODUCE)
    response = data.draw(st.just(RESPONSE) | VALUES["Produce", "response"])
    for number in range(data.draw(st.integers(2, 6))):
        if data.draw(st.integers(0, 4)) == 0:
            response = data.draw(VALUES["Produce", "response"])
        answers = [
            attrs.evolve(each, base_offset=data.draw(OFFSET), log_start_offset=data.draw(OFFSET))
            for each in response.partitions
        ]
        response = attrs.evolve(response, partitions=tuple(answers))
        parts = frames.encode_response_parts(version, number, response)
        assert b"".join(parts) == encode_response(PRODUCE, version, number, response)


@pytest.mark.parametrize(
    "other",
    [
        ProduceResponse((attrs.evolve(ANSWER, error=ErrorCode.request_timed_out, error_message="late"),)),
        ProduceResponse((attrs.evolve(ANSWER, error=ErrorCode.not_leader_or_follower),)),
        ProduceResponse((attrs.evolve(ANSWER, leader_id=2, leader_epoch=5),), ((2, Endpoint("host", 9)),)),
        ProduceResponse((attrs.evolve(ANSWER, partition=1),)),
        ProduceResponse((ANSWER, ANSWER)),
        ProduceResponse(()),
    ],
)
def test_another_kind_of_response_does_not_take_the_template(other: ProduceResponse) -> None:
    frames = Frames(PRODUCE)
    for response in (RESPONSE, other, RESPONSE):
        parts = frames.encode_response_parts(NEWEST, 1, response)
        assert b"".join(parts) == encode_response(PRODUCE, NEWEST, 1, response)


def outcome(decode, frame: bytes):
    try:
        return decode(frame)
    except (ProtocolError, UnsupportedVersionError) as error:
        return str(error)


@settings(max_examples=300 if sizes.IS_ALL else 50)
@given(st.data(), st.sampled_from(range(PRODUCE.flexible_version, NEWEST + 1)))
def test_damaged_frames_are_judged_by_the_general_codec(data: st.DataObject, version: int) -> None:
    frames = Frames(PRODUCE)
    frame = encode_request(PRODUCE, version, 1, "client", REQUEST)[4:]
    frames.decode_request(frame)
    damaged = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 3))):
        # Byte 0 and 1 are the API key.
        damaged[data.draw(st.integers(2, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    for wrong in (
        bytes(damaged),
        bytes(damaged[: data.draw(st.integers(8, len(damaged)))]),
        bytes(damaged) + data.draw(st.binary(max_size=3)),
    ):
        assert outcome(frames.decode_request, wrong) == outcome(decode_request, wrong)


def test_an_endless_length_is_not_read() -> None:
    frames = Frames(PRODUCE)
    frame = encode_request(PRODUCE, NEWEST, 1, "client", REQUEST)[4:]
    frames.decode_request(frame)
    head = frame[: frame.index(b"records") - 1]
    endless = head + b"\xff" * 100_000
    assert outcome(frames.decode_request, endless) == outcome(decode_request, endless)


def forbidden(*_arguments: object) -> None:
    raise AssertionError("the general codec has a template")


def test_requests_like_the_last_one_need_no_general_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = Frames(PRODUCE)
    requests = [
        encode_request(PRODUCE, NEWEST, number, "client", with_records(REQUEST, bytes(100 * number)))[4:]
        for number in range(10)
    ]
    expected = [decode_request(frame) for frame in requests]
    frames.decode_request(requests[0])
    frames.encode_response_parts(NEWEST, 0, RESPONSE)
    for name in ("decode_request", "encode_response_parts"):
        monkeypatch.setattr(frame_templates, name, forbidden)
    for number in range(1, 10):
        assert frames.decode_request(requests[number]) == expected[number]
        response = ProduceResponse((attrs.evolve(ANSWER, base_offset=number),))
        assert frames.encode_response_parts(NEWEST, number, response) == [
            encode_response(PRODUCE, NEWEST, number, response)
        ]


def test_a_template_keeps_no_records() -> None:
    frames = Frames(PRODUCE)
    frame = encode_request(PRODUCE, NEWEST, 1, "client", with_records(REQUEST, bytes(1_000_000)))[4:]
    frames.decode_request(frame)
    del frame
    gc.collect()
    kept = [held for held in gc.get_objects() if isinstance(held, ProducePartition)]
    assert not [partition for partition in kept if len(partition.records or b"") > 1000]
