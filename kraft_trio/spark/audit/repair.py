"""Which replicas have whole what another one has damaged, and the commands that repair it from them.

Logs of one quorum have the same bytes at the same offsets, and segments mostly begin at the same offsets.  A damaged
part is repaired by the bytes of another replica at the same position.  Nothing here changes a file.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.spark.audit.check import REPAIRS
from kraft_trio.spark.audit.engine import Engine, Row
from kraft_trio.spark.directories.files import join
from kraft_trio.spark.directories.replicas import find_replicas
from kraft_trio.spark.file_system import printable
from kraft_trio.storage.disk.partition_files import LOG, checkpoint_name, offset_file_name

MOST_REPAIRS: Final = 1000
FINDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "batches": ("log_checksums", "log_damage"),
    "snapshots": ("log_snapshots_are_whole",),
}
"""The checks that find the damage of each kind."""


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


def find_repairs(engine: Engine, directories: Sequence[str], violated: Iterable[str]) -> tuple[Repair, ...]:
    """The repairs for what these checks found in these directories; at most MOST_REPAIRS of each kind."""
    kinds = [kind for kind, finders in FINDERS.items() if not set(finders).isdisjoint(violated)]
    if not kinds:
        return ()
    partitions = {printable(one.directory): one.partition for one in find_replicas(directories, True)}
    return tuple(repair for kind in kinds for repair in _repairs(engine, kind, partitions))


def _repairs(engine: Engine, kind: str, partitions: Mapping[str, str]) -> Iterable[Repair]:
    sql = next(view.sql for view in REPAIRS if view.name == kind)
    rows: dict[tuple[str, str, str], list[Row]] = {}
    for row in engine.rows(f"select * from ({sql}) order by cluster, place, holder limit {MOST_REPAIRS}"):
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
