"""`content=control`: one row per control record (KIP-595, KIP-630, KIP-853)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey, directory_id_to_text
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.spark.decoding.batch_filter import BatchFilter
from kraft_trio.spark.decoding.numbered_records import control_records
from kraft_trio.spark.decoding.rows import Rows, microseconds
from kraft_trio.spark.decoding.scan import Run
from kraft_trio.storage.batches.batch import Record
from kraft_trio.storage.batches.control_records import (
    CONTROL_RECORD_NAMES,
    SNAPSHOT_FOOTER,
    KRaftVersion,
    LeaderChange,
    VotersRecord,
    control_record_type,
    decode_control_record,
)

_INT16 = struct.Struct(">h")
_MOST_ROWS: Final = 1024
"""Limit for Python objects at a time."""


def control_type_name(key: bytes | None) -> str | None:
    """The name of the type in a control record's key, or its number; null without a type."""
    try:
        number = control_record_type(key)
    except ProtocolError:
        return None
    return CONTROL_RECORD_NAMES.get(number, str(number))


def voters_value(voters: VoterSet) -> list[dict[str, Any]]:
    """A value for the column `voters`."""
    return [
        {
            **_replica_value(voter.key),
            "endpoints": [
                {"name": name, "host": endpoint.host, "port": endpoint.port} for name, endpoint in voter.endpoints
            ],
        }
        for voter in voters
    ]


def target_value(target: Iterable[ReplicaKey]) -> list[dict[str, Any]]:
    """A value for the column `target`."""
    return list(map(_replica_value, target))


def _replica_value(key: ReplicaKey) -> dict[str, Any]:
    is_known = key.directory_id != NO_DIRECTORY_ID
    return {"id": key.id, "directory_id": directory_id_to_text(key.directory_id) if is_known else None}


def ends_with_footer(run: Run) -> bool:
    """Whether the last batch of a run holds a snapshot's footer (KIP-630)."""
    at = len(run) - 1
    header = run.header(at)
    if not header.is_control or at in run.damaged:
        return False
    try:
        records = control_records(run.buffer, int(run.positions[at]), header)
    except ProtocolError:
        return False
    return any(control_type_name(record.key) == CONTROL_RECORD_NAMES[SNAPSHOT_FOOTER] for record in records)


def control_rows(run: Run, rows: Rows, wanted: BatchFilter) -> Iterator[pa.RecordBatch]:
    """One row per wanted record of a run's control batches, and per damaged batch."""
    for at in range(len(run)):
        header = run.header(at)
        if not header.is_control and at not in run.damaged:
            continue
        place = {
            "position": run.buffer_position + int(run.positions[at]),
            "batch_offset": header.base_offset,
            "epoch": header.leader_epoch,
            "crc_ok": at not in run.damaged,
        }
        error = run.damaged.get(at)
        if error is None:
            try:
                records = control_records(run.buffer, int(run.positions[at]), header)
            except ProtocolError as problem:
                error = str(problem)
        if error is not None:
            yield rows.one(**place, error=error)
            continue
        kept = [record for record in records if at in run.misplaced or wanted.has(record)]
        for first in range(0, len(kept), _MOST_ROWS):
            some = kept[first : first + _MOST_ROWS]
            yield rows.some([{**place, **_record_values(record, run.misplaced.get(at))} for record in some])


def _record_values(record: Record, error: str | None) -> dict[str, Any]:
    timestamp, problem = microseconds(record.timestamp_ms)
    values: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": timestamp,
        "type": control_type_name(record.key),
        "error": error or problem,
    }
    if record.value is not None and len(record.value) >= _INT16.size:
        values["version"] = _INT16.unpack_from(record.value)[0]
    try:
        control_record = decode_control_record(record.key, record.value)
    except ProtocolError as problem_of_value:
        return {**values, "error": str(problem_of_value)}
    match control_record:
        case LeaderChange():
            values["leader_id"] = control_record.leader_id
            values["voter_ids"] = list(control_record.voter_ids)
            values["granting_voters"] = list(control_record.granting_voter_ids)
        case KRaftVersion():
            values["kraft_version"] = control_record.version
        case VotersRecord():
            values["voters"] = voters_value(control_record.voters)
            values["voter_ids"] = list(control_record.voters.ids)
            values["target"] = target_value(control_record.target)
        case _:
            pass
    return values
