"""Control records 2 to 6, which the quorum itself writes into logs and snapshots (KIP-595, KIP-630, KIP-853).

A record's key is an int16 version (0) and an int16 type.  Its value is a flexible-version message that begins with its
own int16 version.  Like Apache Kafka, this library writes all of them at version 0, at any kraft.version.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeAlias

import attrs

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey, VersionRange
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.storage.batches.flexible_reader import FlexibleReader

LEADER_CHANGE = 2
SNAPSHOT_HEADER = 3
SNAPSHOT_FOOTER = 4
KRAFT_VERSION = 5
KRAFT_VOTERS = 6

PRODUCERS_TAG = 10_000
"""The tag of the SnapshotHeader field that holds the idempotent producers.  Kafka does not have this field: it numbers
its own tags from 0, and readers skip tags that they do not know (KIP-482)."""

REMOVED_VOTERS_TAG = 10_001
"""The tag of the SnapshotHeader field with the removed voters: a compact array of ids (int32) and directory ids."""

TARGET_VOTERS_TAG = 10_000
"""The tag of the VotersRecord field with the target of a reassignment, encoded like the removed voters.  Kafka skips
it; a leader of Kafka that rewrites the set drops it, and so ends the reassignment."""

_KEY = struct.Struct(">hh")
_INT16 = struct.Struct(">h")
_UINT16 = struct.Struct(">H")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_VERSION = b"\0\0"
_NO_TAGGED_FIELDS = b"\0"
CONTROL_RECORD_NAMES = {
    LEADER_CHANGE: "LeaderChange",
    SNAPSHOT_HEADER: "SnapshotHeader",
    SNAPSHOT_FOOTER: "SnapshotFooter",
    KRAFT_VERSION: "KRaftVersion",
    KRAFT_VOTERS: "Voters",
}
"""The names of the types."""


@attrs.frozen
class LeaderChange:
    """The first record of every epoch: its leader, the voters, and the voters that voted for the leader (KIP-595)."""

    leader_id: int
    voter_ids: tuple[int, ...]
    granting_voter_ids: tuple[int, ...]


@attrs.frozen
class SnapshotHeader:
    """The first record of a snapshot (KIP-630)."""

    last_contained_log_timestamp_ms: int
    """Append time of the last record that the snapshot covers, in milliseconds since 1970."""
    producers: bytes = b""
    """The idempotent producers at the snapshot's end, encoded as a producer snapshot; empty if there are no producers.
    A replica that has the snapshot instead of the records can still recognize a retried batch among them."""
    removed_voters: tuple[ReplicaKey, ...] = ()
    """The former voters that had been removed by the snapshot's end, oldest removal first.  A replica that was away
    when it was removed, and has the snapshot instead of the log, must learn that it may not rejoin by itself."""


@attrs.frozen
class SnapshotFooter:
    """The last record of a snapshot.  A snapshot without it is incomplete (KIP-630)."""


@attrs.frozen
class KRaftVersion:
    """The finalized kraft.version from this offset on (KIP-853)."""

    version: int


@attrs.frozen
class VotersRecord:
    """The whole set of voters from this offset on, committed or not (KIP-853)."""

    voters: VoterSet
    target: tuple[ReplicaKey, ...] = ()
    """The target voters of the quorum, sorted; empty unless the leader is reassigning the voters (KIP-642)."""


ControlRecord: TypeAlias = LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | VotersRecord


def encode_control_record(record: ControlRecord) -> tuple[bytes, bytes]:
    """Return the record's key and value.  Raises ValueError for an empty voter set, which could never change again."""
    match record:
        case LeaderChange(leader_id, voter_ids, granting_voter_ids):
            control_type = LEADER_CHANGE
            value = _INT32.pack(leader_id) + _voter_ids(voter_ids) + _voter_ids(granting_voter_ids) + _NO_TAGGED_FIELDS
        case SnapshotHeader(timestamp_ms, producers, removed_voters):
            control_type = SNAPSHOT_HEADER
            removed = _replica_keys(removed_voters) if removed_voters else b""
            tagged_fields = _tagged_fields({PRODUCERS_TAG: producers, REMOVED_VOTERS_TAG: removed})
            value = _INT64.pack(timestamp_ms) + tagged_fields
        case SnapshotFooter():
            control_type = SNAPSHOT_FOOTER
            value = _NO_TAGGED_FIELDS
        case KRaftVersion(version):
            control_type = KRAFT_VERSION
            value = _INT16.pack(version) + _NO_TAGGED_FIELDS
        case VotersRecord(voters, target):
            control_type = KRAFT_VOTERS
            if not len(voters):
                raise ValueError("voters: empty; a VotersRecord names at least one voter")
            tagged_fields = _tagged_fields({TARGET_VOTERS_TAG: _replica_keys(target) if target else b""})
            value = _array([_voter(voter) for voter in voters]) + tagged_fields
    return _KEY.pack(0, control_type), _VERSION + value


def _tagged_fields(contents: dict[int, bytes]) -> bytes:
    """The fields that are not empty; `contents` is sorted by tag."""
    fields = [
        _unsigned_varint(tag) + _unsigned_varint(len(content)) + content for tag, content in contents.items() if content
    ]
    return _unsigned_varint(len(fields)) + b"".join(fields)


