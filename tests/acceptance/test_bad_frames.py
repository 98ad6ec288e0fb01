"""Bytes that are no request: the connection is closed, everything else continues."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from uuid import UUID

import pytest

from harness.quorum import TOPIC, Quorum
from harness.raw_connection import RawConnection
from harness.waiting import wait_until
from kraft_trio.wire.api import API_VERSIONS, DESCRIBE_QUORUM, FETCH, INIT_PRODUCER_ID, METADATA, VOTE
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest
from kraft_trio.wire.apis.fetch import FetchPartition, FetchRequest
from kraft_trio.wire.apis.init_producer_id import InitProducerIdRequest
from kraft_trio.wire.apis.metadata import MetadataRequest, MetadataTopic
from kraft_trio.wire.codec import decode_response, encode_request
from kraft_trio.wire.error_codes import ErrorCode
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.unharmed import unharmed

CLOSED = "connection closed"


@pytest.fixture(scope="module")
def quorum(make_module_quorum: MakeQuorum) -> Quorum:
    quorum = make_module_quorum(is_steady=True)
    quorum.start()
    return quorum


def request_header(api_key: int, version: int, correlation_id: int = 7) -> bytes:
    """A request header of version 1 with the client id `x`."""
    return struct.pack(">hhih", api_key, version, correlation_id, 1) + b"x"


def whole_request() -> bytes:
    """The frame of a sound request, its length included."""
    return encode_request(DESCRIBE_QUORUM, 1, 1, "x", DescribeQuorumRequest(TOPIC))


GARBAGE = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: quorum\r\n\r\n",
    "TLS hello": bytes.fromhex("16030100f8010000f40303") + random.Random(1).randbytes(240),
    "random": struct.pack(">i", 500) + random.Random(2).randbytes(500),
    "empty frame": struct.pack(">i", 0),
    "header cut": struct.pack(">i", 5) + request_header(18, 3)[:5],
    "client id longer than the frame": struct.pack(">ihhih", 14, 18, 0, 1, 30000) + b"abcd",
    "body of another kind": struct.pack(">i", 40) + request_header(FETCH.key, 11) + b"\xff" * 29,
    "array of a billion": struct.pack(">i", 15) + request_header(METADATA.key, 1) + struct.pack(">i", 10**9),
    "bytes after the body": struct.pack(">i", len(whole_request()) - 4 + 3) + whole_request()[4:] + b"abc",
    "2 GiB": struct.pack(">i", 2**31 - 1) + b"a" * 100,
    "2 GiB, negative": struct.pack(">I", 2**31) + b"a" * 100,
    "above the limit before the first request": struct.pack(">i", 64 * 1024 + 1),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_closes_the_connection(quorum: Quorum, name: str) -> None:
    with unharmed(quorum) as leader:
        already_logged = leader.log_text().count(CLOSED)
        with RawConnection(leader.endpoint) as connection:
            connection.send_bytes(GARBAGE[name])
            assert connection.is_closed_by_peer()
        wait_until("the refusal is logged", lambda: leader.log_text().count(CLOSED) > already_logged)
        assert {event["peer"] for event in leader.log_events() if event["event"] == CLOSED} == {"127.0.0.1"}


@pytest.mark.parametrize("size", [1, 4, 10, len(whole_request()) - 1])
def test_a_cut_frame_closes_the_connection(quorum: Quorum, size: int) -> None:
    with unharmed(quorum) as leader, RawConnection(leader.endpoint) as connection:
        connection.send_bytes(whole_request()[:size])
        connection.end_sending()
        assert connection.is_closed_by_peer()


def test_a_frame_that_never_ends_holds_up_nobody(quorum: Quorum) -> None:
    with unharmed(quorum) as leader:
        hanging = [RawConnection(leader.endpoint) for _ in range(20)]
        for connection in hanging:
            connection.send_bytes(whole_request()[:10])
        quorum.describe(leader)
    for connection in hanging:
        connection.send_bytes(whole_request()[10:])
        _, answer = decode_response(DESCRIBE_QUORUM, 1, connection.read_frame())
        assert answer.leader_id == leader.id
        connection.end_sending()


PARKED_FETCH = FetchRequest(
    max_wait_ms=200,
    min_bytes=1,
    partitions=(FetchPartition(TOPIC, UUID(int=1), 0, fetch_offset=0, max_bytes=1000),),
)
LAST_WORDS = {
    "nothing": b"",
    "half a length": whole_request()[:2],
    "half a request": whole_request()[:10],
    "a request": whole_request(),
    "many requests": whole_request() * 100,
    "a consumer's fetch": encode_request(FETCH, FETCH.max_version, 1, "x", PARKED_FETCH) * 3,
    "a producer id": encode_request(INIT_PRODUCER_ID, 4, 1, "x", InitProducerIdRequest()),
    "garbage": b"\xff" * 100,
}


@pytest.mark.parametrize("name", LAST_WORDS)
def test_a_reset_connection_harms_nobody(quorum: Quorum, name: str) -> None:
    """Whatever state the connection was in, on the leader and on the followers, who pass some requests on."""
    with unharmed(quorum):
        for node in list(quorum.nodes.values()) * 10:
            connection = RawConnection(node.endpoint)
            connection.send_bytes(LAST_WORDS[name])
            connection.reset()


def test_a_huge_length_takes_no_memory(quorum: Quorum) -> None:
    with unharmed(quorum) as leader:
        before = resident_kib(leader.pid)
        for _ in range(20):
            with RawConnection(leader.endpoint) as connection:
                connection.request(API_VERSIONS, ApiVersionsRequest(), version=0)
                connection.send_bytes(struct.pack(">i", 2**31 - 1))
                assert connection.is_closed_by_peer()
        assert resident_kib(leader.pid) < before + 20 * 1024


def resident_kib(pid: int) -> int:
    """Resident memory of a process, as Linux tells it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


