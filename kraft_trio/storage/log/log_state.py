"""What the batches of a log say: leader epochs, voters and producers."""

from __future__ import annotations

from collections.abc import Iterator

import trio

from kraft_trio.protocol.epoch_cache import EpochCache
from kraft_trio.protocol.producer_history import ProducerHistory
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.protocol.voter_history import VoterHistory
from kraft_trio.storage.batches.control_records import ControlRecord, KRaftVersion, VotersRecord
from kraft_trio.storage.segments.log_append import PlannedBatches
from kraft_trio.storage.segments.producer_replay import replay_producers
from kraft_trio.storage.segments.producer_snapshot import load_producer_snapshot
from kraft_trio.storage.segments.segments import Segments
from kraft_trio.storage.snapshots.snapshots import Snapshots


class LogState:
    """The state that a log folds from its batches, in the same step that appends or removes them (rule R2).

    Owned by its `Log`.  Opening creates it; `log_recovery` folds what the log holds by then.
    """

    def __init__(
        self, epochs: EpochCache, voters: VoterHistory, producers: ProducerStates, producer_history: ProducerHistory
    ) -> None:
        self.epochs = epochs
        self.voters = voters
        self._producers = producers
        self._producer_history = producer_history
        self._replay: Iterator[None] | None = None
        """The rest of the replay that a truncation has begun."""
        self.voters_changed = trio.lowlevel.ParkingLot()

    @property
    def producer_count(self) -> int:
        """How many producers are remembered; fewer while a replay is under way."""
        return len(self._producers)

    @property
    def producers(self) -> ProducerStates:
        """The producers at the end of the log.  Finishes a replay at once.  Raises CorruptLogError, OSError."""
        while self.replay_some():
            pass
        return self._producers

    def replay_some(self) -> bool:
        """Take the next step in restoring the producers after a truncation.  Returns whether there may be another.

        Raises CorruptLogError, OSError.
        """
        if self._replay is None:
            return False
        try:
            next(self._replay)
        except StopIteration:
            self._replay = None
            return False
        return True

    def fold(self, plan: PlannedBatches, next_offset: int, high_watermark: int | None) -> None:
        """Fold batches that were just appended.  `next_offset` is the new end of the log (exclusive)."""
        producers = self.producers
        for batch in plan.batches:
            self.epochs.append(batch.leader_epoch, batch.base_offset)
            if batch.producer_id >= 0:
                producers.record(
                    batch.producer_id,
                    batch.producer_epoch,
                    batch.base_sequence,
                    batch.base_offset,
                    batch.last_offset,
                    batch.max_timestamp_ms,
                )
        for offset, record in plan.control_records:
            fold_control_record(self.voters, offset, record)
        if plan.control_records and self.voters_changed:
            self.voters_changed.unpark_all()
        self._producer_history.grow(plan.size, next_offset, producers, high_watermark)

    def epochs_after(self, plan: PlannedBatches) -> EpochCache:
        """Return the epochs as they will be once the plan is folded."""
        epochs = EpochCache(self.epochs)
        for batch in plan.batches:
            epochs.append(batch.leader_epoch, batch.base_offset)
        return epochs

    def truncate_to(self, offset: int, segments: Segments, high_watermark: int | None) -> None:
        """Go back to the state at `offset`, where `segments` end now.  `replay_some` restores the producers."""
        self.epochs.truncate_from_end(offset)
        if self.voters.truncate_to(offset) and self.voters_changed:
            self.voters_changed.unpark_all()
        self._truncate_producers_to(offset, segments, high_watermark)

    def _truncate_producers_to(self, offset: int, segments: Segments, high_watermark: int | None) -> None:
        from_offset, producers = self._producer_history.go_back(offset)
        if len(self._producers) or self._replay is not None:
            self._producers = producers
            self._replay = self._replay_to(offset, segments, from_offset, high_watermark)

    def _replay_to(
        self, offset: int, segments: Segments, from_offset: int, high_watermark: int | None
    ) -> Iterator[None]:
        size = yield from replay_producers(segments, self._producers, from_offset, offset)
        self._producer_history.grow(size, offset, self._producers, high_watermark)

    def trim_to(self, offset: int, segments: Segments) -> None:
        """Forget what only matters below `offset`, where the log is about to start.

        The segments below it are still readable.  Everything there is committed, so no truncation will need it.  Raises
        CorruptLogError, OSError.
        """
        producers_now = self.producers
        history = self._producer_history
        if history.start_offset < offset:
            from_offset, producers = history.newest_until(offset)
            if len(producers_now):
                for _ in replay_producers(segments, producers, from_offset, offset):
                    pass
            history.advance_start(offset, producers)
        if offset == segments.end_offset:
            # No record remains.  As after opening such a log, its epoch is that of the newest snapshot.
            self.epochs.clear()
        else:
            self.epochs.truncate_from_start(offset)
        self.voters.trim_prefix_to(offset)

    def install_snapshot(self, snapshots: Snapshots) -> None:
        """Replace everything by what the newest snapshot says (scenario S11).

        Raises StorageError, CorruptSnapshotError, OSError.
        """
        self.epochs.clear()
        offset = self.install_voters(snapshots)
        self._replay = None
        self._producers.clear()
        load_producers(snapshots, offset, self._producers)
        self._producer_history.begin_at(offset, self._producers)
        if self.voters_changed:
            self.voters_changed.unpark_all()

    def install_voters(self, snapshots: Snapshots) -> int:
        """Replace the voters and kraft.version by the newest snapshot's; return its end offset (exclusive).

        Raises CorruptSnapshotError, OSError.
        """
        newest = snapshots.newest
        assert newest is not None
        state = snapshots.control_state(newest)
        self.voters.install_snapshot(
            newest.offset, state.voters, state.kraft_version, state.removed_voters, state.target_voters
        )
        return newest.offset


def fold_control_record(voters: VoterHistory, offset: int, record: ControlRecord) -> None:
    """Fold the control record at `offset`.  Voters and kraft.version take effect when appended (KIP-853)."""
    match record:
        case VotersRecord():
            voters.add_voters(offset, record.voters, record.target)
        case KRaftVersion():
            voters.add_kraft_version(offset, record.version)


def load_producers(snapshots: Snapshots, log_start_offset: int, producers: ProducerStates) -> int:
    """Record the newest snapshot's producers if the log does not start at 0.

    Returns the offset from which on the log's own batches tell the rest.  Raises StorageError, OSError.
    """
    if log_start_offset == 0:
        return 0
    snapshot_id = snapshots.newest
    assert snapshot_id is not None, f"a log that begins at {log_start_offset} without a snapshot"
    encoded = snapshots.control_state(snapshot_id).producers
    if encoded:
        load_producer_snapshot(snapshots.path(snapshot_id), encoded, producers)
    return snapshot_id.offset