def _replica_keys(keys: Sequence[ReplicaKey]) -> bytes:
    return _array([_replica_key(key) for key in keys])


def _replica_key(key: ReplicaKey) -> bytes:
    return _INT32.pack(key.id) + key.directory_id.bytes


def _voter_ids(ids: Sequence[int]) -> bytes:
    return _array([_INT32.pack(id) + _NO_TAGGED_FIELDS for id in ids])


def _voter(voter: Voter) -> bytes:
    endpoints = [
        _string(name) + _string(endpoint.host) + _UINT16.pack(endpoint.port) + _NO_TAGGED_FIELDS
        for name, endpoint in voter.endpoints
    ]
    kraft_versions = _INT16.pack(voter.kraft_versions.minimum) + _INT16.pack(voter.kraft_versions.maximum)
    return _replica_key(voter.key) + _array(endpoints) + kraft_versions + _NO_TAGGED_FIELDS + _NO_TAGGED_FIELDS


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _unsigned_varint(len(encoded) + 1) + encoded


def _array(items: Sequence[bytes]) -> bytes:
    return _unsigned_varint(len(items) + 1) + b"".join(items)


def _unsigned_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def control_record_type(key: bytes | None) -> int:
    """Return the type that a control record's key names.  Raises ProtocolError for an invalid key."""
    if key is None or len(key) < _KEY.size:
        raise ProtocolError(f"control record: key {key!r}, expected an int16 version and an int16 type")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise ProtocolError(f"control record: key version {version}, expected 0 or more")
    return int(control_type)


def decode_control_record(key: bytes | None, value: bytes | None) -> ControlRecord | None:
    """Decode one record of a control batch.  Returns None for other types, such as transaction markers.

    Raises ProtocolError if the record is malformed.  The error names the record, its field and the expected value.
    """
    control_type = control_record_type(key)
    name = CONTROL_RECORD_NAMES.get(control_type)
    if name is None:
        return None
    if value is None:
        raise ProtocolError(f"{name} control record: value null, expected a message")
    reader = FlexibleReader(bytes(value), f"{name} control record")
    version = reader.int16()
    if version != 0:
        raise ProtocolError(f"{name} control record: version {version}, expected 0")
    record: ControlRecord
    if control_type == LEADER_CHANGE:
        record = _read_leader_change(reader)
    elif control_type == SNAPSHOT_HEADER:
        record = SnapshotHeader(reader.int64())
    elif control_type == SNAPSHOT_FOOTER:
        record = SnapshotFooter()
    elif control_type == KRAFT_VERSION:
        record = _read_kraft_version(reader)
    else:
        record = _read_voters(reader)
    tagged_fields = reader.tagged_fields()
    reader.end()
    if isinstance(record, SnapshotHeader):
        return attrs.evolve(
            record,
            producers=tagged_fields.get(PRODUCERS_TAG, b""),
            removed_voters=_read_replica_keys(
                tagged_fields.get(REMOVED_VOTERS_TAG, b""), f"{name} control record: removed voters"
            ),
        )
    if isinstance(record, VotersRecord):
        return attrs.evolve(
            record,
            target=_read_replica_keys(
                tagged_fields.get(TARGET_VOTERS_TAG, b""), f"{name} control record: target voters"
            ),
        )
    return record


def _read_replica_keys(content: bytes, what: str) -> tuple[ReplicaKey, ...]:
    if not content:
        return ()
    reader = FlexibleReader(content, what)
    keys = reader.compact_array(lambda: ReplicaKey(reader.int32(), reader.uuid()))
    reader.end()
    return keys


def _read_kraft_version(reader: FlexibleReader) -> KRaftVersion:
    version = reader.int16()
    if version < 0:
        raise ProtocolError(f"KRaftVersion control record: kraft.version {version}, expected 0 or more")
    return KRaftVersion(version)


def _read_leader_change(reader: FlexibleReader) -> LeaderChange:
    def voter_id() -> int:
        id = reader.int32()
        reader.skip_tagged_fields()
        return id

    return LeaderChange(reader.int32(), reader.compact_array(voter_id), reader.compact_array(voter_id))


def _read_voters(reader: FlexibleReader) -> VotersRecord:
    def endpoint() -> tuple[str, Endpoint]:
        name, host, port = reader.compact_string(), reader.compact_string(), reader.uint16()
        reader.skip_tagged_fields()
        return name, Endpoint(host, port)

    def voter() -> Voter:
        key = ReplicaKey(reader.int32(), reader.uuid())
        endpoints = Endpoints(reader.compact_array(endpoint))
        kraft_versions = VersionRange(reader.int16(), reader.int16())
        reader.skip_tagged_fields()
        reader.skip_tagged_fields()
        if key.id < 0:
            raise ProtocolError(f"Voters control record: voter id {key.id}, expected 0 or more")
        return Voter(key, endpoints, kraft_versions)

    voters = reader.compact_array(voter)
    if not voters:
        raise ProtocolError("Voters control record: no voters, expected at least one")
    try:
        return VotersRecord(VoterSet(voters))
    except ValueError as error:
        raise ProtocolError(f"Voters control record: {error}") from error