@pytest.mark.parametrize(
    ("api_key", "version"), [(999, 0), (-1, 0), (VOTE.key, 99), (VOTE.key, -1), (FETCH.key, 3), (23, 0)]
)
def test_an_unknown_api_or_version_closes_the_connection(quorum: Quorum, api_key: int, version: int) -> None:
    with unharmed(quorum) as leader:

        def is_told() -> bool:
            """Of many closed connections the log tells some: so again, until it tells of this one."""
            with RawConnection(leader.endpoint) as connection:
                connection.send_frame(request_header(api_key, version) + bytes(20))
                assert connection.is_closed_by_peer()
            closed = (line for line in leader.log_text().splitlines() if CLOSED in line)
            return any(str(api_key) in line and f"version {version}" in line for line in closed)

        wait_until("the log names the API and the version", is_told, interval_seconds=0.5)


def test_a_too_new_api_versions_request_is_told_the_range(quorum: Quorum) -> None:
    with unharmed(quorum) as leader, RawConnection(leader.endpoint) as connection:
        connection.send_frame(request_header(API_VERSIONS.key, 99, correlation_id=5) + b"\x00 of a later version")
        correlation_id, answer = decode_response(API_VERSIONS, 0, connection.read_frame())
        assert correlation_id == 5
        assert isinstance(answer, ApiVersionsResponse)
        assert answer.error is ErrorCode.unsupported_version
        assert {(api.key, api.max_version) for api in answer.apis} >= {(API_VERSIONS.key, 4), (FETCH.key, 18)}
        again = connection.request(API_VERSIONS, ApiVersionsRequest(), version=4)
        assert again.error is ErrorCode.none


def test_topics_that_we_do_not_have(quorum: Quorum) -> None:
    unknown_id = UUID(int=77)
    with unharmed(quorum) as leader, RawConnection(leader.endpoint) as connection:
        by_name = connection.request(METADATA, MetadataRequest((MetadataTopic("other"),)), version=9)
        by_id = connection.request(METADATA, MetadataRequest((MetadataTopic(None, unknown_id),)))
        describe = connection.request(DESCRIBE_QUORUM, DescribeQuorumRequest("other"))
    assert [topic.error for topic in by_name.topics] == [ErrorCode.unknown_topic_or_partition]
    assert [topic.error for topic in by_id.topics] == [ErrorCode.unknown_topic_id]
    assert describe.partition_error is ErrorCode.unknown_topic_or_partition
