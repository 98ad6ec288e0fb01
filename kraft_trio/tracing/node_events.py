"""The events of one process of one replica.  They are the same for a simulated node and a real one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kraft_trio.messages import QuorumView
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.storage.batches.batch import Record
from kraft_trio.storage.batches.control_records import VotersRecord

Note = Callable[..., object]
"""`Trace.record`, or a function with the same parameters."""


class NodeEvents:
    """Adds events to a trace.  The observer of a node calls a method in the step in which the event happens.

    Offsets are exclusive ends, except for `base_offset`.
    """

    def __init__(self, note: Note, node_id: int) -> None:
        self._note = note
        self._node_id = node_id

    def started(self, key: ReplicaKey) -> None:
        """The process has opened its directory."""
        self._note("start", node=self._node_id, directory_id=str(key))

    def ended(self, cause: str) -> None:
        """The process has ended."""
        self._note("end", node=self._node_id, cause=cause)

    def published(self, old: QuorumView | None, view: QuorumView) -> None:
        """The node has published a new view.  `old` is None for the first view of the process."""
        if old is None or old.stamp != view.stamp:
            voted = getattr(view.role, "voted", None)
            self._note(
                "role",
                node=self._node_id,
                was=None if old is None else type(old.role).__name__,
                voted=None if voted is None else str(voted),
                known_leader=view.known_leader_id,
            )
        elif old.voters != view.voters or old.kraft_version != view.kraft_version:
            self._note("voters", node=self._node_id, kraft_version=view.kraft_version)

    def appended(
        self,
        base_offset: int,
        next_offset: int,
        record_epoch: int,
        is_control: bool,
        brought: Iterable[tuple[int, VotersRecord]],
    ) -> None:
        """Batches were appended.  `brought` has their voter sets, each with the base offset of its batch."""
        sets = list(brought)
        targets = [_keys(record.target) for _, record in sets]
        self._note(
            "append",
            node=self._node_id,
            base_offset=base_offset,
            next_offset=next_offset,
            record_epoch=record_epoch,
            control=is_control,
            voters_offsets=[offset for offset, _ in sets],
            voters=[_keys(voter.key for voter in record.voters) for _, record in sets],
            **({"targets": targets} if any(targets) else {}),
        )

    def truncated(self, end_offset: int, batches: int | None) -> None:
        self._note("truncate", node=self._node_id, to=end_offset, batches=batches)

    def replaced(self, snapshot_id: OffsetAndEpoch, batches: int | None) -> None:
        self._note("replace", node=self._node_id, snapshot_id=str(snapshot_id), batches=batches)

    def trimmed(self, log_start_offset: int) -> None:
        self._note("trim", node=self._node_id, to=log_start_offset)

    def synced(self) -> None:
        self._note("sync", node=self._node_id)

    def high_watermark_advanced(self, old: int | None) -> None:
        self._note("high_watermark", node=self._node_id, was=old)

    def loaded(self, end_offset: int) -> None:
        """The state machine is about to load a snapshot that ends at `end_offset`."""
        self._note("load", node=self._node_id, to=end_offset)

    def applied(self, records: Sequence[Record]) -> None:
        """The state machine is about to apply these records."""
        self._note("apply", node=self._node_id, base_offset=records[0].offset, next_offset=records[-1].offset + 1)


def _keys(keys: Iterable[ReplicaKey]) -> str:
    return " ".join(map(str, keys))
