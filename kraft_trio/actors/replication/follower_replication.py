"""Replication on followers and observers: the Fetch loop, truncation, the fetch timeout."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Final

import attrs
import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.replication.replica_fetch import (
    discovery_endpoints,
    fetch_snapshot_request,
    leader_in_fetch_response,
    leader_in_snapshot_response,
    replica_fetch_request,
)
from kraft_trio.actors.snapshots.pieces_ahead import PiecesAhead
from kraft_trio.errors import (
    CorruptSnapshotError,
    DiskFullError,
    NetworkError,
    ProtocolError,
    UnsupportedVersionError,
)
from kraft_trio.logs import get_logger
from kraft_trio.messages import FetchedFromLeader, LeaderAnsweredAt, LeaderHeardOf, TimedOut
from kraft_trio.protocol.check_quorum import SIGN_OF_LIFE_BYTES
from kraft_trio.protocol.leader_addresses import LeaderAddresses
from kraft_trio.protocol.read_barrier import NO_ROUND
from kraft_trio.protocol.reconciliation import truncation_point
from kraft_trio.protocol.roles import Follower
from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch
from kraft_trio.protocol.waits import fetch_answer_wait_ms, fetch_max_wait_ms
from kraft_trio.wire.apis.fetch import FETCH, FetchPartitionResponse, FetchRequest, FetchResponse
from kraft_trio.wire.apis.fetch_snapshot import FETCH_SNAPSHOT, FetchSnapshotRequest, FetchSnapshotResponse
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode

log = get_logger(__name__)

SYNCED_IN_PLACE_BYTES: Final = 64 * 1024
"""The largest append that the event loop may sync in place.  Nothing here continues before the append is durable."""

TIMEOUT_SPREAD = 0.1
"""The random part of the fetch timeout, so that followers of a dead leader do not campaign at once."""


_SNAPSHOT_IS_GONE = frozenset({ErrorCode.snapshot_not_found, ErrorCode.position_out_of_range})


class FollowerReplication:
    """Replication of one epoch in which another node leads; built for the epoch and never reused.

    Owns the end of the log while it runs.  When a cancelled `run` has ended, no write or fsync is under way (R1).
    """

    def __init__(self, context: EpochContext, role: Follower) -> None:
        self._context = context
        self._role = role
        self._fetch_due_s = math.inf
        """When the fetch timer runs out, on Trio's clock."""
        self._answer_due_s = math.inf
        """When the wait for the answer to the Fetch under way is over."""
        self._answer_scope = trio.CancelScope()
        self._next_look = trio.CancelScope()
        self._has_fetched = role.has_fetched
        self._timeout_s = context.config.fetch_timeout_ms / 1000 * context.random.uniform(1.0, 1.0 + TIMEOUT_SPREAD)
        self._answer_timeout_s = (
            fetch_answer_wait_ms(context.config.fetch_timeout_ms, context.config.request_timeout_ms) / 1000
        )
        self._max_wait_ms = fetch_max_wait_ms(context.config.fetch_timeout_ms, context.config.request_timeout_ms)
        self._successor_deadline = math.inf
        if role.leader_resigned:
            # A campaign has failed already.  The next one begins as if this leader had not named this node.
            self._successor_deadline = trio.current_time() + context.config.election_backoff_max_ms / 1000
        self._lost_leader = False
        self._elsewhere: Endpoint | None = None
        """The endpoint that is being asked, if it is not the one that the role has of the leader."""
        self._addresses = LeaderAddresses()
        self._failure = ""
        self._read_round = NO_ROUND
        """The round in the leader's last response, which the next Fetch returns
        (docs/explanation/protocol.md#read-barriers).
        """
        self.last_heard_s: float | None = None
        """When the leader's last valid response arrived, on Trio's clock; None if none has in this epoch."""
        self._needs_snapshot = False
        """Whether the leader of this epoch named the snapshot that is being fetched."""

    async def run(self) -> None:
        """Fetch from the leader until cancelled (KIP-595 "Fetch")."""
        self._reset_fetch_timer()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_timers)
            while True:
                endpoint, heard_s = self._next_endpoint(), self.last_heard_s
                await self._fetch_from(endpoint)
                if self._role.lost_pre_vote and self.last_heard_s is None:
                    self._lost_leader = True
                known = self._known_addresses()
                if endpoint is not None and endpoint in known and self.last_heard_s == heard_s:
                    self._addresses.failed(endpoint)
                    if self._addresses.has_another(known):
                        await trio.lowlevel.checkpoint()
                        continue
                await trio.sleep(self._context.retry_backoff_s())

    def campaign_after(self, delay_ms: int) -> None:
        """Let the fetch timer run out within `delay_ms`, because the leader has resigned (EndQuorumEpoch)."""
        self._successor_deadline = trio.current_time() + delay_ms / 1000
        self._fetch_due_s = min(self._fetch_due_s, self._successor_deadline)
        self._next_look.deadline = min(self._next_look.deadline, self._fetch_due_s)

    # The fetch timer: only a response to Fetch or FetchSnapshot resets it

    def _reset_fetch_timer(self) -> None:
        self._fetch_due_s = min(trio.current_time() + self._timeout_s, self._successor_deadline)

    async def _watch_timers(self) -> None:
        """End a wait for an answer that takes too long, and note when the fetch timer runs out.

        Each Fetch moves both times, and Trio takes long to set a deadline.  So this looks when one of them may have
        come.  A time that is set later is not earlier than the shortest timeout from now.
        """
        shortest_s = min(self._timeout_s, self._answer_timeout_s)
        while True:
            if trio.current_time() >= self._answer_due_s:
                self._answer_due_s = math.inf
                self._answer_scope.cancel()
            if trio.current_time() >= self._fetch_due_s:
                await self._run_out()
            due_s = min(self._answer_due_s, self._fetch_due_s, self._successor_deadline)
            self._next_look = trio.CancelScope(deadline=min(due_s, trio.current_time() + shortest_s))
            with self._next_look:
                await trio.sleep_forever()

    async def _run_out(self) -> None:
        """The fetch timer runs out: a voter becomes Prospective, and an observer looks elsewhere for the leader."""
        self._successor_deadline = math.inf
        self._reset_fetch_timer()
        self._lost_leader = True
        await self._context.tell_election(TimedOut(self._context.stamp))

    def _next_endpoint(self) -> Endpoint | None:
        """The leader.  A node that has lost it also tries the bootstrap servers in turn (KAFKA-17751).

        A voter does so when it has lost a pre-vote, and the leader still does not answer.  The quorum may have removed
        this voter, and its log may name only voters that are gone.
        """
        leader = self._addresses.next(self._known_addresses())
        if not self._lost_leader:
            return leader
        known = discovery_endpoints(self._context.config, self._context.log.voters, self._context.key)
        others = [endpoint for endpoint in known if endpoint != leader]
        if others and (leader is None or self._context.random.random() < 0.5):
            return self._context.random.choice(others)
        return leader

    def _known_addresses(self) -> tuple[Endpoint | None, ...]:
        """Where the leader listens by its own word, by the log or gossip, and by the configuration."""
        config, leader_id = self._context.config, self._role.leader_id
        voter = self._context.log.voters.voters.get(leader_id)
        return (
            self._role.leader_endpoints.get(config.controller_listener_name),
            None if voter is None else voter.endpoints.get(config.controller_listener_name),
            None if voter is None else self._context.addresses.endpoint_of(voter),
            next((peer.endpoint for peer in config.quorum_voters if peer.id == leader_id), None),
        )

    # One Fetch

    async def _fetch_from(self, endpoint: Endpoint | None) -> None:
        """Fetch over one connection until the caller should pause."""
        if endpoint is None:
            return
        config = self._context.config
        known = self._role.leader_endpoints.get(config.controller_listener_name)
        self._elsewhere = None if endpoint == known else endpoint
        timeout_ms = fetch_answer_wait_ms(config.fetch_timeout_ms, config.request_timeout_ms)
        try:
            async with self._context.client.lease(endpoint, timeout_ms) as connection:
                while await (
                    self._fetch_pieces(connection, timeout_ms / 1000)
                    if self._needs_snapshot
                    else self._fetch_records(connection, timeout_ms / 1000)
                ):
                    pass
        except (NetworkError, ProtocolError, UnsupportedVersionError) as error:
            self._log_failure(str(error))

    async def _fetch_records(self, connection: Connection, timeout_s: float) -> bool:
        """Fetch until the leader names a snapshot.  Returns False if the caller should pause.

        One scope bounds the wait for each answer in turn, because a scope costs more than the rest of a round trip
        without news.  `_watch_timers` cancels it.
        """
        response: FetchResponse | None = None
        news = self._context.log.committed_news
        with trio.CancelScope() as scope, news.held():
            self._answer_scope = scope
            while not self._needs_snapshot:
                self._answer_due_s = trio.current_time() + timeout_s
                try:
                    await connection.begin(FETCH, self._fetch_request())
                    # The leader hears of what is synced before this node notes that, and applies what is committed.
                    news.give()
                    response = await connection.finish(FETCH)
                finally:
                    self._answer_due_s = math.inf
                if scope.cancel_called:
                    break
                if not await self._act_on(response, connection, timeout_s):
                    return False
        if response is None or scope.cancelled_caught:
            raise NetworkError(f"no answer to a Fetch in {timeout_s:g} s")
        if scope.cancel_called:
            # The response arrived just when the time was over.
            return await self._act_on(response, connection, timeout_s)
        return True

    async def _act_on(self, response: FetchResponse, connection: Connection, timeout_s: float) -> bool:
        """Act on the response to a Fetch.  Returns False if the caller should pause before the next one."""
        if response.error != ErrorCode.none or len(response.partitions) != 1:
            log.warning("fetch refused", leader_id=self._role.leader_id, error=response.error.name)
            self._note_refusal(response.error)
            return False
        partition = response.partitions[0]
        if partition.error != ErrorCode.none:
            heard = leader_in_fetch_response(response, partition, self._context.config.controller_listener_name)
            await self._report_error(partition.error, heard)
            return False
        if not self._is_from_leader(partition.leader_id, partition.leader_epoch):
            return False
        if self._elsewhere is not None:
            await self._tell_of_move(self._elsewhere)
        self._read_round = partition.read_round
        self._stop_fetch_timer()
        try:
            return await self._apply(partition, connection, timeout_s)
        finally:
            self._reset_fetch_timer()

    def _is_from_leader(self, leader_id: int, leader_epoch: int) -> bool:
        """Whether a response belongs to this epoch (rule R3)."""
        if (leader_id, leader_epoch) == (self._role.leader_id, self._context.epoch):
            return True
        log.warning("fetch answer of another epoch ignored", answer=leader_epoch, epoch=self._context.epoch)
        return False

    async def _tell_of_move(self, endpoint: Endpoint) -> None:
        """Have all tasks of a new stay ask the leader where it has answered.  Others would ask at the old address."""
        self._elsewhere = None
        listener = self._context.config.controller_listener_name
        log.info("leader found elsewhere", leader_id=self._role.leader_id, endpoint=str(endpoint))
        await self._context.tell_election(LeaderAnsweredAt(self._context.stamp, Endpoints({listener: endpoint})))

    def _stop_fetch_timer(self) -> None:
        """Stop the fetch timer while this replica writes and syncs, because the leader is not silent meanwhile."""
        self._lost_leader = False
        self._addresses.answered()
        self._failure = ""
        self.last_heard_s = trio.current_time()
        self._fetch_due_s = self._successor_deadline

    def _fetch_request(self) -> FetchRequest:
        return replica_fetch_request(self._context, max_wait_ms=self._max_wait_ms, read_round=self._read_round)

    async def _report_error(self, error: ErrorCode, heard: LeaderHeardOf) -> None:
        self._log_failure(f"{error.name}; it knows leader {heard.leader_id} in epoch {heard.epoch}")
        await self._context.tell_election(heard)

    async def _apply(self, partition: FetchPartitionResponse, connection: Connection, timeout_s: float) -> bool:
        if partition.snapshot_id is not None:
            return await self._begin_snapshot(partition.snapshot_id, connection, timeout_s)
        # The log continues from its end, so a snapshot that an earlier leader named is of no use.
        await self._context.snapshot_fetch.abandon()
        if partition.diverging is not None:
            self._truncate(partition)
            await self._context.log.restore_producers()
            await self._context.log.sync()
            return True
        if partition.records:
            try:
                self._context.log.append_as_follower(partition.records, max_epoch=self._context.epoch)
            except ProtocolError as error:
                log.error("records from the leader refused", leader_id=self._role.leader_id, reason=str(error))
                self._context.fetch_problem.failed(f"records refused: {error}", trio.current_time())
                return False
            await self._context.log.sync(may_block=len(partition.records) <= SYNCED_IN_PLACE_BYTES)
        if partition.high_watermark >= 0:
            self._context.log.advance_high_watermark(min(partition.high_watermark, self._context.log.synced_end_offset))
        await self._note_fetched()
        return True

    async def _note_fetched(self) -> None:
        self._context.fetch_problem.ended()
        self._context.lost_records.follows()
        if not self._has_fetched:
            self._has_fetched = True
            await self._context.tell_election(FetchedFromLeader(self._context.stamp))

    def _note_refused(self, end_offset: int, high_watermark: int) -> None:
        self._context.lost_records.refused(end_offset, high_watermark, self._role.leader_id, self._context.epoch)

    # The pieces of a snapshot

    async def _begin_snapshot(self, snapshot_id: OffsetAndEpoch, connection: Connection, timeout_s: float) -> bool:
        fetch = self._context.snapshot_fetch
        high_watermark = self._context.log.high_watermark
        if high_watermark is not None and snapshot_id.offset < high_watermark:
            self._note_refused(snapshot_id.offset, high_watermark)  # `begin` refuses it.
        if fetch.is_put_off(snapshot_id):
            await self._contact(connection, self._contact_request(snapshot_id), timeout_s)
            await trio.sleep(self._max_wait_ms / 1000)
            return True
        try:
            await fetch.begin(snapshot_id, self._context.epoch)
        except DiskFullError as error:
            self._refuse_snapshot(error)
            return False
        self._needs_snapshot = True
        return await self._install_if_complete(connection, timeout_s)

    async def _fetch_pieces(self, connection: Connection, timeout_s: float) -> bool:
        """Fetch pieces until the snapshot has replaced the log.  Returns False if the caller should pause."""
        fetch = self._context.snapshot_fetch
        assert fetch.snapshot_id is not None, "no snapshot is on its way"
        ahead = PiecesAhead(connection, fetch, fetch_snapshot_request(self._context, fetch.snapshot_id))
        try:
            while self._needs_snapshot:
                response = await ahead.next(timeout_s)
                if not await self._take_piece(response, connection, timeout_s) or ahead.is_out_of_step:
                    return False
        finally:
            await ahead.end()
        return True

    async def _take_piece(self, response: FetchSnapshotResponse, connection: Connection, timeout_s: float) -> bool:
        """Act on the response to a FetchSnapshot.  Returns False if the caller should pause."""
        if response.error != ErrorCode.none:
            log.warning("snapshot refused", leader_id=self._role.leader_id, error=response.error.name)
            self._note_refusal(response.error)
            return False
        if response.partition_error in _SNAPSHOT_IS_GONE:
            # The leader has a newer snapshot, and names it in response to the next Fetch.
            self._log_failure(f"snapshot {self._context.snapshot_fetch.snapshot_id}: {response.partition_error.name}")
            self._needs_snapshot = False
            await self._context.snapshot_fetch.abandon()
            return False
        if response.partition_error != ErrorCode.none:
            heard = leader_in_snapshot_response(response, self._context.config.controller_listener_name)
            await self._report_error(response.partition_error, heard)
            return False
        if not self._is_from_leader(response.leader_id, response.leader_epoch):
            return False
        self._stop_fetch_timer()
        try:
            try:
                await self._context.snapshot_fetch.take(response)
            except (CorruptSnapshotError, ProtocolError, DiskFullError) as error:
                self._refuse_snapshot(error)
                return False
            await self._note_fetched()
            return await self._install_if_complete(connection, timeout_s)
        finally:
            self._reset_fetch_timer()

    async def _install_if_complete(self, connection: Connection, timeout_s: float) -> bool:
        """Replace the log by the snapshot if it is complete, and stay in contact with the leader meanwhile."""
        fetch = self._context.snapshot_fetch
        if not fetch.is_complete:
            return True
        self._needs_snapshot = False
        assert fetch.snapshot_id is not None
        request = self._contact_request(fetch.snapshot_id)
        installed = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stay_in_contact, connection, request, installed, timeout_s)
            end_offset, once_committed = fetch.snapshot_id.offset, self._context.log.once_committed
            try:
                await fetch.install()
                self._context.lost_records.cut(end_offset, once_committed, self._role.leader_id, self._context.epoch)
            except (CorruptSnapshotError, DiskFullError) as error:
                if self._context.log.poisoned is not None:
                    raise
                self._refuse_snapshot(error)
                return False
            finally:
                installed.set()
        return True

    async def _stay_in_contact(
        self, connection: Connection, request: FetchSnapshotRequest, ended: trio.Event, timeout_s: float
    ) -> None:
        """Keep sending requests while a large snapshot is checked, so that the leader hears of this replica."""
        interval_s = self._context.config.fetch_timeout_ms / 1000 / 2
        with suppress(NetworkError, ProtocolError, UnsupportedVersionError):
            while not ended.is_set():
                with trio.move_on_after(interval_s):
                    await ended.wait()
                    return
                await self._contact(connection, request, timeout_s)

    async def _contact(self, connection: Connection, request: FetchSnapshotRequest, timeout_s: float) -> None:
        """Send a FetchSnapshot, because a Fetch that is answered with a snapshot's id does not count as contact."""
        with trio.move_on_after(timeout_s):
            await connection.request(FETCH_SNAPSHOT, request)

    def _contact_request(self, snapshot_id: OffsetAndEpoch) -> FetchSnapshotRequest:
        """A request for one byte, which the leader does not take for the start of a download."""
        request = fetch_snapshot_request(self._context, snapshot_id)
        return attrs.evolve(request, position=0, max_bytes=SIGN_OF_LIFE_BYTES)

    def _refuse_snapshot(self, error: Exception) -> None:
        self._needs_snapshot = False
        log.error("snapshot from the leader refused", leader_id=self._role.leader_id, reason=str(error))
        self._context.fetch_problem.failed(f"snapshot refused: {error}", trio.current_time())

    def _note_refusal(self, error: ErrorCode) -> None:
        self._context.fetch_problem.failed(f"node {self._role.leader_id} answers {error.name}", trio.current_time())

    def _log_failure(self, reason: str) -> None:
        """Log a failure unless the last one had the same reason, because a peer that is down is asked often."""
        self._context.fetch_problem.failed(reason, trio.current_time())
        if reason != self._failure:
            self._failure = reason
            log.info("fetch failed", leader_id=self._role.leader_id, epoch=self._context.epoch, reason=reason)

    def _truncate(self, partition: FetchPartitionResponse) -> None:
        """Truncate to the last offset up to which both logs may agree; the next Fetch starts there (KIP-595)."""
        assert partition.diverging is not None
        log_ = self._context.log
        earliest = log_.snapshots.oldest if log_.log_start_offset else None
        point = truncation_point(log_.epochs, log_.end, partition.diverging, earliest)
        high_watermark, end_offset = log_.high_watermark, log_.end_offset
        if high_watermark is not None and point.offset < high_watermark:
            self._note_refused(point.offset, high_watermark)
            raise ProtocolError(f"the leader diverges at {point}, below the high watermark {high_watermark}")
        once_committed = log_.once_committed
        try:
            log_.truncate_to(point.offset)
        except ValueError as error:
            raise ProtocolError(f"the leader diverges where this log has no batch: {error}") from error
        log.info("truncated", to=str(point), end_offset=end_offset, leader_said=str(partition.diverging))
        self._context.lost_records.cut(point.offset, once_committed, self._role.leader_id, self._context.epoch)
