"""The words of `wire/fields.py`, and what the declarations of real messages must not get wrong."""

from __future__ import annotations

import struct
from typing import Annotated, Any, ClassVar
from uuid import UUID

import attrs
import pytest

from harness.plain_messages import read_plain, write_plain
from kraft_trio.errors import ProtocolError, UnsupportedVersionError
from kraft_trio.protocol.types import OffsetAndEpoch, VersionRange
from kraft_trio.wire.api import (
    BEGIN_QUORUM_EPOCH,
    DESCRIBE_QUORUM,
    END_QUORUM_EPOCH,
    FETCH,
    FETCH_SNAPSHOT,
    PRODUCE,
    UPDATE_RAFT_VOTER,
    VOTE,
)
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest
from kraft_trio.wire.apis.fetch import FetchPartitionResponse, FetchRequest, FetchResponse
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterResponse
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import (
    INLINE,
    SHARED,
    ByTopic,
    Error,
    Int16,
    Int32,
    Nest,
    Parts,
    Place,
    String,
    Uuid,
    Via,
)
from kraft_trio.wire.schema import structure_of
from kraft_trio.wire.schema_reader import message_reader
from kraft_trio.wire.schema_writer import message_writer

LEADER = Nest("leader", Place(since=1, tag=3))


@attrs.frozen
class Partition:
    topic: Annotated[String, SHARED]
    number: Int32
    end: Annotated[OffsetAndEpoch | None, Parts(epoch=Int32, offset=Int32), INLINE] = None


@attrs.frozen
class Message:
    throttle_ms: ClassVar[Annotated[Int32, Place(since=1)]] = 0
    name: Annotated[String | None, "called", Place(after="count")]
    count: Annotated[Int16, Place(since=1, needs="v{version} counts nothing")] = 0
    partitions: Annotated[tuple[Partition, ...], ByTopic("topics")] = ()
    pairs: tuple[tuple[Annotated[String, "key"], Uuid], ...] | None = ()
    words: Annotated[str, Via(tuple[String, ...], read="' '.join({})", write=str.split)] = ""
    leader_id: Annotated[Int32, LEADER] = -1
    leader_error: Annotated[Error, LEADER] = ErrorCode.none
    old_leader_id: ClassVar[Annotated[Int32, Place(until=0, of="leader_id")]]


MESSAGE = Message(
    "n",
    4,
    (Partition("a", 1, OffsetAndEpoch(7, 2)), Partition("a", 2), Partition("b", 1)),
    (("key", UUID(int=1)),),
    "two words",
    5,
)


def written(version: int, message: Message) -> bytes:
    chunks: list[bytes] = []
    message_writer(structure_of(Message, version, flexible=True), "Message")(chunks, message)
    return b"".join(chunks)


def read(version: int, data: bytes) -> object:
    return message_reader(structure_of(Message, version, flexible=True), "Message")(data, 0, 100)


def test_a_message_comes_back() -> None:
    assert read(1, written(1, MESSAGE)) == MESSAGE


def test_a_tag_needs_a_flexible_version() -> None:
    with pytest.raises(AssertionError, match="version 1 has no tags"):
        structure_of(Message, 1, flexible=False)


def test_the_fields_lie_as_declared() -> None:
    fields = read_plain(structure_of(Message, 1, flexible=True), written(1, MESSAGE))
    assert list(fields) == ["throttle_ms", "count", "called", "topics", "pairs", "words", "leader"]
    assert [[one["number"] for one in topic["partitions"]] for topic in fields["topics"]] == [[1, 2], [1]]
    assert fields["topics"][1]["partitions"] == [{"number": 1, "epoch": -1, "offset": -1}]
    assert fields["words"] == ["two", "words"]
    assert fields["leader"] == {"leader_id": 5, "leader_error": 0}


def test_an_older_version_has_another_place_for_it() -> None:
    older = attrs.evolve(MESSAGE, count=0)
    fields = read_plain(structure_of(Message, 0, flexible=True), written(0, older))
    assert fields["old_leader_id"] == 5
    assert "leader" not in fields
    assert read(0, written(0, older)) == older


def test_what_an_older_version_cannot_express_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="v0 counts nothing"):
        written(0, MESSAGE)


def test_what_the_class_has_no_attribute_for_is_dropped() -> None:
    structure = structure_of(Message, 1, flexible=True)
    fields = read_plain(structure, written(1, MESSAGE))
    assert read(1, write_plain(structure, {**fields, "throttle_ms": 9})) == MESSAGE


def test_the_leader_that_a_peer_does_not_tell_is_none_and_not_node_0() -> None:
    chunks: list[bytes] = []
    UPDATE_RAFT_VOTER.encode_response(UpdateRaftVoterResponse(ErrorCode.none), 0, chunks)
    body = b"".join(chunks)
    assert body == bytes(4 + 2 + 1)
    assert UPDATE_RAFT_VOTER.decode_response(0, body, 0, 10).leader_id == -1


@pytest.mark.parametrize("api", [VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH_SNAPSHOT])
def test_no_endpoint_is_that_of_no_leader(api: Api[Any, Any]) -> None:
    """A refusal names no leader, so that -1 is no id to look for among the node endpoints."""
    node = {"item_0": -1, "host": "h", "port": 1}
    fields = {"throttle_time_ms": 0, "error": ErrorCode.not_controller, "topics": [], "node_endpoints": [node]}
    body = write_plain(api.structure("response", 1), fields)
    response = api.decode_response(1, body, 0, 10)
    assert (response.error, response.leader_id, response.leader_endpoint) == (ErrorCode.not_controller, -1, None)


@pytest.mark.parametrize("name", ["diverging", "snapshot_id"])
def test_a_tagged_structure_of_unknown_values_is_not_sent(name: str) -> None:
    answer = FetchPartitionResponse("t", UUID(int=1), 0)
    written: list[list[bytes]] = []
    for one in (answer, attrs.evolve(answer, **{name: OffsetAndEpoch(-1, -1)})):
        written.append([])
        FETCH.encode_response(FetchResponse(partitions=(one,)), FETCH.max_version, written[-1])
    assert b"".join(written[0]) == b"".join(written[1])


def test_a_tagged_range_of_unknown_versions_is_not_sent() -> None:
    chunks: list[bytes] = []
    FETCH.encode_request(FetchRequest(kraft_versions=VersionRange(-1, -1)), FETCH.max_version, chunks)
    assert "kraft_versions" not in read_plain(FETCH.structure("request", FETCH.max_version), b"".join(chunks))


def test_a_refusal_names_the_field_that_is_malformed() -> None:
    """A partition has two error messages (KIP-467), its own and those of records."""
    body = struct.pack(">ihc", 1, 1, b"t") + struct.pack(">iihqqq", 1, 0, 0, 0, 0, 0) + struct.pack(">iih", 1, 0, -2)
    with pytest.raises(ProtocolError, match=r"Produce v8 response: batch_index_error_message: length -2"):
        PRODUCE.decode_response(8, body, 0, 10)


def test_a_question_about_no_producer_has_no_tag() -> None:
    chunks: list[bytes] = []
    DESCRIBE_QUORUM.encode_request(DescribeQuorumRequest("t"), 2, chunks)
    assert "producer_ids" not in read_plain(DESCRIBE_QUORUM.structure("request", 2), b"".join(chunks))
