"""Control records: the bytes Apache Kafka writes, and every way in which they can be damaged."""

from __future__ import annotations

import io
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.k_raft_version_record.v0.data import KRaftVersionRecord
from kio.schema.leader_change_message.v0.data import LeaderChangeMessage
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.schema.voters_record.v0.data import VotersRecord as VotersEntity
from kio.serial import entity_reader, entity_writer

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey, VersionRange
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.storage.batches.control_records import (
    ControlRecord,
    KRaftVersion,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    VotersRecord,
    decode_control_record,
    encode_control_record,
)
from kraft_trio.storage.batches.flexible_reader import FlexibleReader

ONE_VOTER = VoterSet(
    [
        Voter(
            ReplicaKey(1, UUID("6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8")),
            Endpoints({"CONTROLLER": Endpoint("localhost", 9093)}),
            VersionRange(0, 1),
        )
    ]
)

WRITTEN_BY_KAFKA = [
    (LeaderChange(1, (1,), (1,)), "00000002", "00000000000102000000010002000000010000"),
    (SnapshotHeader(0x01A1FCFB78C6), "00000003", "0000000001a1fcfb78c600"),
    (SnapshotFooter(), "00000004", "000000"),
    (KRaftVersion(1), "00000005", "0000000100"),
    (
        VotersRecord(ONE_VOTER),
        "00000006",
        "000002000000016fcb514bb8784c9d95b78dc3a7ce6fd8020b434f4e54524f4c4c45520a6c6f63616c686f737423850000000001000000",
    ),
]


@pytest.mark.parametrize("size", [1, 127, 128, 20_000])
def test_a_snapshots_producers_are_a_tagged_field_others_skip(size: int) -> None:
    record = SnapshotHeader(0x01A1FCFB78C6, (bytes(range(256)) * 80)[:size])
    key, value = encode_control_record(record)
    assert decode_control_record(key, value) == record
    # A reader that knows the schema and not the tag.
    reader = FlexibleReader(value, "header")
    assert (reader.int16(), reader.int64()) == (0, 0x01A1FCFB78C6)
    reader.skip_tagged_fields()
    reader.end()
    for cut in range(1, min(size, 20)):
        with pytest.raises(ProtocolError, match="SnapshotHeader control record"):
            decode_control_record(key, value[:-cut])


@pytest.mark.parametrize(("record", "key", "value"), WRITTEN_BY_KAFKA, ids=lambda v: type(v).__name__)
def test_bytes_are_those_apache_kafka_writes(record: ControlRecord, key: str, value: str) -> None:
    assert encode_control_record(record) == (bytes.fromhex(key), bytes.fromhex(value))
    assert decode_control_record(bytes.fromhex(key), bytes.fromhex(value)) == record


@pytest.mark.parametrize("control_type", [0, 1, 7, 32767])
def test_records_of_other_types_are_none_whatever_their_value(control_type: int) -> None:
    key = b"\0\0" + control_type.to_bytes(2, "big")
    assert decode_control_record(key, b"\xff\xff anything") is None
    assert decode_control_record(key, None) is None


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        (None, "0000000100", "key None"),
        ("000005", "0000000100", "key b'"),
        ("ffff0005", "0000000100", "key version -1"),
        ("00000005", None, "value null, expected a message"),
        ("00000005", "", "2 bytes expected at position 0, 0 left"),
        ("00000005", "0001000100", "KRaftVersion control record: version 1, expected 0"),
        ("00000005", "000000010000", "1 bytes after its end at position 5"),
        ("00000005", "0000ffff00", "kraft.version -1, expected 0 or more"),
        ("00000005", "00000001", "1 bytes expected at position 4, 0 left"),
        ("00000002", "000000000001914e", "4 bytes expected at position 8, 0 left"),
        ("00000002", "000000000001ffffffff0f", "more than 16384 items"),
        ("00000002", "00000000000100", "the array before position 7 is null"),
        ("00000002", "000000000001ffffffffff01", "a varint of more than five bytes"),
        ("00000006", "00000100", "no voters, expected at least one"),
        ("00000006", "000002ffffffff" + "00" * 16 + "01" + "00000000" + "0000", "voter id -1"),
        ("00000006", "000003" + ("00000001" + "00" * 16 + "01" + "00000000" + "0000") * 2 + "00", "not unique"),
        ("00000006", "00000200000001" + "00" * 16 + "02" + "02ff", "not UTF-8"),
    ],
)
def test_damaged_records_are_refused_with_what_is_wrong(key: str | None, value: str | None, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint):
        decode_control_record(
            None if key is None else bytes.fromhex(key), None if value is None else bytes.fromhex(value)
        )


def test_tagged_fields_of_newer_writers_are_passed_over() -> None:
    assert decode_control_record(b"\0\0\0\5", bytes.fromhex("00000001" + "02" + "0002abcd" + "0700")) == KRaftVersion(1)


