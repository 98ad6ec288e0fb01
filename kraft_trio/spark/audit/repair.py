"""Which replicas have whole what another one has damaged, and the commands that repair it from them.

Logs of one quorum have the same bytes at the same offsets, and segments mostly begin at the same offsets.  A damaged
part is repaired by the bytes of another replica at the same position, and a missing or short segment by the file of
another replica.  Nothing here changes a file.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.spark.audit.check import REPAIRS
from kraft_trio.spark.audit.engine import Engine, Row
from kraft_trio.spark.audit.missing_segments import Holding, Segment, missing_segments
from kraft_trio.spark.audit.results import Violation
from kraft_trio.spark.directories.files import join
from kraft_trio.spark.directories.replicas import Replica, find_replicas
from kraft_trio.spark.file_system import printable
from kraft_trio.storage.disk.partition_files import LOG, checkpoint_name, offset_file_name

MOST_REPAIRS: Final = 1000
MOST_FILES: Final = 200
"""Most files in one command."""
FINDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "batches": ("log_checksums", "log_damage"),
    "snapshots": ("log_snapshots_are_whole",),
}
"""The checks that find the damage of each kind."""
OF_GAPS: Final = ("log_offsets_without_holes", "log_start_is_covered")
"""The checks that find segments missing before a log's end."""
OF_TAILS: Final = ("log_ends_in_zeros", "log_has_records", "log_lag", "log_reaches_its_files")
"""The checks that find a log's end missing; their subject is a replica."""
OF_DIFFERENCES: Final = ("log_matching", "log_same_prefix")
"""The checks that find logs with different records, of which none can be repaired by another."""
_SQL: Final = {view.name: view.sql for view in REPAIRS}


@attrs.frozen
class Repair:
    """A damaged part of a file, which other replicas have whole."""

    cluster: str
    directory: str
    """Of the replica that is damaged."""
    place: str
    holders: tuple[str, ...]
    """Directories of the replicas that have it whole."""
    command: str | None
    """What repairs it in a shell while the node is stopped; None if the replicas disagree or are not local."""

    def __str__(self) -> str:
        text = f"{self.place}: whole in {', '.join(self.holders)}"
        if self.command is None:
            return text
        return f"{text}; while the node is stopped: {self.command} && kraft log verify {shlex.quote(self.directory)}"


def find_repairs(engine: Engine, directories: Sequence[str], violations: Sequence[Violation]) -> tuple[Repair, ...]:
    """The repairs for what was found in these directories; at most MOST_REPAIRS of each kind."""
    checks = {violation.check for violation in violations}
    kinds = [kind for kind, finders in FINDERS.items() if not checks.isdisjoint(finders)]
    has_gaps = not checks.isdisjoint((*OF_GAPS, *OF_TAILS))
    if not kinds and not has_gaps:
        return ()
    replicas = {printable(one.directory): one for one in find_replicas(directories, True)}
    partitions = {directory: one.partition for directory, one in replicas.items()}
    repairs = [repair for kind in kinds for repair in _repairs(engine, kind, partitions)]
    return (*repairs, *(_of_segments(engine, replicas, violations) if has_gaps else ()))


def _repairs(engine: Engine, kind: str, partitions: Mapping[str, str]) -> Iterable[Repair]:
    rows: dict[tuple[str, str, str], list[Row]] = {}
    for row in engine.rows(f"select * from ({_SQL[kind]}) order by cluster, place, holder limit {MOST_REPAIRS}"):
        rows.setdefault((row["cluster"], row["directory"], row["place"]), []).append(row)
    for (cluster, directory, place), of_place in rows.items():
        holders = tuple(row["holder"] for row in of_place)
        agree = len({row["content"] for row in of_place}) == 1
        command = _command(of_place[0], partitions) if agree else None
        yield Repair(cluster, directory, place, holders, command)


