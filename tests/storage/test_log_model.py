"""The log against a list: appends, truncations, syncs, snapshots, trims, crashes, in every order hypothesis finds."""

from __future__ import annotations

import random

import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation.disk.inode import Loss
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches.batch import NewRecord, decode_records, encode_batch
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.segments.retention import RetentionLimits
from kraft_trio.storage.snapshots.snapshot_reader import ControlState
from tests.storage.support import open_log, snapshot_state, snapshot_values, values_of_snapshot, write_snapshot
from tests.support import sizes

SEGMENT_BYTES = 600

Batch = tuple[int, int, tuple[bytes, ...], int | None]
"""Base offset, epoch, values, base sequence of producer 7 or None."""


class LogModel(RuleBasedStateMachine):
    """`batches` is all that was appended and not truncated, since offset `base`; the log holds it from its start on."""

    @initialize(seed=st.integers(0, 2**32), preallocate_bytes=st.sampled_from([0, 100, 4096]))
    def start(self, seed: int, preallocate_bytes: int) -> None:
        self.disk = SimulatedDisk(random.Random(seed))
        self.preallocate_bytes = preallocate_bytes
        self.log = self.opened()
        self.batches: list[Batch] = []
        self.base = 0
        """Where the newest snapshot ends that took the log's place."""
        self.snapshots: dict[OffsetAndEpoch, list[bytes]] = {}
        """Every snapshot that was ever written, and the values that it remembers."""
        self.epoch = 1
        self.follower = False

    def opened(self) -> Log:
        return open_log(self.disk, segment_bytes=SEGMENT_BYTES, preallocate_bytes=self.preallocate_bytes)

    def next_sequence(self) -> int:
        used = [(b[3], len(b[2])) for b in self.batches if b[3] is not None]
        return used[-1][0] + used[-1][1] if used else 0  # type: ignore[operator]

    @rule(
        sizes=st.lists(st.integers(0, 150), min_size=1, max_size=3), idempotent=st.booleans(), new_epoch=st.booleans()
    )
    def append(self, sizes: list[int], idempotent: bool, new_epoch: bool) -> None:
        self.epoch += new_epoch
        base_offset = self.log.end_offset
        values = tuple(bytes([base_offset % 256]) * size for size in sizes)
        sequence = self.next_sequence() if idempotent else None
        encoded = encode_batch(
            [NewRecord(value) for value in values],
            timestamp_ms=base_offset,
            producer_id=7 if idempotent else -1,
            producer_epoch=0 if idempotent else -1,
            base_sequence=-1 if sequence is None else sequence,
        )
        if self.follower:
            buffer = bytearray(encoded)
            buffer[:8] = base_offset.to_bytes(8, "big")
            buffer[12:16] = self.epoch.to_bytes(4, "big")
            appended = self.log.append_as_follower(bytes(buffer))
        else:
            appended = self.log.append_as_leader(encoded, self.epoch)
        self.follower = not self.follower
        assert (appended.base_offset, appended.next_offset) == (base_offset, base_offset + len(values))
        self.batches.append((base_offset, self.epoch, values, sequence))

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        keep = data.draw(st.integers(0, len(self.batches) - 1))
        offset = self.batches[keep][0]
        if self.log.high_watermark is not None and offset < self.log.high_watermark:
            return
        self.log.truncate_to(offset)
        del self.batches[keep:]
        self.epoch += 1

    @rule()
    def sync(self) -> None:
        assert trio.run(self.log.sync) == self.log.end_offset == self.log.synced_end_offset

    @rule()
    def commit_what_is_synced(self) -> None:
        self.log.advance_high_watermark(self.log.synced_end_offset)

    @rule(data=st.data())
    def snapshot(self, data: st.DataObject) -> None:
        high_watermark = self.log.high_watermark or 0
        newest = self.log.snapshots.newest
        after = 0 if newest is None else newest.offset
        ends = [b[0] + len(b[2]) for b in self.batches]
        ends = [end for end in ends if after < end <= high_watermark]
        if not ends:
            return
        end = data.draw(st.sampled_from(ends))
        snapshot_id = self.log.next_snapshot_id(end)
        assert snapshot_id is not None
        values = snapshot_values(self.log, end)
        trio.run(write_snapshot, self.disk, snapshot_id, snapshot_state(self.log, end), values)
        self.log.add_snapshot(snapshot_id)
        self.snapshots[snapshot_id] = values

    @rule(max_bytes=st.integers(0, 3000), remove=st.booleans())
    def trim(self, max_bytes: int, remove: bool) -> None:
        trio.run(self.log.trim, RetentionLimits(max_bytes, None))
        if remove:
            trio.run(self.log.remove_retired)

    @rule(ahead=st.integers(0, 20))
    def install(self, ahead: int) -> None:
        """The leader's snapshot, of an epoch that this replica has nothing of."""
        self.epoch += 1
        snapshot_id = OffsetAndEpoch(self.log.end_offset + 1 + ahead, self.epoch)
        values = [b"%d" % number for number in range(3)]
        trio.run(write_snapshot, self.disk, snapshot_id, ControlState(1000), values)
        self.log.add_snapshot(snapshot_id)
        self.log.truncate_fully_to(snapshot_id)
        self.snapshots[snapshot_id] = values
        self.base, self.batches = snapshot_id.offset, []

    @rule(lose=st.sampled_from(("all", "some", "reordered")))
    def crash(self, lose: Loss) -> None:
        synced_end_offset = self.log.synced_end_offset
        was = self.batches
        self.disk.crash(lose)
        self.reopen()
        end_offset = self.log.end_offset
        assert end_offset >= synced_end_offset
        self.batches = [b for b in was if b[0] < end_offset]
        # A truncation that was not synced may have been undone; what was below it is there in any case.
        held = self.base + sum(len(b[2]) for b in self.batches)
        if held != end_offset:
            self.log.truncate_to(held)

    @rule()
    def kill(self) -> None:
        self.disk.kill()
        self.reopen()

    @rule()
    def close(self) -> None:
        trio.run(self.log.close)
        self.reopen()

    def reopen(self) -> None:
        self.log = self.opened()
        assert self.log.synced_end_offset == self.log.end_offset
        newest = self.log.snapshots.newest
        assert self.log.high_watermark == (None if newest is None else newest.offset)

    @invariant()
    def the_log_holds_what_the_model_holds(self) -> None:
        if not hasattr(self, "log"):
            return
        held = [
            (header.base_offset, header.leader_epoch, tuple(record.value for record in decode_records(data, 0, header)))
            for header, data in self.log.iter_batches(self.log.log_start_offset, self.log.end_offset)
        ]
        kept = [batch for batch in self.batches if batch[0] >= self.log.log_start_offset]
        assert held == [(base_offset, epoch, values) for base_offset, epoch, values, _ in kept]
        assert self.log.synced_end_offset <= self.log.end_offset
        starts: dict[int, int] = {}
        for base_offset, epoch, _, _ in kept:
            starts.setdefault(epoch, base_offset)
        assert self.log.epochs.entries == tuple(starts.items())
        for base_offset, epoch, _values, _ in kept[::5]:
            data = self.log.read(base_offset, 0)
            assert int.from_bytes(data[:8], "big") == base_offset
            assert int.from_bytes(data[12:16], "big") == epoch

    @invariant()
    def a_snapshot_reaches_up_to_the_start_and_what_it_remembers_is_what_was_there(self) -> None:
        if not hasattr(self, "log"):
            return
        ids, start = self.log.snapshots.ids, self.log.log_start_offset
        assert self.log.snapshots.damaged == {}
        assert not start or (ids and start <= ids[0].offset)
        if not ids:
            return
        newest = ids[-1]
        assert newest.offset <= self.log.end_offset
        assert values_of_snapshot(self.log, newest) == self.snapshots[newest]
        everything = snapshot_values(self.log, self.log.end_offset)
        own = [value for batch in self.batches for value in batch[2]]
        assert everything[len(everything) - len(own) :] == own

    @invariant()
    def the_producers_are_those_of_the_batches(self) -> None:
        if not hasattr(self, "log"):
            return
        expected = ProducerStates()
        for base_offset, _, values, sequence in self.batches:
            if sequence is not None:
                expected.record(7, 0, sequence, base_offset, base_offset + len(values) - 1, base_offset)
        found = [(p.producer_id, p.batches[-1]) for p in self.log.producers]
        assert found == [(p.producer_id, p.batches[-1]) for p in expected]
        sequence = self.next_sequence()
        assert self.log.producers.check(7, 0, sequence, 1) == expected.check(7, 0, sequence, 1)


TestLogModel = LogModel.TestCase
TestLogModel.settings = settings(max_examples=sizes.examples(60), stateful_step_count=40)