def test_lengths_of_more_than_one_byte() -> None:
    host = "h" * 127
    record = VotersRecord(VoterSet([Voter(ReplicaKey(1), Endpoints({"CONTROLLER": Endpoint(host, 1)}))]))
    key, value = encode_control_record(record)
    assert b"\x80\x01" + host.encode() in value
    assert decode_control_record(key, value) == record


def test_an_empty_voter_set_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="voters: empty"):
        encode_control_record(VotersRecord(VoterSet()))


IDS = st.integers(0, 2**31 - 1)
INT16 = st.integers(0, 2**15 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ENDPOINT = st.tuples(TEXT, st.builds(Endpoint, TEXT, st.integers(0, 65535)))
VOTER = st.builds(
    Voter,
    st.builds(ReplicaKey, IDS, st.uuids(allow_nil=True)),
    st.lists(ENDPOINT, max_size=3).map(Endpoints),
    st.builds(VersionRange, INT16, INT16),
)
VOTERS = st.lists(VOTER, min_size=1, max_size=5, unique_by=lambda voter: voter.id).map(VoterSet)
TARGETS = st.lists(st.builds(ReplicaKey, IDS, st.uuids(allow_nil=True)), max_size=200).map(tuple)
RECORDS = st.one_of(
    st.builds(LeaderChange, IDS, st.lists(IDS).map(tuple), st.lists(IDS).map(tuple)),
    st.builds(SnapshotHeader, st.integers(-(2**63), 2**63 - 1)),
    st.just(SnapshotFooter()),
    st.builds(KRaftVersion, INT16),
    st.builds(VotersRecord, VOTERS),
)
ENTITIES = {
    2: LeaderChangeMessage,
    3: SnapshotHeaderRecord,
    4: SnapshotFooterRecord,
    5: KRaftVersionRecord,
    6: VotersEntity,
}


@given(RECORDS)
def test_round_trip_and_agreement_with_the_schema_library(record: ControlRecord) -> None:
    key, value = encode_control_record(record)
    assert decode_control_record(key, value) == record
    entity_type = ENTITIES[key[3]]
    entity, size = entity_reader(entity_type)(value, 0)
    rewritten = io.BytesIO()
    entity_writer(entity_type)(rewritten, entity)
    assert (size, rewritten.getvalue()) == (len(value), value)


@given(RECORDS, st.data())
def test_cut_or_altered_values_raise_protocol_error_or_decode(record: ControlRecord, data: st.DataObject) -> None:
    key, value = encode_control_record(record)
    cut = data.draw(st.integers(0, len(value) - 1))
    with pytest.raises(ProtocolError):
        decode_control_record(key, value[:cut])
    altered = bytearray(value)
    altered[cut] ^= data.draw(st.integers(1, 255))
    try:
        decoded = decode_control_record(key, bytes(altered))
    except ProtocolError:
        return
    assert type(decoded) is type(record)


@given(VOTERS, TARGETS)
def test_target_is_a_tagged_field_that_kafka_skips(voters: VoterSet, target: tuple[ReplicaKey, ...]) -> None:
    record = VotersRecord(voters, target)
    key, value = encode_control_record(record)
    assert decode_control_record(key, value) == record
    without_key, without_target = encode_control_record(VotersRecord(voters))
    assert key == without_key
    assert value.startswith(without_target[:-1])
    if not target:
        assert value == without_target, "the bytes that Kafka writes"


def test_damaged_targets_are_refused() -> None:
    key, value = encode_control_record(VotersRecord(ONE_VOTER, (ReplicaKey(4, UUID(int=4)),)))
    at = value.index(b"\x02\x00\x00\x00\x04")
    with pytest.raises(ProtocolError, match="Voters control record: target voters"):
        decode_control_record(key, value[:at] + b"\x03" + value[at + 1 :])


def test_removed_voters_of_a_snapshot_are_a_tagged_field() -> None:
    keys = tuple(ReplicaKey(id, UUID(int=id)) for id in (3, 1, 2**31 - 1))
    for producers in (b"", b"some"):
        record = SnapshotHeader(7, producers, keys)
        key, value = encode_control_record(record)
        assert decode_control_record(key, value) == record
    with pytest.raises(ProtocolError, match="removed voters"):
        decode_control_record(key, _with_cut_keys(keys))


def _with_cut_keys(keys: tuple[ReplicaKey, ...]) -> bytes:
    """Whole as a record, but the array inside its tagged field says one key more than there is."""
    _, value = encode_control_record(SnapshotHeader(7, b"", keys))
    at = value.index(b"\x04\x00\x00\x00\x03")
    return value[:at] + b"\x05" + value[at + 1 :]
