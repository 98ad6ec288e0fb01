"""Finds the leader for an unattached node by sending Fetch to random bootstrap servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.replication.replica_fetch import (
    discovery_endpoints,
    leader_in_fetch_response,
    replica_fetch_request,
)
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.types import Endpoint, Endpoints
from kraft_trio.protocol.waits import discovery_wait_ms
from kraft_trio.wire.api import DESCRIBE_CLUSTER
from kraft_trio.wire.apis.describe_cluster import CONTROLLERS, DescribeClusterRequest
from kraft_trio.wire.apis.fetch import FETCH, FetchResponse
from kraft_trio.wire.error_codes import ErrorCode

log = get_logger(__name__)

EXPECTED_ERRORS = frozenset(
    {
        ErrorCode.none,
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.broker_not_available,
    }
)
"""The errors with which a node answers that does not lead or is in another epoch."""


class LeaderDiscovery:
    """Asks one bootstrap server after another who leads (KAFKA-17030, KAFKA-17751).

    docs/reference/kafka.md#finding-the-leader shows that Kafka does so, too.

    It tells Election of each leader, appends nothing, and ends when Election becomes Follower.
    """

    def __init__(self, context: EpochContext) -> None:
        self._context = context
        self._reasons: dict[Endpoint, str] = {}
        self._namesake: Endpoint | None = None
        """The endpoint of a leader with this node's own id.  The Fetch makes that leader log the conflict."""

    async def run(self) -> None:
        while True:
            # Wait first: when an epoch has just begun, other nodes do not know the leader either.
            await trio.sleep(self._context.retry_backoff_s())
            endpoints = discovery_endpoints(self._context.config, self._context.log.voters, self._context.key)
            if self._namesake is not None and self._namesake not in endpoints:
                endpoints.append(self._namesake)
            if endpoints:
                server = self._context.random.choice(endpoints)
                addresses: tuple[Endpoint, ...] = ()
                with trio.move_on_after(self._wait_ms / 1000):
                    addresses = await self._context.bootstrap.addresses_of(server)
                if len(addresses) > 1:
                    # The name belongs to several nodes, and only some of them may know the leader.
                    await self._ask(self._context.random.choice(addresses), self._context.client.request_apart)
                else:
                    await self._ask(server, self._context.client.request)

    @property
    def _wait_ms(self) -> int:
        config = self._context.config
        return discovery_wait_ms(config.fetch_timeout_ms, config.request_timeout_ms)

    async def _ask(self, endpoint: Endpoint, send: Callable[..., Awaitable[FetchResponse]]) -> None:
        config, wait_ms = self._context.config, self._wait_ms
        request = replica_fetch_request(self._context, max_wait_ms=0)
        try:
            response = await send(endpoint, FETCH, request, wait_ms)
        except (NetworkError, UnsupportedVersionError) as error:
            self._note(endpoint, "no leader found", str(error))
            return
        if response.error == ErrorCode.inconsistent_cluster_id:
            await self._note_other_cluster(endpoint, wait_ms)
            return
        if response.error != ErrorCode.none or len(response.partitions) != 1:
            self._note(endpoint, "refused by the quorum", response.error.name)
            return
        partition = response.partitions[0]
        if partition.error not in EXPECTED_ERRORS:
            self._note(endpoint, "refused by the quorum", partition.error.name)
        heard = leader_in_fetch_response(response, partition, config.controller_listener_name)
        if partition.error == ErrorCode.none and not len(heard.leader_endpoints):
            # Only the leader answers without an error, and such a response does not name its endpoint.
            heard = attrs.evolve(heard, leader_endpoints=Endpoints({config.controller_listener_name: endpoint}))
        if heard.leader_endpoints.get(config.controller_listener_name) == endpoint:
            heard = attrs.evolve(heard, from_leader=True)
        if heard.leader_id == self._context.key.id:
            self._namesake = heard.leader_endpoints.get(config.controller_listener_name)
        if heard.epoch > self._context.epoch or heard.leader_id is not None:
            await self._context.tell_election(heard)

    async def _note_other_cluster(self, endpoint: Endpoint, wait_ms: int) -> None:
        """Log both cluster ids.  The refusal does not contain the other one, so ask for it."""
        reason = ErrorCode.inconsistent_cluster_id.name
        if self._reasons.get(endpoint) == reason:
            return
        try:
            request = DescribeClusterRequest(CONTROLLERS)
            answer = await self._context.client.request(endpoint, DESCRIBE_CLUSTER, request, wait_ms)
            other = answer.cluster_id
        except (NetworkError, UnsupportedVersionError):
            other = ""
        ids = {"cluster_id": self._context.cluster_id, "its_cluster_id": other or "not told"}
        self._note(endpoint, "refused by the quorum", reason, **ids)

    def _note(self, endpoint: Endpoint, event: str, reason: str, **fields: str) -> None:
        """Log why no leader is known, unless the endpoint gave the same reason before."""
        if self._reasons.get(endpoint) != reason:
            self._reasons[endpoint] = reason
            log.warning(event, endpoint=str(endpoint), reason=reason, **fields)
