"""What snapshots a replica's device has, and whether they are whole: read from its bytes, not asked of its process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.checkpoint import read_checkpoint
from kraft_trio.storage.control_records import VotersRecord
from kraft_trio.storage.disk import join
from kraft_trio.storage.partition_files import checkpoint_ids, checkpoint_name

if TYPE_CHECKING:
    from kraft_trio.simulation.facts.replica import Replica


def snapshots_of(replica: Replica) -> list[OffsetAndEpoch]:
    """The ids of the snapshots in its directory but the bootstrap one, ascending."""
    names = replica.machine.disk.peek_names(replica.machine.partition_path)
    return [snapshot_id for snapshot_id in checkpoint_ids(names) if snapshot_id.offset]


def path_of(replica: Replica, snapshot_id: OffsetAndEpoch) -> str:
    return join(replica.machine.partition_path, checkpoint_name(snapshot_id))


def content_of(replica: Replica, snapshot_id: OffsetAndEpoch) -> bytes | None:
    """Its bytes as readers see them; None where it is not there, or damaged by its medium."""
    return None if is_rotten(replica, snapshot_id) else replica.machine.disk.peek(path_of(replica, snapshot_id))


def is_rotten(replica: Replica, snapshot_id: OffsetAndEpoch) -> bool:
    """Whether its medium has damaged it, and no other one has been written in its place since."""
    machine, path = replica.machine, path_of(replica, snapshot_id)
    return path in machine.damaged_files and machine.disk.peek(path) == machine.damaged_files[path]


def problem_of(content: bytes | None) -> str | None:
    """What is wrong with a snapshot of these bytes; None for a whole one."""
    if content is None:
        return "it is not there"
    try:
        for _ in read_checkpoint(content):
            pass
    except ProtocolError as error:
        return f"it is not whole: {error}"
    return None


def voters_in(content: bytes | None) -> VoterSet | None:
    """The voters that a snapshot of these bytes has; None where it has none, or cannot be read up to there."""
    with contextlib.suppress(ProtocolError):
        for record in read_checkpoint(content or b""):
            if isinstance(record, VotersRecord):
                return record.voters
    return None


def is_rotten_unnoticed(replica: Replica, snapshot_id: OffsetAndEpoch) -> bool:
    """Whether its medium has damaged it since the process opened it, and the process has not come upon that yet.

    A snapshot is read to its end when a log is opened and when it is given to others, not all the time.
    """
    assert replica.node is not None
    is_of_late = path_of(replica, snapshot_id) in replica.machine.damaged_under_process
    return is_of_late and is_rotten(replica, snapshot_id) and snapshot_id not in replica.node.log.snapshots.unfit


def problem_with_cover(replica: Replica, start: int, read: Callable[[str], bytes | None]) -> str | None:
    """Why no snapshot stands for what is below `start`: the newest one that reaches it is not whole; None: it is.

    One whose medium has been damaged is passed over, as its replica does, but one of which the replica cannot know
    that: what it drops in reliance on that one the fault has lost, and no rule was broken.  `read` gives the bytes of
    a path.
    """
    reaching = [id for id in snapshots_of(replica) if id.offset >= start]
    relied_on = [id for id in reaching if not is_rotten(replica, id) or is_rotten_unnoticed(replica, id)]
    if not relied_on:
        return "no snapshot ends there or later"
    newest = relied_on[-1]
    problem = None if is_rotten(replica, newest) else problem_of(read(path_of(replica, newest)))
    return None if problem is None else f"snapshot {newest}: {problem}"
