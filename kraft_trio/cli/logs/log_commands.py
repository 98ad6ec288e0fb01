"""`kraft log`: checks the directory of a stopped node, and compares those of several replicas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import click

from kraft_trio.cli.terminal.json_option import id_fields, json_option
from kraft_trio.cli.terminal.output import counted, echo_line
from kraft_trio.cli.terminal.paths import ExistingPath
from kraft_trio.cli.terminal.progress import progress
from kraft_trio.errors import CorruptLogError, StorageError
from kraft_trio.storage.checks.partition_check import PartitionReport, bytes_to_read, check_partition
from kraft_trio.storage.checks.replica_comparison import first_difference
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.disk.partition_files import LOG, PARTITION_METADATA, checkpoint_ids, offsets_of
from kraft_trio.storage.disk.real_disk import RealDisk


@click.group()
def log() -> None:
    """Check the logs of stopped nodes, and compare replicas."""


@log.command("verify")
@click.argument("directories", nargs=-1, required=True, metavar="DIR…", type=ExistingPath(file_okay=False))
@partial(json_option, help="Print one JSON object per directory, then one for the comparison.")
def verify(directories: tuple[str, ...], as_json: bool) -> None:
    """Check stopped nodes' directories.

    Every byte is checked, and replicas are compared batch by batch.

    DIR is a node's metadata.log.dir, or the topic's directory in it.  The command changes nothing.  It checks the CRCs,
    epochs, offsets and records of the log and the snapshots, and the files against each other.  With several
    directories it reports the first difference, also in the voters that they were formatted with.  The exit code is 1
    if anything is wrong.
    """
    disk = RealDisk()
    try:
        partitions = [_partition(disk, directory) for directory in directories]
        reports = []
        with progress("checking", sum(bytes_to_read(disk, partition) for partition in partitions)) as bar:
            for partition in partitions:
                report = check_partition(disk, partition, bar.advance)
                if not (report.segment_count or report.snapshots or report.problems):
                    raise StorageError(f"{partition}: nothing to check: it has no segment and no snapshot")
                reports.append(report)
        differences = []
        with progress("comparing", sum(report.log_bytes for report in reports[1:])) as bar:
            for report in reports[1:]:
                difference = first_difference(disk, reports[0], report, bar.advance)
                if difference is not None:
                    differences.append(difference)
    finally:
        disk.close()
    for line in _json_lines(reports, differences) if as_json else _text_lines(reports, differences):
        echo_line(line)
    problems = [*(problem for report in reports for problem in report.problems), *differences]
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise CorruptLogError(f"{problems[0]}{more}")


def _partition(disk: Disk, directory: str) -> str:
    """The directory of the log: this one, or the only one directly below.  Raises StorageError."""
    directory = directory.rstrip("/") or "/"
    if _has_log(disk, directory):
        return directory
    below = [join(directory, name) for name in disk.list_directory(directory) if name.endswith("-0")]
    found = [path for path in below if _has_log(disk, path)]
    if len(found) != 1:
        there = ", ".join(found) or "none"
        raise StorageError(f"{directory}: expected a topic's directory, or a directory with one of them; found {there}")
    return found[0]


def _has_log(disk: Disk, directory: str) -> bool:
    try:
        names = disk.list_directory(directory)
    except NotADirectoryError:
        return False
    # Kafka's metadata.log.dir has a bootstrap.checkpoint next to the topic's directory.
    return PARTITION_METADATA in names or bool(offsets_of(names, LOG) or checkpoint_ids(names))


def _text_lines(reports: list[PartitionReport], differences: list[str]) -> Iterator[str]:
    for report in reports:
        yield report.directory
        yield (
            f"  log: offsets {report.log_start_offset} to {report.log_end}, {counted(report.batch_count, 'batch')}, "
            f"{counted(report.segment_count, 'segment')}, {counted(report.log_bytes, 'byte')}; "
            f"kraft.version {report.kraft_version}"
        )
        for summary in report.snapshots:
            yield (
                f"  snapshot {summary.snapshot_id}: {counted(summary.record_count, 'record')}, "
                f"{counted(summary.batch_count, 'batch')}, {counted(summary.size_in_bytes, 'byte')}"
            )
        if report.election_state is not None:
            yield f"  quorum-state: epoch {report.election_state.epoch}"
        yield from (f"  note: {note}" for note in report.notes)
        yield from (f"  problem: {problem}" for problem in report.problems)
    yield from (f"difference: {difference}" for difference in differences)
    if len(reports) > 1 and not differences:
        yield _common(reports)


def _common(reports: list[PartitionReport]) -> str:
    start, end = max(r.log_start_offset for r in reports), min(r.log_end_offset for r in reports)
    damaged = [report.directory for report in reports if report.is_damaged]
    if damaged:
        return f"no difference in the readable parts; damaged: {', '.join(damaged)}"
    if start >= end:
        return f"the logs share no offsets: the last begins at {start}, the first ends at {end}"
    return f"offsets {start} to {end} are the same in all {len(reports)}"


def _json_lines(reports: list[PartitionReport], differences: list[str]) -> Iterator[str]:
    for report in reports:
        yield json.dumps(_fields(report))
    if len(reports) > 1:
        yield json.dumps({"differences": differences})


def _fields(report: PartitionReport) -> dict[str, Any]:
    return {
        "directory": report.directory,
        "logStartOffset": report.log_start_offset,
        "logEnd": id_fields(report.log_end),
        "segments": report.segment_count,
        "batches": report.batch_count,
        "logBytes": report.log_bytes,
        "kraftVersion": report.kraft_version,
        "snapshots": [
            {
                "snapshotId": id_fields(summary.snapshot_id),
                "records": summary.record_count,
                "batches": summary.batch_count,
                "bytes": summary.size_in_bytes,
            }
            for summary in report.snapshots
        ],
        "quorumStateEpoch": None if report.election_state is None else report.election_state.epoch,
        "notes": report.notes,
        "problems": report.problems,
    }
