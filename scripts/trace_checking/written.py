"""What a stopped replica has written: its key, the batches of its log, and its quorum-state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.storage.batches.batch import decode_control_batch
from kraft_trio.storage.batches.batch_header import check_crc, peek_header
from kraft_trio.storage.batches.control_records import ControlRecord, LeaderChange, VotersRecord
from kraft_trio.storage.directory.meta_properties import META_PROPERTIES, decode_meta_properties
from kraft_trio.storage.directory.quorum_state import decode_quorum_state
from kraft_trio.storage.disk.partition_files import QUORUM_STATE
from scripts.trace_checking.steps import LARGEST_EPOCH, NotTraceableError

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
    cluster_id: str = ""

    @property
    def end(self) -> tuple[int, int]:
        """The epoch and the end of its log."""
        return (self.log[-1].epoch, self.log[-1].end) if self.log else (0, 0)


def read_replicas(directories: Sequence[Path]) -> list[Replica]:
    """Read the directories of a quorum's stopped nodes.

    Raises NotTraceableError if they are not those of one cluster, one of each node, and otherwise as `read_replica`.
    """
    found: dict[int, tuple[Path, Replica]] = {}
    for directory in directories:
        replica = read_replica(directory)
        first, other = next(iter(found.values()), (directory, replica))
        if replica.cluster_id != other.cluster_id:
            raise NotTraceableError(
                f"{directory}: cluster.id {replica.cluster_id}; expected {other.cluster_id}, which {first} has"
            )
        if replica.id in found:
            raise NotTraceableError(
                f"{directory}: node.id {replica.id}, which {found[replica.id][0]} has; expected one directory a node"
            )
        found[replica.id] = directory, replica
    return [replica for _, replica in found.values()]


def read_replica(directory: Path) -> Replica:
    """Read a stopped node's directory.

    Raises NotTraceableError if its log does not begin at offset 0, is damaged or has a gap, and OSError or StorageError
    if it cannot be read.
    """
    meta = directory / META_PROPERTIES
    properties = decode_meta_properties(str(meta), meta.read_bytes())
    partition = directory / PARTITION
    quorum_state = partition / QUORUM_STATE
    state = ElectionState(0)
    if quorum_state.exists():
        state = decode_quorum_state(str(quorum_state), quorum_state.read_bytes())
    if state.epoch > LARGEST_EPOCH:
        raise NotTraceableError(f"{quorum_state}: leaderEpoch {state.epoch}; expected {LARGEST_EPOCH} at most")
    return Replica(
        properties.node_id,
        str(ReplicaKey(properties.node_id, properties.directory_id)),
        tuple(_joined(_batches(partition))),
        state.epoch,
        state.leader_id,
        None if state.voted_key is None else state.voted_key.id,
        properties.cluster_id,
    )


def _batches(partition: Path) -> Iterator[Written]:
    end = 0
    for path in sorted(partition.glob("*.log")):
        data = path.read_bytes()
        try:
            for batch in _batches_of(data):
                if batch.base != end:
                    raise NotTraceableError(
                        f"{path}: the next batch is at offset {batch.base}; expected {end}: the whole log is needed"
                    )
                end = batch.end
                yield batch
        except ProtocolError as error:
            raise NotTraceableError(f"{path}: {error}; expected whole batches") from None


def _batches_of(data: bytes) -> Iterator[Written]:
    position = 0
    # A segment may be preallocated; zeros are no batch.
    end = len(data.rstrip(b"\0"))
    while position < end:
        header = peek_header(data, position)
        check_crc(data, position, header)
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
