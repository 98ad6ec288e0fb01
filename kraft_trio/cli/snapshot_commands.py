"""`kraft snapshot`: snapshots of running nodes, and snapshot files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Final

import click

from kraft_trio.cli.counted import counted
from kraft_trio.cli.progress import progress
from kraft_trio.cli.snapshot_save import save
from kraft_trio.cli.snapshot_take import take
from kraft_trio.errors import CorruptSnapshotError, ProtocolError
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batch import peek_header
from kraft_trio.storage.batch_header import HEADER_BYTES
from kraft_trio.storage.disk import Disk
from kraft_trio.storage.partition_check import read_records
from kraft_trio.storage.partition_files import checkpoint_ids
from kraft_trio.storage.producer_snapshot import decode_producer_snapshot
from kraft_trio.storage.real_disk import RealDisk
from kraft_trio.storage.snapshot_reader import SnapshotSummary, open_snapshot, summarize

_UNKNOWN_OFFSET: Final = -1


@click.group()
def snapshot() -> None:
    """Take, save, check and restore snapshots."""


@snapshot.command("verify")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
def verify(file: str) -> None:
    """Check every byte of a snapshot, and say what is in it.

    FILE is a .checkpoint of a node, ours or Apache Kafka's, or a copy of one under another name; its id is in the name
    it has on a node.  The exit code is 1 where it is damaged, cut or no snapshot.
    """
    disk = RealDisk()
    try:
        snapshot_id = _snapshot_id(disk, file)
        with progress("checking", os.path.getsize(file)) as bar:
            summary = summarize(snapshot_id, read_records(open_snapshot(disk, file, snapshot_id), bar.advance, file))
    finally:
        disk.close()
    for line in _lines(file, summary):
        click.echo(line)


def _snapshot_id(disk: Disk, file: str) -> OffsetAndEpoch:
    """What its name says; of a file with another name the epoch that its first batch has."""
    ids = checkpoint_ids([os.path.basename(file)])
    if ids:
        return ids[0]
    with closing(disk.open_to_read(file)) as opened:
        try:
            return OffsetAndEpoch(_UNKNOWN_OFFSET, peek_header(opened.read_at(0, HEADER_BYTES)).leader_epoch)
        except ProtocolError as error:
            raise CorruptSnapshotError(f"{file}: {error}") from error


def _lines(file: str, summary: SnapshotSummary) -> Iterator[str]:
    state = summary.control_state
    snapshot_id = summary.snapshot_id
    yield f"{file}: whole"
    if snapshot_id.offset == _UNKNOWN_OFFSET:
        yield f"  id: its epoch is {snapshot_id.epoch}; the name does not tell where it ends"
    else:
        yield f"  id: {snapshot_id}"
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


def _time_text(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return "of no known time"
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")


snapshot.add_command(take)
snapshot.add_command(save)
