"""What peers send is not believed: any bytes lead to ProtocolError or UnsupportedVersionError, fast and small."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.plain_messages import write_plain
from kraft_trio.errors import ProtocolError, UnsupportedVersionError
from kraft_trio.protocol.types import NO_DIRECTORY_ID, OffsetAndEpoch, ReplicaKey
from kraft_trio.wire.api import (
    ADD_RAFT_VOTER,
    APIS,
    BEGIN_QUORUM_EPOCH,
    DESCRIBE_QUORUM,
    END_QUORUM_EPOCH,
    FETCH_SNAPSHOT,
    METADATA,
    PRODUCE,
    UPDATE_FEATURES,
    VOTE,
)
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.metadata import MetadataRequest, MetadataTopic
from kraft_trio.wire.apis.vote import VoteResponse
from kraft_trio.wire.codec import (
    UnsupportedRequestError,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema_reader import REQUEST_ELEMENTS
from kraft_trio.wire.schema_writer import unsigned_varint
from tests.support import sizes
from tests.wire.values import ALL_VERSIONS, VALUES

EMPTY_VOTE_RESPONSE = bytes.fromhex("00000001 00 0000 01 00")
"""Correlation id 1, no tagged fields; error 0, no topics, no tagged fields."""


def request_frame(api, version, body):
    header = struct.pack(">hhih", api.key, version, 1, -1)
    return header + (b"\0" if api.request_header_version(version) == 2 else b"") + body


HUGE_COUNTS = [
    (METADATA, 1, struct.pack(">i", 2**31 - 1), "topics: 2147483647 elements"),
    (METADATA, 13, b"\xff\xff\xff\xff\x0f", "topics: 4294967294 elements"),
    (PRODUCE, 3, struct.pack(">hhii", -1, -1, 0, 2**31 - 1), "topic_data: 2147483647 elements"),
    (VOTE, 2, b"\0" + struct.pack(">i", 1) + b"\xff\xff\xff\xff\x07", "topics: 2147483646 elements"),
    (END_QUORUM_EPOCH, 0, struct.pack(">hih", -1, 1, 0) + struct.pack(">iiiii", 1, 0, 1, 1, 2**30), "successors"),
]


@pytest.mark.parametrize(("api", "version", "body", "reason"), HUGE_COUNTS)
def test_a_count_beyond_the_frame_allocates_nothing(api, version, body, reason):
    frame = request_frame(api, version, body)
    with pytest.raises(ProtocolError, match=reason):
        decode_request(frame)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match=reason):
            decode_request(frame)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


MALFORMED = [
    (METADATA, 1, struct.pack(">i", -2), "topics: length -2; -1 or more was expected, -1 for null"),
    (METADATA, 0, struct.pack(">i", -1), "topics: length -1; 0 or more was expected"),
    (METADATA, 1, struct.pack(">ih", 1, -1), "name: length -1; 0 or more was expected"),
    (METADATA, 1, struct.pack(">ih", 1, 5) + b"abc", "name: length 5, but 3 bytes are left"),
    (METADATA, 1, struct.pack(">ih", 1, 2) + b"\xff\xfe", "name: .* is not UTF-8"),
    (METADATA, 1, struct.pack(">i", 0) + b"xyz", "3 bytes follow the message"),
    (METADATA, 1, b"\0\0", "ends within a field of fixed size"),
    (METADATA, 13, b"", "the frame ends within a varint"),
    (METADATA, 13, b"\xff\xff", "the frame ends within a varint"),
    (METADATA, 13, b"\xff\xff\xff\xff\xff\x01", "varint at byte 11: more than 32 bits"),
    (METADATA, 13, b"\xff\xff\xff\xff\x10", "varint at byte 11: more than 32 bits"),
    (DESCRIBE_QUORUM, 0, b"\x01\x01\x05\x09ab", "tagged field 5: length 9, but 2 bytes are left"),
    (DESCRIBE_QUORUM, 0, b"\x01\x02\x05\x00\x05\x00", "tagged field 5 after 5: tags must ascend"),
    (DESCRIBE_QUORUM, 0, b"\x01\xff\xff\xff\xff\x0f", "tagged fields: 4294967295 elements"),
    (FETCH_SNAPSHOT, 0, struct.pack(">ii", 1, 9) + b"\x01\x01\x00\x04\x02a", r"cluster_id \(tag 0\): 4 bytes declared"),
]


@pytest.mark.parametrize(("api", "version", "body", "reason"), MALFORMED, ids=[row[3] for row in MALFORMED])
def test_a_refusal_names_api_version_and_field(api, version, body, reason):
    with pytest.raises(ProtocolError, match=f"{api.name} v{version} request: .*{reason}"):
        decode_request(request_frame(api, version, body))


MALFORMED_HEADERS = [
    (b"", "request header: 0 bytes, at least 8"),
    (struct.pack(">hhi", 3, 1, 1), "ends before client_id"),
    (struct.pack(">hhih", 3, 1, 1, 9) + b"abc", "client_id: length 9"),
    (struct.pack(">hhih", 3, 1, 1, -7), "client_id: length -7"),
    (struct.pack(">hhih", 3, 1, 1, 1) + b"\xff", "client_id: .* is not UTF-8"),
]


@pytest.mark.parametrize(("frame", "reason"), MALFORMED_HEADERS)
def test_a_malformed_request_header_is_refused(frame, reason):
    with pytest.raises(ProtocolError, match=reason):
        decode_request(frame)


@pytest.mark.parametrize(("key", "version"), [(52, 3), (52, -1), (18, 5), (0, 2), (0, 14), (999, 0), (-1, 0)])
def test_an_unserved_request_has_the_fields_of_its_answer(key, version):
    with pytest.raises(UnsupportedRequestError) as caught:
        decode_request(struct.pack(">hhi", key, version, 42))
    assert (caught.value.api_key, caught.value.version, caught.value.correlation_id) == (key, version, 42)
    if key in APIS:
        assert f"{APIS[key].min_version} to {APIS[key].max_version}" in str(caught.value)


def test_an_unknown_tagged_field_is_skipped():
    """KIP-482: a newer peer may send what we do not know, in the header and anywhere in the message."""
    header = struct.pack(">hhih", VOTE.key, 2, 1, -1) + b"\x01\x07\x03new"
    partition = struct.pack(">iii16s16siq?", 0, 5, 1, bytes(16), bytes(16), 4, 100, False) + b"\x02\x03\x01x\x09\x00"
    topic = b"\x02t" + b"\x02" + partition + b"\x01\x00\x02yy"
    body = b"\x02c" + struct.pack(">i", 2) + b"\x02" + topic + b"\x01\x81\x01\x01z"
    _, request = decode_request(header + body)
    assert (request.cluster_id, request.topic, request.replica.id, request.last_offset) == ("c", "t", 1, 100)


def test_an_unknown_error_code_is_an_unknown_server_error():
    frame = bytearray(encode_response(VOTE, 2, 1, VoteResponse(error=ErrorCode.invalid_request))[4:])
    frame[5:7] = struct.pack(">h", 31_000)
    assert decode_response(VOTE, 2, bytes(frame))[1].error == ErrorCode.unknown_server_error


def test_elements_are_limited_in_number_in_one_frame():
    def topics(count):
        return request_frame(METADATA, 1, struct.pack(">i", count) + struct.pack(">h", 0) * count)

    _, request = decode_request(topics(REQUEST_ELEMENTS))
    assert len(request.topics) == REQUEST_ELEMENTS
    with pytest.raises(ProtocolError, match="topics: too many elements in one frame, at most 2000"):
        decode_request(topics(REQUEST_ELEMENTS + 1))


def test_tagged_fields_are_limited_in_number_in_one_frame():
    count = REQUEST_ELEMENTS + 1
    tags = unsigned_varint(count) + b"".join(unsigned_varint(tag) + b"\0" for tag in range(count))
    with pytest.raises(ProtocolError, match="tagged fields: too many elements"):
        decode_request(request_frame(DESCRIBE_QUORUM, 0, b"\x01" + tags))


NOBODY = ReplicaKey(-1)
NO_SNAPSHOT = OffsetAndEpoch(-1, -1)
PARTITION = bytes(4 + 4 + 4)
NOT_ONE_PARTITION = {
    "no topic": struct.pack(">hi", -1, 0),
    "no partition": struct.pack(">hihi", -1, 1, 0, 0),
    "two partitions": struct.pack(">hihi", -1, 1, 0, 2) + PARTITION * 2,
    "two topics": struct.pack(">hi", -1, 2) + (struct.pack(">hi", 0, 1) + PARTITION) * 2,
}


@pytest.mark.parametrize("body", NOT_ONE_PARTITION.values(), ids=NOT_ONE_PARTITION.keys())
def test_several_partitions_read_as_a_nonexistent_one(body):
    """So that the owner of the matter answers INVALID_REQUEST instead of the connection being cut."""
    _, request = decode_request(request_frame(BEGIN_QUORUM_EPOCH, 0, body))
    assert request == BeginQuorumEpochRequest(None, -1, "", -1, NO_DIRECTORY_ID, -1, -1)


@pytest.mark.parametrize("api", [VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, DESCRIBE_QUORUM, FETCH_SNAPSHOT], ids=repr)
def test_every_quorum_api_can_name_a_nonexistent_partition(api):
    structure = api.structure("request", api.max_version)
    fields = {"replica_id": 1, "max_bytes": 1, "voter_id": 1, "leader_endpoints": [], "cluster_id": None, "topics": []}
    request = api.reader("request", api.max_version)(write_plain(structure, fields), 0, REQUEST_ELEMENTS)
    assert (request.topic, request.partition) == ("", -1)
    assert getattr(request, "replica", NOBODY) == NOBODY
    assert getattr(request, "snapshot_id", NO_SNAPSHOT) == NO_SNAPSHOT


def test_a_response_without_partition_or_error_is_refused():
    with pytest.raises(ProtocolError, match="Vote v0 response: topics: exactly one topic"):
        decode_response(VOTE, 0, EMPTY_VOTE_RESPONSE)


@settings(max_examples=sizes.examples(300))
@given(
    api=st.sampled_from(sorted(APIS.values(), key=lambda api: api.key)),
    version=st.integers(-1, 19),
    body=st.binary(max_size=300),
)
@example(METADATA, 1, struct.pack(">i", 2**31 - 1))
def test_random_bytes_raise_nothing_but_refusals(api, version, body):
    try:
        decode_request(struct.pack(">hhih", api.key, version, 1, -1) + body)
    except (ProtocolError, UnsupportedVersionError):
        pass
    try:
        decode_response(api, version, body)
    except (ProtocolError, UnsupportedVersionError):
        pass


def mutations(frame):
    """The frame cut short, or with a few bytes overwritten."""
    cut = st.integers(0, len(frame)).map(lambda end: frame[:end])
    positions = st.lists(st.tuples(st.integers(0, len(frame) - 1), st.integers(0, 255)), min_size=1, max_size=6)

    def overwrite(changes):
        changed = bytearray(frame)
        for position, byte in changes:
            changed[position] = byte
        return bytes(changed)

    return cut | positions.map(overwrite)


@pytest.mark.parametrize("api", APIS.values(), ids=repr)
@settings(max_examples=sizes.examples(150))
@given(data=st.data())
def test_damaged_frames_raise_nothing_but_refusals(api, data):
    _, version, kind = data.draw(st.sampled_from([row for row in ALL_VERSIONS if row[0] is api]))
    if kind == "request" and api in (VOTE, ADD_RAFT_VOTER, UPDATE_FEATURES):
        version = api.max_version
    value = data.draw(VALUES[api.name, kind])
    frame = (
        encode_request(api, version, 1, "c", value) if kind == "request" else encode_response(api, version, 1, value)
    )
    damaged = data.draw(mutations(frame[4:]))
    try:
        if kind == "request":
            decode_request(damaged)
        else:
            decode_response(api, version, damaged)
    except (ProtocolError, UnsupportedVersionError):
        pass


def test_a_string_longer_than_its_length_field_is_a_bug_of_ours():
    with pytest.raises(struct.error):
        encode_request(METADATA, 1, 1, None, MetadataRequest((MetadataTopic("x" * 40_000),)))
