"""The follower's and the observer's side of replication: the Fetch loop, truncation, the fetch timeout."""

from __future__ import annotations

import math

import structlog
import trio

from kraft_trio.actors.epoch_context import EpochContext
from kraft_trio.actors.replica_fetch import discovery_endpoints, leader_in_fetch_response, replica_fetch_request
from kraft_trio.errors import NetworkError, ProtocolError, UnsupportedVersionError
from kraft_trio.messages import FetchedFromLeader, TimedOut
from kraft_trio.protocol.reconciliation import truncation_point
from kraft_trio.protocol.roles import Follower
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.apis.fetch import FETCH, FetchPartitionResponse, FetchRequest, FetchResponse
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode

log = structlog.get_logger(__name__)

MAX_WAIT_MS = 500
"""How long the leader may keep a Fetch for want of news; a quarter of the fetch timeout where that is less."""
TIMEOUT_SPREAD = 0.1
"""By how much of it the fetch timeout varies, so that the followers of a dead leader do not all rise at once."""


class FollowerReplication:
    """Replication of one epoch in which another node leads; built for the epoch and never reused.

    Owns the end of the log while it runs.  A cancelled run has no write and no fsync under way once it has ended (R1).
    """

    def __init__(self, context: EpochContext, role: Follower) -> None:
        self._context = context
        self._role = role
        self._fetch_timer = trio.CancelScope()
        self._has_fetched = role.has_fetched
        self._timeout_s = context.config.fetch_timeout_ms / 1000 * context.random.uniform(1.0, 1.0 + TIMEOUT_SPREAD)
        self._successor_deadline = math.inf
        self._lost_leader = False
        self._failure = ""

    async def run(self) -> None:
        """Fetch from the leader until cancelled (KIP-595 "Fetch")."""
        self._reset_fetch_timer()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_fetch_timer)
            while True:
                await self._fetch_from(self._next_endpoint())
                await trio.sleep(self._context.retry_backoff_s())

    def campaign_after(self, delay_ms: int) -> None:
        """The leader has resigned (EndQuorumEpoch): let the fetch timer run out in `delay_ms`, if not sooner."""
        self._successor_deadline = trio.current_time() + delay_ms / 1000
        self._fetch_timer.deadline = min(self._fetch_timer.deadline, self._successor_deadline)

    def leader_is_alive(self) -> None:
        """The leader announced itself again (BeginQuorumEpoch): that counts as hearing from it."""
        self._reset_fetch_timer()

    # The fetch timer

    def _reset_fetch_timer(self) -> None:
        self._fetch_timer.deadline = min(trio.current_time() + self._timeout_s, self._successor_deadline)

    async def _watch_fetch_timer(self) -> None:
        """FACTS: a voter whose fetch timer runs out becomes Prospective; an observer looks elsewhere for the leader."""
        while True:
            with self._fetch_timer:
                await trio.sleep(math.inf)
            self._fetch_timer = trio.CancelScope()
            self._successor_deadline = math.inf
            self._reset_fetch_timer()
            self._lost_leader = True
            await self._context.tell_election(TimedOut(self._context.stamp))

    def _next_endpoint(self) -> Endpoint | None:
        """The leader; for an observer that has lost it, one of the bootstrap servers in turn with it (KAFKA-17751)."""
        leader = self._role.leader_endpoints.get(self._context.config.controller_listener_name)
        if not self._lost_leader:
            return leader
        known = discovery_endpoints(self._context.config, self._context.log.voters.voters, self._context.key.id)
        others = [endpoint for endpoint in known if endpoint != leader]
        if others and (leader is None or self._context.random.random() < 0.5):
            return self._context.random.choice(others)
        return leader

    # One Fetch

    async def _fetch_from(self, endpoint: Endpoint | None) -> None:
        """Fetch from there, one Fetch after the other over one connection, until it is right to wait a little."""
        if endpoint is None:
            return
        timeout_ms = self._context.config.request_timeout_ms
        try:
            async with self._context.client.lease(endpoint, timeout_ms) as connection:
                while await self._fetch_once(connection, timeout_ms / 1000):
                    pass
        except (NetworkError, ProtocolError, UnsupportedVersionError) as error:
            self._log_failure(str(error))

    async def _fetch_once(self, connection: Connection, timeout_s: float) -> bool:
        """Send one Fetch and act on its answer.  False where it is right to wait a little before the next one."""
        response: FetchResponse | None = None
        with trio.move_on_after(timeout_s):
            response = await connection.request(FETCH, self._fetch_request())
        if response is None:
            raise NetworkError(f"no answer to a Fetch in {timeout_s:g} s")
        if response.error != ErrorCode.none or len(response.partitions) != 1:
            log.warning("fetch refused", leader_id=self._role.leader_id, error=response.error.name)
            return False
        partition = response.partitions[0]
        if partition.error != ErrorCode.none:
            await self._report_error(response, partition)
            return False
        if (partition.leader_id, partition.leader_epoch) != (self._role.leader_id, self._context.epoch):
            log.warning(
                "fetch answer of another epoch ignored", answer=partition.leader_epoch, epoch=self._context.epoch
            )
            return False
        self._lost_leader = False
        self._failure = ""
        # The timer is about hearing from the leader: it stands still while this replica writes and syncs.
        self._fetch_timer.deadline = self._successor_deadline
        try:
            return await self._apply(partition)
        finally:
            self._reset_fetch_timer()

    def _fetch_request(self) -> FetchRequest:
        # Kept for longer, an idle leader would be taken for lost, and check-quorum would take us for lost.
        max_wait_ms = max(1, min(MAX_WAIT_MS, self._context.config.fetch_timeout_ms // 4))
        return replica_fetch_request(self._context, max_wait_ms=max_wait_ms)

    async def _report_error(self, response: FetchResponse, partition: FetchPartitionResponse) -> None:
        self._log_failure(
            f"{partition.error.name}; it knows leader {partition.leader_id} in epoch {partition.leader_epoch}"
        )
        await self._context.tell_election(
            leader_in_fetch_response(response, partition, self._context.config.controller_listener_name)
        )

    async def _apply(self, partition: FetchPartitionResponse) -> bool:
        if partition.snapshot_id is not None:
            log.error(
                "the leader's log starts above ours and only a snapshot helps", snapshot_id=str(partition.snapshot_id)
            )
            return False
        if partition.diverging is not None:
            self._truncate(partition)
            await self._context.log.sync()
            return True
        if partition.records:
            try:
                self._context.log.append_as_follower(partition.records, max_epoch=self._context.epoch)
            except ProtocolError as error:
                log.error("records from the leader refused", leader_id=self._role.leader_id, reason=str(error))
                return False
            await self._context.log.sync()
        if partition.high_watermark >= 0:
            self._context.log.advance_high_watermark(min(partition.high_watermark, self._context.log.synced_end_offset))
        if not self._has_fetched:
            self._has_fetched = True
            await self._context.tell_election(FetchedFromLeader(self._context.stamp))
        return True

    def _log_failure(self, reason: str) -> None:
        """Say it once for as long as the reason stays the same: a peer that is down is asked again and again."""
        if reason != self._failure:
            self._failure = reason
            log.info("fetch failed", leader_id=self._role.leader_id, epoch=self._context.epoch, reason=reason)

    def _truncate(self, partition: FetchPartitionResponse) -> None:
        """KIP-595 "Log reconciliation": cut back to where both logs may still agree, and ask again from there."""
        assert partition.diverging is not None
        point = truncation_point(self._context.log.epochs, self._context.log.end, partition.diverging)
        log.info(
            "truncating", to=str(point), end_offset=self._context.log.end_offset, leader_said=str(partition.diverging)
        )
        high_watermark = self._context.log.high_watermark
        if high_watermark is not None and point.offset < high_watermark:
            raise ProtocolError(f"the leader diverges at {point}, below the high watermark {high_watermark}")
        try:
            self._context.log.truncate_to(point.offset)
        except ValueError as error:
            raise ProtocolError(f"the leader diverges where this log has no batch: {error}") from error
