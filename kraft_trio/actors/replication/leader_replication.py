"""The leader's side of replication: appends, parked fetches, the high watermark, check-quorum.

The high watermark moves in `_advance_high_watermark`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.context.replica_progress import ProgressTable
from kraft_trio.actors.context.request_failures import NODES_OWN
from kraft_trio.actors.context.shared_node_id import SharedReplicas
from kraft_trio.actors.replication.accepted_appends import AcceptedAppends
from kraft_trio.actors.replication.first_batch import first_records
from kraft_trio.actors.replication.leader_fetches import LeaderFetches
from kraft_trio.actors.replication.pending_appends import PendingAppends
from kraft_trio.actors.replication.quorum_description import describe_quorum
from kraft_trio.actors.replication.read_barriers import ReadBarriers
from kraft_trio.actors.replication.repeated_batches import answer_to_sequence
from kraft_trio.actors.snapshots.snapshot_scrubber import SnapshotScrubber
from kraft_trio.actors.snapshots.snapshot_server import SnapshotServer
from kraft_trio.actors.waiting.served_mailbox import ServedMailbox
from kraft_trio.logs import get_logger
from kraft_trio.messages import (
    CommittedEndRequested,
    DescribeQuorumReceived,
    FetchReceived,
    FetchSnapshotReceived,
    LeaderMessage,
    LeadershipLost,
    ProduceReceived,
    ProducerIdRequested,
    ReadIndexRequested,
    SnapshotPiece,
)
from kraft_trio.protocol.check_quorum import has_majority_contact
from kraft_trio.protocol.high_watermark import next_high_watermark
from kraft_trio.protocol.producers import Duplicate, new_producer_id
from kraft_trio.protocol.read_barrier import ReadRounds
from kraft_trio.protocol.read_lease import promised_wait_ms
from kraft_trio.protocol.reconciliation import Diverging, NeedsSnapshot
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.storage.batches.batch import encode_control_batch
from kraft_trio.storage.batches.control_records import ControlRecord
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumResponse
from kraft_trio.wire.apis.produce import ProducePartitionResponse
from kraft_trio.wire.error_codes import ErrorCode

log = get_logger(__name__)

MESSAGES_PER_TURN: Final = 256
"""How many requests are served before other tasks run."""


class LeaderReplication:
    """Replication of one epoch that this node leads; built for the epoch and never reused.

    Owns the replicas' progress and, while it runs, the end of the log and the high watermark.  It ends when the epoch
    nursery is cancelled.  It then waits for a running fsync (rule R1), and answers all requests that still wait with
    NOT_LEADER_OR_FOLLOWER.
    """

    def __init__(
        self,
        context: EpochContext,
        mailbox: ServedMailbox[LeaderMessage],
        *,
        granting_voters: frozenset[ReplicaKey],
    ) -> None:
        self._context = context
        self._epoch = context.epoch
        self._key = context.key
        self._log = context.log
        self._mailbox = mailbox
        self._granting_voters = granting_voters
        self._epoch_start_offset = context.log.end_offset
        # A replica with all that this log has lacks nothing, whatever this log itself has lost.
        acknowledged = {key: min(end, context.log.end_offset) for key, end in context.restored.acknowledged.items()}
        self.progress = ProgressTable(context.key, trio.current_time(), acknowledged)
        self._appends = PendingAppends(context.log, self._expire_at)
        self._accepted = AcceptedAppends(context, self._appends)
        self._held: list[ProduceReceived] | None = None
        self._rounds = ReadRounds()
        self.fetches = LeaderFetches(context, lambda: self.high_watermark, self._expire_at, self._rounds)
        """Others may look at it, but must not change it."""
        self._barriers = ReadBarriers(context, self._rounds, self.fetches, lambda: self.high_watermark)
        self._waits_out_leases = context.config.has_read_leases and not context.log.voters.voters.is_only_voter(
            self._key
        )
        """Whether an earlier leader may still answer reads by a lease.  Until it cannot, nothing commits."""
        self.progressed = trio.lowlevel.ParkingLot()
        """Wakes its waiters when a replica has fetched."""
        self.reassignment_status: str | None = None
        """What the reassignment is doing.  The Reassignment of this epoch sets it."""
        self._next_expiry = trio.CancelScope(deadline=math.inf)
        self._appended = trio.Event()
        self._snapshots = SnapshotServer(context.log.snapshots)
        self._scrubber = SnapshotScrubber(context.log, self._snapshots.forget)
        self._shared = SharedReplicas(context.key.id, context.config.fetch_timeout_ms / 1000)

    async def run(self) -> None:
        """Lead until cancelled (KIP-595 "Leader")."""
        self._context.fetch_problem.ended()  # What kept this node from an earlier leader has no meaning any more.
        try:
            own = self._context.own_address.entry_of(self._key, self._log.voters.voters)
            self._append_control(first_records(own, self._granting_voters, self._log.voters, self._log.high_watermark))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._sync_appended)
                nursery.start_soon(self._expire_waiting)
                nursery.start_soon(self.fetches.complete_left)
                nursery.start_soon(self._watch_log_start)
                nursery.start_soon(self._check_quorum)
                nursery.start_soon(self._scrubber.run)
                nursery.start_soon(self._barriers.asker.run)
                if self._waits_out_leases:
                    nursery.start_soon(self._wait_out_leases)
                if not self._log.voters.voters.is_voter(self._key):
                    nursery.start_soon(self._leave_once_committed)
                await self._serve_mailbox()
        finally:
            voters, committed = self._log.voters.voters, self._log.high_watermark
            self._context.restored.keep(self.progress.committed_acknowledgements(voters, committed))
            self._snapshots.close()
            await self._abandon_waiting()

    async def _serve_mailbox(self) -> None:
        while True:
            message = await self._mailbox.receive(self._serve_at_once)
            end_before = self._log.end_offset
            self._serve(message)
            # All messages that have arrived share one response to the followers and one fsync.
            for _ in range(MESSAGES_PER_TURN):
                try:
                    message = self._mailbox.receive_nowait()
                except trio.WouldBlock:
                    break
                self._serve(message)
            self._end_turn(end_before)

    def _serve_at_once(self, message: LeaderMessage) -> bool:
        """Serve a request in the step that sends it, unless others like it may come while the first is under way."""
        match message:
            case ProduceReceived() if len(self._appends) > 0:
                return False
            case ReadIndexRequested() if self._barriers.are_waiting:
                return False
        end_before = self._log.end_offset
        self._serve(message)
        self._end_turn(end_before)
        return True

    def _end_turn(self, end_before: int) -> None:
        self._write_accepted(end_before)
        if self._barriers.begun:
            self._barriers.spread()

    def _write_accepted(self, end_before: int) -> None:
        self._accepted.write()
        if self._log.end_offset > end_before:
            self._appended.set()
            self.fetches.complete()

    def hold_appends(self) -> None:
        """Append no client's batch until `release_appends`.  If the epoch ends first, they are refused.

        For LeadershipTransfer, which runs in the same epoch nursery.
        """
        self._held = []

    def release_appends(self) -> None:
        """Serve the appends that have been held, in their order."""
        held, self._held = self._held or [], None
        end_before = self._log.end_offset
        for message in held:
            self._serve(message)
        self._write_accepted(end_before)

    def _serve(self, message: LeaderMessage) -> None:
        """Serve one request, except that an accepted batch waits for the next write."""
        try:
            match message:
                case ProduceReceived():
                    self._produce(message)
                case FetchReceived():
                    self._fetch(message)
                case FetchSnapshotReceived():
                    self._fetch_snapshot(message)
                case ProducerIdRequested():
                    message.reply.answer(new_producer_id(self._log.producers, self._context.secret_bits))
                case CommittedEndRequested():
                    message.reply.answer(self.high_watermark)
                case ReadIndexRequested():
                    self._barriers.begin(message)
                case DescribeQuorumReceived():
                    described = describe_quorum(
                        message.request,
                        self._context,
                        self.progress,
                        high_watermark=self.high_watermark,
                        reassignment_status=self.reassignment_status,
                    )
                    message.reply.answer(described)
        except Exception as error:
            self._context.failures.note(error, type(message).__name__.removesuffix("Received"))
            if not message.reply.is_answered:
                self._refuse(message, ErrorCode.unknown_server_error)

    # Appending

    def append_control(self, *records: ControlRecord) -> int:
        """Append control records as one batch, which is in force at once.  Returns the offset after it.

        For VoterChangeCoordinator, which runs in the same epoch nursery and decides what may be appended.
        """
        next_offset = self._append_control(records)
        self.fetches.complete()
        return next_offset

    def _append_control(self, records: Sequence[ControlRecord]) -> int:
        batch = encode_control_batch(list(records), timestamp_ms=self._context.wall_clock_ms())
        appended = self._log.append_as_leader(bytearray(batch), self._epoch)
        self._appended.set()
        return appended.next_offset

    def _produce(self, message: ProduceReceived) -> None:
        """Accept one client batch, and answer when it is committed.

        See docs/explanation/decisions.md#one-topic-one-partition.
        """
        if self._held is not None:
            self._held.append(message)
            return
        header = message.header
        if self._context.config.witness:
            reason = "this leader is a witness, which hands over as soon as another voter has caught up"
            message.reply.answer(ProducePartitionResponse.failed(ErrorCode.not_leader_or_follower, reason))
            return
        if self._context.kafka.may_refuse:
            refusal = self._context.kafka.refusal(message.records, header, self._log.voters.voters)
            if refusal is not None:
                message.reply.answer(ProducePartitionResponse.failed(ErrorCode.invalid_record, refusal))
                return
        if header.producer_id >= 0:
            if self._accepted.has_batch_of(header.producer_id):
                self._accepted.write()
            known = answer_to_sequence(self._log, message.records, header)
            if isinstance(known, Duplicate):
                appended_at_ms = self._log.producers.timestamp_ms(header.producer_id)
                self._appends.await_commit(
                    message, known.base_offset, known.last_offset + 1, trio.current_time(), appended_at_ms
                )
                return
            if known is not None:
                message.reply.answer(known)
                return
        self._accepted.add(message)

    @property
    def high_watermark(self) -> int | None:
        """Exclusive; None until a majority has a record of this epoch (invariant HighWatermarkOfTheEpoch)."""
        known = self._log.high_watermark
        return known if known is not None and known > self._epoch_start_offset else None

    async def _sync_appended(self) -> None:
        """Make the leader's own copy durable.  It counts for the high watermark only then."""
        while True:
            await self._appended.wait()
            self._appended = trio.Event()
            await self._log.sync()
            self._advance_high_watermark()

    # The high watermark

    def _advance_high_watermark(self) -> None:
        """Recompute the high watermark from what the voters of the newest set have synced (rule R2)."""
        if self._waits_out_leases:
            return
        voters = self._log.voters.voters
        advanced = next_high_watermark(
            voters,
            synced_end_offsets=self.progress.synced_end_offsets(voters, self._log.synced_end_offset),
            leader=self._key,
            epoch_start_offset=self._epoch_start_offset,
            current=self._log.high_watermark,
        )
        if advanced is None or advanced == self._log.high_watermark:
            return
        with self._log.committed_news.held():  # The clients hear of it first.
            self._log.advance_high_watermark(advanced)
            self._appends.acknowledge_up_to(advanced)
        if self._barriers.are_waiting:
            self._barriers.answer()
        self.fetches.complete()
        self.fetches.spread_high_watermark()

    async def _wait_out_leases(self) -> None:
        """Commit nothing until the leases of earlier leaders are over (docs/explanation/protocol.md#read-leases)."""
        clock_s = self._context.clock_s
        ends_at_s = clock_s() + promised_wait_ms(self._context.config.election_timeout_ms) / 1000
        while (left_s := ends_at_s - clock_s()) > 0:  # noqa: ASYNC110  only time passes
            # Not all at once, because Trio's clock may run differently.
            await trio.sleep(max(left_s / 2, 0.001))
        self._waits_out_leases = False
        self._advance_high_watermark()

    def _advance_for_fetch(self) -> None:
        """Advance the high watermark.  An error ends the node, because such a leader could not commit."""
        try:
            self._advance_high_watermark()
        except NODES_OWN:
            raise
        except Exception as error:
            raise AssertionError("the high watermark cannot be advanced") from error

    # Fetching

    def _fetch(self, message: FetchReceived) -> None:
        if message.replica is None:
            self.fetches.consumer_fetch(message)
        else:
            self._replica_fetch(message, message.replica)

    def _replica_fetch(self, message: FetchReceived, replica: ReplicaKey) -> None:
        """Serve a replica's Fetch, whose position tells what it has synced (KIP-595)."""
        partition = message.partition
        verdict = self._log.validate_fetch(partition.fetch_offset, partition.last_fetched_epoch)
        is_voter = self._log.voters.voters.is_voter(replica)
        if is_voter and not isinstance(verdict, Diverging):
            acknowledged = partition.fetch_offset
            if isinstance(verdict, NeedsSnapshot):
                # Its log gives way to the snapshot, so nothing behind that is known to agree.
                acknowledged = min(acknowledged, verdict.snapshot_id.offset)
            self._note_acknowledgement(message, replica, acknowledged)
        if isinstance(verdict, Diverging | NeedsSnapshot):
            diverging = verdict.end if isinstance(verdict, Diverging) else None
            snapshot = verdict.snapshot_id if isinstance(verdict, NeedsSnapshot) else None
            self.fetches.answer(message, diverging=diverging, snapshot_id=snapshot)
            return
        now_s = trio.current_time()
        is_news = self.progress.fetched(
            replica,
            partition.fetch_offset,
            leader_end_offset=self._log.end_offset,
            now_s=now_s,
            kraft_versions=message.request.kraft_versions,
            listeners=message.request.listeners,
        )
        if is_voter or self._log.voters.voters.get(replica.id) is None:
            is_shared = self._shared.fetched(replica, now_s, message.asker, self.fetches.parked.asker_of(replica))
            is_news = self.progress.note_sharing(replica, is_shared=is_shared) or is_news
        high_watermark = self._log.high_watermark
        if is_news and (high_watermark is None or partition.fetch_offset > high_watermark):
            # Otherwise this replica's end cannot raise the high watermark, which the second of three always finds.
            self._advance_for_fetch()
        self._snapshots.fetched(replica, partial(self.progress.is_caught_up, replica), now_s=now_s)
        if self.progressed:
            self.progressed.unpark_all()
        if message.request.read_round or self._rounds.newest:
            self._barriers.fetched(message, replica)
        self.fetches.replica_fetch(message, replica)

    def _note_acknowledgement(self, message: FetchReceived, replica: ReplicaKey, offset: int) -> None:
        """Say so if the voter, which has the records before `offset`, lacks some that it had acknowledged."""
        came_back = self.progress.acknowledges(replica, offset, message.asker)
        if came_back is not None:
            self._context.restored.came_back(replica, came_back)
        if not self.progress.is_lacking(replica):
            self._context.restored.caught_up(replica, offset)

    def _fetch_snapshot(self, message: FetchSnapshotReceived) -> None:
        """Serve a FetchSnapshot (KIP-630).  Each piece counts as contact with the replica."""
        request = message.request
        replica, now_s = message.replica, trio.current_time()
        if self._context.kafka.spares(replica) and not self._snapshots.may_send_to_kafka(
            request.snapshot_id, request.position + request.max_bytes
        ):
            message.reply.answer(SnapshotPiece(ErrorCode.snapshot_not_found))
            return
        piece = self._snapshots.piece(replica, request.snapshot_id, request.position, request.max_bytes, now_s=now_s)
        if replica is not None and piece.error == ErrorCode.none:
            self.progress.fetched_snapshot(
                replica, request.snapshot_id, request.position, request.max_bytes, now_s=now_s
            )
            self._scrubber.given(replica, request.snapshot_id, request.position, len(piece.data), piece.size_in_bytes)
        message.reply.answer(piece)

    # Ends of waits

    def _expire_at(self, deadline: float) -> None:
        if deadline >= self._next_expiry.deadline:
            # Most requests expire later than one that waits already, and Trio takes long to set a deadline.
            return
        self._next_expiry.deadline = deadline

    async def _watch_log_start(self) -> None:
        """Answer the parked fetches whose offsets a trim has removed."""
        while True:
            await self._log.start_moved.park()
            self.fetches.complete()

    async def _expire_waiting(self) -> None:
        """Answer parked fetches and pending appends whose time has come."""
        while True:
            with self._next_expiry:
                await trio.sleep_forever()
            now = trio.current_time()
            next_expiry = min(self.fetches.expire(now), self._appends.expire(now))
            self._next_expiry = trio.CancelScope(deadline=next_expiry)

    async def _abandon_waiting(self) -> None:
        """Answer all waiting requests with NOT_LEADER_OR_FOLLOWER, because the epoch is over (KIP-595).

        Other tasks run in between, because there may be thousands.  It is shielded, so that each gets an answer.
        """
        unread = [*self._accepted.take_all(), *(self._held or ()), *self._mailbox.close()]
        self._barriers.abandon()
        with trio.CancelScope(shield=True):
            while not (self.fetches.abandon_some() and self._appends.abandon_some()):
                await trio.lowlevel.checkpoint()
            for count, message in enumerate(unread, 1):
                self._refuse(message, ErrorCode.not_leader_or_follower)
                if not count % MESSAGES_PER_TURN:
                    await trio.lowlevel.checkpoint()

    def _refuse(self, message: LeaderMessage, error: ErrorCode) -> None:
        match message:
            case FetchReceived():
                self.fetches.answer(message, error=error)
            case FetchSnapshotReceived():
                message.reply.answer(SnapshotPiece(error))
            case ProduceReceived():
                message.reply.answer(ProducePartitionResponse.failed(error))
            case ProducerIdRequested() | CommittedEndRequested() | ReadIndexRequested():
                message.reply.answer(None)
            case DescribeQuorumReceived():
                message.reply.answer(DescribeQuorumResponse.refused(message.request, error))

    # Leaving

    async def _leave_once_committed(self) -> None:
        """Resign once the voter set that does not name this leader is committed (KIP-853 "RemoveVoter")."""
        while self.high_watermark is None:
            await self._log.changed.park()
        if not self._log.voters.voters.is_voter(self._key):
            await self._context.tell_election(LeadershipLost(self._context.stamp, "removed from the voters"))

    # Check-quorum

    async def _check_quorum(self) -> None:
        """Resign after 1.5 fetch timeouts without contact to a majority (KIP-595 "Leader Progress Timeout")."""
        timeout_s = self._context.config.fetch_timeout_ms * 1.5 / 1000
        while True:
            deadline = self.progress.majority_contact_ends_at(self._log.voters.voters, timeout_s, trio.current_time())
            # A moment later, so that rounding cannot make the loop spin.
            await trio.sleep_until(deadline + 0.001)
            if not has_majority_contact(
                self._log.voters.voters,
                self._key,
                self.progress.last_contact_ms(self._log.voters.voters),
                trio.current_time() * 1000,
                timeout_s * 1000,
            ):
                await self._context.tell_election(
                    LeadershipLost(self._context.stamp, f"no progress by a majority of the voters for {timeout_s:g} s")
                )
                return
