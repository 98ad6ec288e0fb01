"""The leader's side of replication: append, parked fetches, the high watermark, check-quorum.

This is where the high watermark moves: `_advance_high_watermark`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import attrs
import structlog
import trio

from kraft_trio.actors.epoch_context import EpochContext
from kraft_trio.actors.replica_progress import ProgressTable
from kraft_trio.actors.snapshot_server import SnapshotServer
from kraft_trio.errors import ProtocolError
from kraft_trio.messages import (
    CommittedEndRequested,
    DescribeQuorumReceived,
    FetchReceived,
    FetchSnapshotReceived,
    LeaderMessage,
    LeadershipLost,
    ProduceReceived,
    ProducerIdRequested,
    Reply,
    SnapshotPiece,
)
from kraft_trio.protocol.check_quorum import has_majority_contact
from kraft_trio.protocol.control_records import ControlRecord, KRaftVersion, LeaderChange, VotersRecord
from kraft_trio.protocol.high_watermark import next_high_watermark
from kraft_trio.protocol.producers import Accept, Duplicate, Refuse, allocate_producer_id
from kraft_trio.protocol.reconciliation import Diverging, NeedsSnapshot
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batch import encode_control_batch, peek_header
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumResponse, QuorumReplica
from kraft_trio.wire.apis.fetch import UNSUPPORTED_HIGH_WATERMARK, FetchPartitionResponse
from kraft_trio.wire.apis.produce import ProducePartitionResponse
from kraft_trio.wire.error_codes import ErrorCode

log = structlog.get_logger(__name__)

HIGH_WATERMARK_NEWS_DELAY_S = 0.003

MAX_FETCH_BYTES = 55 * 1024 * 1024
MAX_WAIT_MS = 60_000
"""What one Fetch may ask for at most, in records and in waiting, whatever it says."""


@attrs.define(eq=False)
class _ParkedFetch:
    """A Fetch that waits for records or for a newer high watermark, until `deadline` (Trio's clock)."""

    message: FetchReceived
    deadline: float


@attrs.define(eq=False)
class _PendingAppend:
    """A Produce that waits for the high watermark to reach `next_offset` (exclusive end of its batch)."""

    base_offset: int
    next_offset: int
    deadline: float
    reply: Reply[ProducePartitionResponse]


class LeaderReplication:
    """Replication of one epoch that this node leads; built for the epoch and never reused.

    Owns the progress of the replicas and, while it runs, the end of the log and the high watermark.  It ends when the
    epoch nursery is cancelled; an fsync under way is then waited for (rule R1), and whoever still waits for an answer
    gets NOT_LEADER_OR_FOLLOWER.
    """

    def __init__(
        self,
        context: EpochContext,
        mailbox: trio.MemoryReceiveChannel[LeaderMessage],
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
        self.progress = ProgressTable(context.key, trio.current_time())
        self._parked: list[_ParkedFetch] = []
        self._pending: deque[_PendingAppend] = deque()
        """In the order of their offsets, which a repeated batch does not come in."""
        self.progressed = trio.lowlevel.ParkingLot()
        """Its waiters are woken when a replica has fetched."""
        self._next_expiry = trio.CancelScope(deadline=math.inf)
        self._appended = trio.Event()
        self._producer_ids_given = 0
        self._snapshots = SnapshotServer(context.log.snapshots)

    async def run(self) -> None:
        """Lead until cancelled (KIP-595 "Leader")."""
        try:
            self._append_first_batch()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._sync_appended)
                nursery.start_soon(self._expire_waiting)
                nursery.start_soon(self._check_quorum)
                if not self._log.voters.voters.is_voter(self._key):
                    nursery.start_soon(self._leave_once_committed)
                await self._serve_mailbox()
        finally:
            self._snapshots.close()
            self._abandon_waiting()

    async def _serve_mailbox(self) -> None:
        while True:
            message = await self._mailbox.receive()
            end_before = self._log.end_offset
            self._serve(message)
            # Whatever has come in meanwhile shares one write-to-followers and one fsync.
            while True:
                try:
                    message = self._mailbox.receive_nowait()
                except trio.WouldBlock:
                    break
                self._serve(message)
            if self._log.end_offset > end_before:
                self._appended.set()
                self._complete_fetches()

    def _serve(self, message: LeaderMessage) -> None:
        match message:
            case FetchReceived():
                self._fetch(message)
            case FetchSnapshotReceived():
                self._fetch_snapshot(message)
            case ProduceReceived():
                self._produce(message)
            case ProducerIdRequested():
                message.reply.answer(allocate_producer_id(self._epoch, self._producer_ids_given))
                self._producer_ids_given += 1
            case CommittedEndRequested():
                message.reply.answer(self.high_watermark)
            case DescribeQuorumReceived():
                described = self.progress.describe(
                    message.request,
                    epoch=self._epoch,
                    voters=self._log.voters.voters,
                    high_watermark=self.high_watermark,
                    leader_end_offset=self._log.synced_end_offset,
                    now_s=trio.current_time(),
                    now_ms=self._context.wall_clock_ms(),
                )
                message.reply.answer(attrs.evolve(described, committed_voters=self._committed_voters(described)))

    def _committed_voters(self, described: DescribeQuorumResponse) -> tuple[QuorumReplica, ...]:
        """The newest committed set with what is known of its replicas, where a newer set has not committed."""
        high_watermark = self.high_watermark
        if high_watermark is None or not self._log.voters.uncommitted(high_watermark):
            return ()
        known = {replica.key: replica for replica in (*described.voters, *described.observers)}
        committed = self._log.voters.voters_at(high_watermark - 1)
        return tuple(known.get(voter.key, QuorumReplica(voter.key, -1)) for voter in committed)

    # Appending

    def _append_first_batch(self) -> None:
        """The epoch's first batch (KIP-853 "First leader").

        With kraft.version and voters where only the bootstrap checkpoint holds them, and with the voters where this
        leader's own entry is out of date; not behind a set that may be uncommitted, as there is one such at a time.
        """
        history = self._log.voters
        voters = self._with_own_entry(history.voters)
        records: list[ControlRecord] = [
            LeaderChange(
                leader_id=self._key.id,
                voter_ids=history.voters.ids,
                granting_voter_ids=tuple(sorted(key.id for key in self._granting_voters)),
            )
        ]
        if history.came_from_bootstrap:
            records += [KRaftVersion(history.kraft_version), VotersRecord(voters)]
        elif (
            history.kraft_version > 0 and voters != history.voters and not history.uncommitted(self._log.high_watermark)
        ):
            records.append(VotersRecord(voters))
        self._append_control(records)

    def _with_own_entry(self, voters: VoterSet) -> VoterSet:
        own = self._context.config.as_voter(self._key.directory_id)
        return VoterSet(own if voter.key == self._key else voter for voter in voters)

    def append_control(self, *records: ControlRecord) -> int:
        """Append control records as one batch, in force from now on; the offset after it (exclusive).

        For VoterChangeCoordinator, which runs in the same epoch nursery and decides what may be appended.
        """
        next_offset = self._append_control(records)
        self._complete_fetches()
        return next_offset

    def _append_control(self, records: Sequence[ControlRecord]) -> int:
        batch = encode_control_batch(list(records), timestamp_ms=self._context.wall_clock_ms())
        appended = self._log.append_as_leader(bytearray(batch), self._epoch)
        self._appended.set()
        return appended.next_offset

    def _produce(self, message: ProduceReceived) -> None:
        """Append one client batch (KIP-595 leaves the write path to Produce, DESIGN D4): answered when it commits."""
        try:
            header = peek_header(message.records)
        except ProtocolError as error:
            message.reply.answer(ProducePartitionResponse.failed(ErrorCode.corrupt_message, str(error)))
            return
        if header.producer_id >= 0:
            match self._log.producers.check(
                header.producer_id, header.producer_epoch, header.base_sequence, header.record_count
            ):
                case Refuse(error_name=name, reason=reason):
                    message.reply.answer(ProducePartitionResponse.failed(ErrorCode[name.lower()], reason))
                    return
                case Duplicate(base_offset=base_offset, last_offset=last_offset):
                    self._await_commit(message, base_offset, last_offset + 1)
                    return
                case Accept():
                    pass
        appended = self._log.append_as_leader(bytearray(message.records), self._epoch)
        self._await_commit(message, appended.base_offset, appended.next_offset)

    def _await_commit(self, message: ProduceReceived, base_offset: int, next_offset: int) -> None:
        deadline = trio.current_time() + message.timeout_ms / 1000
        pending = _PendingAppend(base_offset, next_offset, deadline, message.reply)
        if self._is_committed(next_offset):
            self._acknowledge(pending)
            return
        place = len(self._pending)
        while place and self._pending[place - 1].next_offset > next_offset:
            place -= 1
        self._pending.insert(place, pending)
        self._expire_at(deadline)

    @property
    def high_watermark(self) -> int | None:
        """Exclusive; None until a record of this epoch is on a majority (INVARIANTS 10), whatever was known before."""
        known = self._log.high_watermark
        return known if known is not None and known > self._epoch_start_offset else None

    def _is_committed(self, next_offset: int) -> bool:
        return self._log.high_watermark is not None and next_offset <= self._log.high_watermark

    def _acknowledge(self, pending: _PendingAppend) -> None:
        pending.reply.answer(
            ProducePartitionResponse(
                error=ErrorCode.none, base_offset=pending.base_offset, log_start_offset=self._log.log_start_offset
            )
        )

    async def _sync_appended(self) -> None:
        """Make the leader's own copy durable; it counts for the high watermark only then (DESIGN D8)."""
        while True:
            await self._appended.wait()
            self._appended = trio.Event()
            await self._log.sync()
            self._advance_high_watermark()

    # The high watermark

    def _advance_high_watermark(self) -> None:
        """Recompute the high watermark from what the voters of the newest set have synced (rule R2)."""
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
        self._log.advance_high_watermark(advanced)
        while self._pending and self._pending[0].next_offset <= advanced:
            self._acknowledge(self._pending.popleft())
        self._complete_fetches()
        self._spread_high_watermark()

    # Fetching

    def _fetch(self, message: FetchReceived) -> None:
        if message.replica is None:
            self._consumer_fetch(message)
        else:
            self._replica_fetch(message, message.replica)

    def _replica_fetch(self, message: FetchReceived, replica: ReplicaKey) -> None:
        """KIP-595 "Fetch": the position says what the replica holds, durably; divergence is answered at once."""
        partition = message.partition
        verdict = self._log.validate_fetch(partition.fetch_offset, partition.last_fetched_epoch)
        if isinstance(verdict, Diverging | NeedsSnapshot):
            diverging = verdict.end if isinstance(verdict, Diverging) else None
            snapshot = verdict.snapshot_id if isinstance(verdict, NeedsSnapshot) else None
            message.reply.answer(self._fetch_response(message, b"", diverging=diverging, snapshot_id=snapshot))
            return
        if self.progress.fetched(
            replica, partition.fetch_offset, leader_end_offset=self._log.end_offset, now_s=trio.current_time()
        ):
            self._advance_high_watermark()
        if self.progressed:
            self.progressed.unpark_all()
        self._answer_or_park(message)

    def _fetch_snapshot(self, message: FetchSnapshotReceived) -> None:
        """KIP-630 "Fetch Snapshot"; whoever is given a piece is in contact, however long it takes to get them all."""
        request = message.request
        piece = self._snapshots.piece(request.snapshot_id, request.position, request.max_bytes)
        if message.replica is not None and piece.error == ErrorCode.none:
            self.progress.heard_from(message.replica, now_s=trio.current_time())
        message.reply.answer(piece)

    def _consumer_fetch(self, message: FetchReceived) -> None:
        offset = message.partition.fetch_offset
        if not self._log.log_start_offset <= offset <= self._log.end_offset:
            message.reply.answer(self._fetch_response(message, b"", error=ErrorCode.offset_out_of_range))
            return
        self._answer_or_park(message)

    def _answer_or_park(self, message: FetchReceived) -> None:
        if self._complete_with_records(message):
            return
        wait_s = min(message.request.max_wait_ms, MAX_WAIT_MS) / 1000
        if message.replica is None and message.request.min_bytes <= 0:
            wait_s = 0
        elif self._knows_newer_high_watermark(message):
            wait_s = min(wait_s, HIGH_WATERMARK_NEWS_DELAY_S)
        if wait_s <= 0:
            self._answer_with_what_there_is(message)
            return
        parked = _ParkedFetch(message, trio.current_time() + wait_s)
        self._parked.append(parked)
        self._expire_at(parked.deadline)

    def _answer_with_what_there_is(self, message: FetchReceived) -> None:
        """The wait is over: also fewer bytes than were asked for are better than none."""
        high_watermark = self.high_watermark
        is_consumer = message.replica is None
        has_records = high_watermark is not None and message.partition.fetch_offset < high_watermark
        records = self._read(message, high_watermark) if is_consumer and has_records else b""
        message.reply.answer(self._fetch_response(message, records))

    def _complete_fetches(self) -> None:
        """Answer the parked fetches that records have come for."""
        if self._parked:
            self._parked = [parked for parked in self._parked if not self._complete_with_records(parked.message)]

    def _spread_high_watermark(self) -> None:
        """Let parked replica fetches learn of it (KIP-1166) soon: with the next records, or after a short delay.

        Under a steady stream of appends that saves a round trip to every follower for each of them.
        """
        soon = trio.current_time() + HIGH_WATERMARK_NEWS_DELAY_S
        for parked in self._parked:
            if parked.deadline > soon and self._knows_newer_high_watermark(parked.message):
                parked.deadline = soon
                self._expire_at(soon)

    def _complete_with_records(self, message: FetchReceived) -> bool:
        if message.replica is not None:
            if message.partition.fetch_offset >= self._log.end_offset:
                return False
            message.reply.answer(self._fetch_response(message, self._read(message, None)))
            return True
        high_watermark = self.high_watermark
        if high_watermark is None or message.partition.fetch_offset >= high_watermark:
            return False
        records = self._read(message, high_watermark)
        wanted = min(message.request.min_bytes, message.partition.max_bytes, message.request.max_bytes)
        if len(records) < wanted and message.request.max_wait_ms > 0:
            return False
        message.reply.answer(self._fetch_response(message, records))
        return True

    def _knows_newer_high_watermark(self, message: FetchReceived) -> bool:
        """Whether a replica, by what its request says, can be told a newer high watermark (KIP-1166)."""
        known, now_known = message.partition.high_watermark, self.high_watermark
        can_be_told = message.replica is not None and known != UNSUPPORTED_HIGH_WATERMARK
        return can_be_told and now_known is not None and known < now_known

    def _read(self, message: FetchReceived, end_offset: int | None) -> bytes:
        max_bytes = min(message.partition.max_bytes, message.request.max_bytes, MAX_FETCH_BYTES)
        return self._log.read(message.partition.fetch_offset, max_bytes, end_offset)

    def _fetch_response(
        self,
        message: FetchReceived,
        records: bytes,
        *,
        error: ErrorCode = ErrorCode.none,
        diverging: OffsetAndEpoch | None = None,
        snapshot_id: OffsetAndEpoch | None = None,
    ) -> FetchPartitionResponse:
        high_watermark = self.high_watermark
        known = -1 if high_watermark is None else high_watermark
        return FetchPartitionResponse(
            topic_name=message.partition.topic_name,
            topic_id=message.partition.topic_id,
            partition=message.partition.partition,
            error=error,
            high_watermark=known,
            last_stable_offset=known,
            log_start_offset=self._log.log_start_offset,
            records=records,
            diverging=diverging,
            leader_id=self._key.id,
            leader_epoch=self._epoch,
            snapshot_id=snapshot_id,
        )

    # Waiting ends

    def _expire_at(self, deadline: float) -> None:
        self._next_expiry.deadline = min(self._next_expiry.deadline, deadline)

    async def _expire_waiting(self) -> None:
        """Answer parked fetches and pending appends whose time has come."""
        while True:
            with self._next_expiry:
                await trio.sleep(math.inf)
            now = trio.current_time()
            for parked in [parked for parked in self._parked if parked.deadline <= now]:
                self._parked.remove(parked)
                self._answer_with_what_there_is(parked.message)
            for pending in [pending for pending in self._pending if pending.deadline <= now]:
                self._pending.remove(pending)
                pending.reply.answer(
                    ProducePartitionResponse.failed(
                        ErrorCode.request_timed_out,
                        f"appended at offset {pending.base_offset}, not committed in time: it may still commit",
                    )
                )
            waiting = [parked.deadline for parked in self._parked] + [pending.deadline for pending in self._pending]
            self._next_expiry = trio.CancelScope(deadline=min(waiting, default=math.inf))

    def _abandon_waiting(self) -> None:
        """The epoch is over: nobody is left waiting for it (KIP-595: NOT_LEADER_OR_FOLLOWER)."""
        for parked in self._parked:
            # A fault in the middle of completing them leaves some that have been answered.
            if not parked.message.reply.is_answered:
                parked.message.reply.answer(
                    self._fetch_response(parked.message, b"", error=ErrorCode.not_leader_or_follower)
                )
        for pending in self._pending:
            pending.reply.answer(
                ProducePartitionResponse.failed(
                    ErrorCode.not_leader_or_follower, "lost the leadership before it committed"
                )
            )
        self._parked.clear()
        self._pending.clear()
        self._refuse_mailbox()

    def _refuse_mailbox(self) -> None:
        while True:
            try:
                message = self._mailbox.receive_nowait()
            except (trio.WouldBlock, trio.EndOfChannel):
                break
            match message:
                case FetchReceived():
                    response = self._fetch_response(message, b"", error=ErrorCode.not_leader_or_follower)
                    message.reply.answer(response)
                case FetchSnapshotReceived():
                    message.reply.answer(SnapshotPiece(ErrorCode.not_leader_or_follower))
                case ProduceReceived():
                    message.reply.answer(
                        ProducePartitionResponse.failed(ErrorCode.not_leader_or_follower, "not the leader any more")
                    )
                case ProducerIdRequested() | CommittedEndRequested():
                    message.reply.answer(None)
                case DescribeQuorumReceived():
                    refused = DescribeQuorumResponse.refused(message.request, ErrorCode.not_leader_or_follower)
                    message.reply.answer(refused)
        self._mailbox.close()

    # Leaving

    async def _leave_once_committed(self) -> None:
        """Elected by a set that it is not in, it commits that set and makes way (KIP-853 "RemoveVoter")."""
        while self.high_watermark is None:
            await self._log.changed.park()
        if not self._log.voters.voters.is_voter(self._key):
            await self._context.tell_election(LeadershipLost(self._context.stamp, "removed from the voters"))

    # Check-quorum

    async def _check_quorum(self) -> None:
        """KIP-595 leader, FACTS "check-quorum": no majority in contact for 1.5 fetch timeouts → resign."""
        timeout_s = self._context.config.fetch_timeout_ms * 1.5 / 1000
        while True:
            deadline = self.progress.majority_contact_ends_at(self._log.voters.voters, timeout_s, trio.current_time())
            # A moment later, so that no rounding makes the rule see the time as not yet over, again and again.
            await trio.sleep_until(deadline + 0.001)
            if not has_majority_contact(
                self._log.voters.voters,
                self._key,
                self.progress.last_contact_ms(self._log.voters.voters),
                trio.current_time() * 1000,
                timeout_s * 1000,
            ):
                await self._context.tell_election(
                    LeadershipLost(self._context.stamp, f"no fetch from a majority of the voters for {timeout_s:g} s")
                )
                return
