"""`kraft snapshot`: works with snapshots of running nodes and with snapshot files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import click

from kraft_trio.cli.snapshots.snapshot_origin import find_origin, first_epoch
from kraft_trio.cli.snapshots.snapshot_restore import restore_command
from kraft_trio.cli.snapshots.snapshot_save import save
from kraft_trio.cli.snapshots.snapshot_take import take
from kraft_trio.cli.terminal.json_option import echo_json, id_fields, json_option, key_fields
from kraft_trio.cli.terminal.output import counted, echo_line
from kraft_trio.cli.terminal.paths import ExistingPath
from kraft_trio.cli.terminal.progress import progress
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.checks.partition_check import read_records
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.segments.producer_snapshot import decode_producer_snapshot
from kraft_trio.storage.snapshots.snapshot_reader import SnapshotSummary, open_snapshot, summarize

_UNKNOWN_OFFSET: Final = -1


@click.group()
def snapshot() -> None:
    """Take, save, check and restore snapshots."""


@snapshot.command("verify")
@click.argument("file", type=ExistingPath(dir_okay=False))
@json_option
def verify(file: str, as_json: bool) -> None:
    """Check every byte of a snapshot and summarize it.

    FILE is a node's .checkpoint file, from kraft-trio or Apache Kafka, or a copy of it.  Its id comes from its original
    name, or from FILE.properties next to a saved copy.  The exit code is 1 if the file is damaged, cut or not a
    snapshot.
    """
    disk = RealDisk()
    try:
        origin = find_origin(disk, file)
        snapshot_id = origin.snapshot_id or OffsetAndEpoch(_UNKNOWN_OFFSET, first_epoch(disk, file))
        with progress("checking", os.path.getsize(file)) as bar:
            summary = summarize(snapshot_id, read_records(open_snapshot(disk, file, snapshot_id), bar.advance, file))
    finally:
        disk.close()
    if as_json:
        echo_json(_fields(file, summary, origin.cluster_id))
        return
    for line in _lines(file, summary, origin.cluster_id):
        echo_line(line)


def _fields(file: str, summary: SnapshotSummary, cluster_id: str | None) -> dict[str, Any]:
    """None for what the file does not tell."""
    state, end = summary.control_state, summary.snapshot_id
    return {
        "file": file,
        "snapshotId": id_fields(end) | ({"offset": None} if end.offset == _UNKNOWN_OFFSET else {}),
        "clusterId": cluster_id,
        "records": summary.record_count,
        "batches": summary.batch_count,
        "bytes": summary.size_in_bytes,
        "lastContainedLogTimestamp": state.last_contained_log_timestamp_ms,
        "kraftVersion": state.kraft_version,
        "voters": None if state.voters is None else [key_fields(voter.key) for voter in state.voters],
        "producers": len(decode_producer_snapshot(file, state.producers)) if state.producers else 0,
        "removedVoters": [key_fields(key) for key in state.removed_voters],
    }


def _lines(file: str, summary: SnapshotSummary, cluster_id: str | None) -> Iterator[str]:
    state = summary.control_state
    snapshot_id = summary.snapshot_id
    yield f"{file}: whole"
    if snapshot_id.offset == _UNKNOWN_OFFSET:
        yield f"  id: its epoch is {snapshot_id.epoch}; the file name does not give its end offset"
    else:
        yield f"  id: {snapshot_id}"
    if cluster_id is not None:
        yield f"  cluster: {cluster_id}"
    yield (
        f"  {counted(summary.record_count, 'record')}, {counted(summary.batch_count, 'batch')}, "
        f"{counted(summary.size_in_bytes, 'byte')}"
    )
    yield f"  last record it covers: {_time_text(state.last_contained_log_timestamp_ms)}"
    yield f"  kraft.version: {state.kraft_version}"
    if state.voters is not None:
        yield f"  voters: {', '.join(str(voter.key) for voter in state.voters)}"
    if state.producers:
        yield f"  idempotent producers: {len(decode_producer_snapshot(file, state.producers))}"
    if state.removed_voters:
        yield f"  removed voters: {', '.join(map(str, state.removed_voters))}"


def _time_text(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return "of no known time"
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")


snapshot.add_command(take)
snapshot.add_command(save)
snapshot.add_command(restore_command)
