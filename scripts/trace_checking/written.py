"""What a stopped replica has written: its key, the batches of its log, and its quorum-state."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import attrs

from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.storage.batches.batch import decode_control_batch, peek_header
from kraft_trio.storage.batches.control_records import ControlRecord, LeaderChange, VotersRecord
from kraft_trio.storage.directory.meta_properties import decode_meta_properties
from scripts.trace_checking.steps import NotTraceableError

PARTITION: Final = "__cluster_metadata-0"


@attrs.frozen
class Written:
    """One batch, or several of one epoch without control records.  The end is exclusive."""

    base: int
    end: int
    epoch: int
    control: tuple[ControlRecord, ...] = ()

    @property
    def leader_change(self) -> LeaderChange | None:
        return next((record for record in self.control if isinstance(record, LeaderChange)), None)

    @property
    def voters(self) -> str:
        """The keys of the voters that it brings, separated by spaces; empty if it brings none."""
        sets = [record for record in self.control if isinstance(record, VotersRecord)]
        return " ".join(str(voter.key) for voter in sets[-1].voters) if sets else ""


@attrs.frozen
class Replica:
    """A stopped replica, Kafka's or ours."""

    id: int
    key: str
    log: tuple[Written, ...]
    epoch: int
    leader: int | None
    """The leader of the epoch, as far as quorum-state has it."""
    voted: int | None

    @property
    def end(self) -> tuple[int, int]:
        """The epoch and the end of its log."""
        return (self.log[-1].epoch, self.log[-1].end) if self.log else (0, 0)


def read_replica(directory: Path) -> Replica:
    """Read a stopped node's directory.

    Raises NotTraceableError if its log does not begin at offset 0, and OSError or StorageError if it cannot be read.
    """
    meta = directory / "meta.properties"
    properties = decode_meta_properties(str(meta), meta.read_bytes())
    partition = directory / PARTITION
    state = {}
    if (partition / "quorum-state").exists():
        state = json.loads((partition / "quorum-state").read_text().splitlines()[0])
    log = tuple(_joined(_batches(partition)))
    if log and log[0].base != 0:
        raise NotTraceableError(f"{directory}: the log begins at offset {log[0].base}; expected all of it, from 0 on")
    return Replica(
        properties.node_id,
        str(ReplicaKey(properties.node_id, properties.directory_id)),
        log,
        max(state.get("leaderEpoch", 0), 0),
        _known(state.get("leaderId", -1)),
        _known(state.get("votedId", -1)),
    )


def _known(node_id: int) -> int | None:
    return node_id if node_id >= 0 else None


def _batches(partition: Path) -> Iterator[Written]:
    for path in sorted(partition.glob("*.log")):
        data = path.read_bytes()
        position = 0
        # A segment may be preallocated; zeros are no batch.
        while position + 17 <= len(data) and data[position + 16]:
            header = peek_header(data, position)
            control: tuple[ControlRecord, ...] = ()
            if header.is_control:
                control = tuple(record for _, record in decode_control_batch(data, position, header))
            yield Written(header.base_offset, header.next_offset, header.leader_epoch, control)
            position += header.size_in_bytes


def _joined(batches: Iterable[Written]) -> Iterator[Written]:
    """Neighbours of one epoch without control records become one."""
    last: Written | None = None
    for batch in batches:
        if last is not None and not last.control and not batch.control and last.epoch == batch.epoch:
            last = attrs.evolve(last, end=batch.end)
            continue
        if last is not None:
            yield last
        last = batch
    if last is not None:
        yield last
