"""Which snapshots a replica's device holds, and whether they are whole, read from the bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import lru_cache

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.storage.batches.control_records import VotersRecord
from kraft_trio.storage.disk.disk import join
from kraft_trio.storage.disk.partition_files import checkpoint_ids, checkpoint_name
from kraft_trio.storage.snapshots.checkpoint import read_checkpoint


def snapshots_of(replica: Replica) -> tuple[OffsetAndEpoch, ...]:
    """The ids of the snapshots in its directory, ascending, without the bootstrap checkpoint."""
    return _snapshots_among(tuple(replica.device.content.peek_names(replica.device.partition_path)))


@lru_cache(maxsize=64)
def _snapshots_among(names: tuple[str, ...]) -> tuple[OffsetAndEpoch, ...]:
    """The same names mean the same snapshots, and a directory changes far less often than it is read."""
    return tuple(snapshot_id for snapshot_id in checkpoint_ids(list(names)) if snapshot_id.offset)


def path_of(replica: Replica, snapshot_id: OffsetAndEpoch) -> str:
    return join(replica.device.partition_path, checkpoint_name(snapshot_id))


def content_of(replica: Replica, snapshot_id: OffsetAndEpoch) -> bytes | None:
    """Its bytes as readers see them; None if it is missing or the medium has damaged it."""
    path = path_of(replica, snapshot_id)
    return None if replica.device.is_rotten(path) else replica.device.content.peek(path)


def is_rotten(replica: Replica, snapshot_id: OffsetAndEpoch) -> bool:
    """Whether the medium has damaged it, and it has not been written again since."""
    return replica.device.is_rotten(path_of(replica, snapshot_id))


def problem_of(content: bytes | None) -> str | None:
    """What is wrong with a snapshot of these bytes; None if it is whole."""
    if content is None:
        return "it is not there"
    try:
        for _ in read_checkpoint(content):
            pass
    except ProtocolError as error:
        return f"it is not whole: {error}"
    return None


def voters_in(content: bytes | None) -> VotersRecord | None:
    """The VotersRecord in a snapshot of these bytes; None if it has none that can be read."""
    with contextlib.suppress(ProtocolError):
        for record in read_checkpoint(content or b""):
            if isinstance(record, VotersRecord):
                return record
    return None


def problem_with_cover(replica: Replica, start: int, read: Callable[[str], bytes | None]) -> str | None:
    """Why no snapshot replaces what is below `start`; None if the newest one that reaches `start` is whole.

    A snapshot that the medium has damaged does not count, as for the replica itself.  If the replica cannot have
    noticed the damage, it may still have relied on the snapshot: then the fault has lost the records, and the replica
    has broken no rule.  `read` returns the content of a path.
    """
    reaching = [id for id in snapshots_of(replica) if id.offset >= start]
    relied_on = [id for id in reaching if not is_rotten(replica, id) or _is_rotten_unnoticed(replica, id)]
    if not relied_on:
        return "no snapshot ends there or later"
    newest = relied_on[-1]
    problem = None if is_rotten(replica, newest) else problem_of(read(path_of(replica, newest)))
    return None if problem is None else f"snapshot {newest}: {problem}"


def _is_rotten_unnoticed(replica: Replica, snapshot_id: OffsetAndEpoch) -> bool:
    """Whether the medium has damaged it under the present process, which has not noticed that.

    A process reads a snapshot to its end when it opens the log and when it sends the snapshot, not all the time.
    """
    assert replica.beliefs is not None
    is_recent = path_of(replica, snapshot_id) in replica.device.damaged_under_process
    return is_recent and is_rotten(replica, snapshot_id) and not replica.beliefs.knows_corrupt(snapshot_id)
