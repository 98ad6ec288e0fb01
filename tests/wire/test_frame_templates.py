"""The templates know every field of the messages that they make and read, also one that is added later."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from typing import Any, Final
from uuid import UUID

import attrs
import pytest

from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch, VersionRange
from kraft_trio.wire.apis.fetch import FETCH, FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse
from kraft_trio.wire.apis.produce import (
    PRODUCE,
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
)
from kraft_trio.wire.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    encode_response_parts,
)
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.frame_templates import LENGTH_BYTES, Frames

FETCH_VERSION: Final = FETCH.max_version
PRODUCE_VERSION: Final = PRODUCE.max_version
CORRELATION_ID: Final = 77
CLIENT_ID: Final = "client"

VALUES: Final[dict[Any, tuple[Any, Any]]] = {
    bool: (True, False),
    int: (5, 6),
    str: ("a", "b"),
    str | None: ("a", "b"),
    bytes: (b"records", b"others"),
    bytes | None: (b"records", b"others"),
    UUID: (UUID(int=1), UUID(int=2)),
    ErrorCode: (ErrorCode.none, ErrorCode.not_leader_or_follower),
    OffsetAndEpoch | None: (None, OffsetAndEpoch(3, 2)),
    VersionRange | None: (VersionRange(0, 1), VersionRange(1, 2)),
    Endpoints: (Endpoints({"A": Endpoint("a", 1)}), Endpoints({"A": Endpoint("a", 2)})),
    tuple[tuple[int, Endpoint], ...]: ((), ((1, Endpoint("a", 1)),)),
}
"""Two values of each type.  A message has the first one, which is no default unless another kind of answer has one."""

USUAL: Final = {"session_id": 0, "session_epoch": -1, "error_message": None}
"""First values of fields by which the templates know another kind of message."""

MESSAGES: Final = {
    FetchRequest: FetchPartition,
    FetchResponse: FetchPartitionResponse,
    ProduceRequest: ProducePartition,
    ProduceResponse: ProducePartitionResponse,
}


def values_of(cls: Any) -> dict[str, tuple[Any, Any]]:
    """The two values of each field but `partitions`."""
    hints = typing.get_type_hints(cls)
    found = {field.name: VALUES[hints[field.name]] for field in attrs.fields(cls) if field.name != "partitions"}
    return {name: (USUAL.get(name, first), second) for name, (first, second) in found.items()}


def usual(cls: Any) -> Any:
    partition = MESSAGES[cls](**{name: first for name, (first, _) in values_of(MESSAGES[cls]).items()})
    return cls(**{name: first for name, (first, _) in values_of(cls).items()}, partitions=(partition,))


def with_one_change(cls: Any) -> Iterator[tuple[str, Any]]:
    """The usual message, and for each of its fields one that differs in that field."""
    message = usual(cls)
    [partition] = message.partitions
    yield "nothing", message
    for name, (_, second) in values_of(cls).items():
        yield name, attrs.evolve(message, **{name: second})
    for name, (_, second) in values_of(MESSAGES[cls]).items():
        yield f"partition.{name}", attrs.evolve(message, partitions=(attrs.evolve(partition, **{name: second}),))


def parameters(cls: Any) -> Any:
    return pytest.mark.parametrize("message", [pytest.param(one, id=name) for name, one in with_one_change(cls)])


def second_of_two(codec: Callable[[Any], object], usual_message: Any, message: Any) -> object:
    """What the codec of a connection makes of a message after the usual one."""
    codec(usual_message)
    return codec(message)


@parameters(FetchRequest)
def test_fetch_requests(message: FetchRequest) -> None:
    ours, theirs = Frames(FETCH), Frames(FETCH)

    def general(one: FetchRequest) -> bytes:
        return encode_request(FETCH, FETCH_VERSION, CORRELATION_ID, CLIENT_ID, one)

    def templated(one: FetchRequest) -> bytes:
        return ours.encode_request(FETCH_VERSION, CORRELATION_ID, CLIENT_ID, one)

    assert second_of_two(templated, usual(FetchRequest), message) == general(message)
    frames = [general(one)[LENGTH_BYTES:] for one in (usual(FetchRequest), message)]
    assert second_of_two(theirs.decode_request, *frames) == decode_request(frames[1])


@parameters(FetchResponse)
def test_fetch_responses(message: FetchResponse) -> None:
    ours, theirs = Frames(FETCH), Frames(FETCH)

    def general(one: FetchResponse) -> bytes:
        return b"".join(encode_response_parts(FETCH, FETCH_VERSION, CORRELATION_ID, one))

    def templated(one: FetchResponse) -> bytes:
        return b"".join(ours.encode_response_parts(FETCH_VERSION, CORRELATION_ID, one))

    assert second_of_two(templated, usual(FetchResponse), message) == general(message)
    frames = [general(one)[LENGTH_BYTES:] for one in (usual(FetchResponse), message)]
    read = second_of_two(lambda frame: theirs.decode_response(FETCH_VERSION, frame), *frames)
    assert read == decode_response(FETCH, FETCH_VERSION, frames[1])[1]


@parameters(ProduceRequest)
def test_produce_requests(message: ProduceRequest) -> None:
    frames = [
        encode_request(PRODUCE, PRODUCE_VERSION, CORRELATION_ID, CLIENT_ID, one)[LENGTH_BYTES:]
        for one in (usual(ProduceRequest), message)
    ]
    assert second_of_two(Frames(PRODUCE).decode_request, *frames) == decode_request(frames[1])


@parameters(ProduceResponse)
def test_produce_responses(message: ProduceResponse) -> None:
    ours = Frames(PRODUCE)

    def templated(one: ProduceResponse) -> bytes:
        return b"".join(ours.encode_response_parts(PRODUCE_VERSION, CORRELATION_ID, one))

    made = second_of_two(templated, usual(ProduceResponse), message)
    assert made == encode_response(PRODUCE, PRODUCE_VERSION, CORRELATION_ID, message)


def test_the_usual_messages_have_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tests above compare the general codec with itself."""
    fetches, produces = Frames(FETCH), Frames(PRODUCE)
    frame = encode_request(PRODUCE, PRODUCE_VERSION, CORRELATION_ID, CLIENT_ID, usual(ProduceRequest))[LENGTH_BYTES:]

    def all_of_them() -> None:
        fetches.encode_request(FETCH_VERSION, CORRELATION_ID, CLIENT_ID, usual(FetchRequest))
        fetches.encode_response_parts(FETCH_VERSION, CORRELATION_ID, usual(FetchResponse))
        produces.decode_request(frame)
        produces.encode_response_parts(PRODUCE_VERSION, CORRELATION_ID, usual(ProduceResponse))

    def general(*_: object) -> None:
        pytest.fail("the general codec was used")

    all_of_them()
    for name in ("encode_request", "decode_request", "encode_response_parts"):
        monkeypatch.setattr(f"kraft_trio.wire.frame_templates.{name}", general)
    all_of_them()