def _command(row: Row, partitions: Mapping[str, str]) -> str | None:
    damaged, whole = partitions.get(row["directory"]), partitions.get(row["holder"])
    if not damaged or not whole or "://" in damaged or "://" in whole:
        return None
    is_log = "segment" in row
    name = (
        offset_file_name(row["segment"], LOG)
        if is_log
        else checkpoint_name(OffsetAndEpoch(row["end_offset"], row["epoch"]))
    )
    source, target = shlex.quote(join(whole, name)), shlex.quote(join(damaged, name))
    if not is_log:
        return f"cp {source} {target}"
    position = row["position"]
    return (
        f"dd if={source} of={target} skip={position} seek={position} count={row['size']} "
        "iflag=skip_bytes,count_bytes oflag=seek_bytes conv=notrunc"
    )


def _of_segments(engine: Engine, replicas: Mapping[str, Replica], violations: Sequence[Violation]) -> Iterable[Repair]:
    """The repairs of logs that lack segments, or parts of them."""
    differing = {violation.cluster for violation in violations if violation.check in OF_DIFFERENCES}
    gaps = {violation.cluster for violation in violations if violation.check in OF_GAPS}
    tails = {(violation.cluster, violation.subject) for violation in violations if violation.check in OF_TAILS}
    segments: dict[tuple[str, str], dict[int, Segment]] = {}
    for row in engine.rows(f"select * from ({_SQL['segments']}) where end is not null or unreadable > 0"):
        of_directory = segments.setdefault((row["cluster"], row["directory"]), {})
        of_directory[row["segment"]] = _segment(row)
    # Another command restores these snapshots.
    restored = {
        row["directory"]: row["end"]
        for row in engine.rows(
            f"select directory, max(end_offset) as end from ({_SQL['snapshots']}) group by directory"
        )
    }
    clusters: dict[str, dict[str, Holding]] = {}
    names: dict[str, str] = {}
    for row in engine.rows(f"select * from ({_SQL['replicas']}) order by cluster, directory"):
        cluster, directory = row["cluster"], row["directory"]
        replica = replicas.get(directory)
        if replica is not None and cluster not in differing:
            names[directory] = row["replica"]
            known = segments.get((cluster, directory), {})
            files = {offset: known.get(offset) for offset, _ in replica.segments}
            snapshot_end = max(row["snapshot_end"] or 0, restored.get(directory, 0))
            holding = Holding(files, snapshot_end, row["leader_epoch"] or 0)
            clusters.setdefault(cluster, {})[directory] = holding
    for cluster, holdings in clusters.items():
        for directory, broken in holdings.items():
            with_tail = (cluster, names[directory]) in tails
            if with_tail or cluster in gaps:
                repair = _from_another(cluster, directory, broken, holdings, replicas, with_tail=with_tail)
                yield from [] if repair is None else [repair]


def _segment(row: Row) -> Segment:
    return Segment(
        row["end"] or 0, row["epoch"] or 0, row["is_complete"], row["is_intact"], row["unreadable"], row["content"] or 0
    )


def _from_another(
    cluster: str,
    directory: str,
    broken: Holding,
    holdings: Mapping[str, Holding],
    replicas: Mapping[str, Replica],
    *,
    with_tail: bool,
) -> Repair | None:
    """The repair by the replica that has most of what is missing."""
    found = {
        other: missing_segments(broken, whole, with_tail=with_tail)
        for other, whole in holdings.items()
        if other != directory
    }
    most = max(found.values(), key=len, default=[])
    if not most:
        return None
    holders = tuple(other for other, bases in found.items() if bases == most)
    files = [offset_file_name(base, LOG) for base in most]
    place = f"{directory}, {files[0]}" + (f" to {files[-1]}, {len(files)} segments" if len(files) > 1 else "")
    source, target = replicas[holders[0]].partition, replicas[directory].partition
    is_local = "://" not in source and "://" not in target
    command = None
    if is_local and len(files) <= MOST_FILES:
        command = f"cp {' '.join(shlex.quote(join(source, name)) for name in files)} {shlex.quote(target)}/"
    return Repair(cluster, directory, place, holders, command)
