"""An administrator who changes the voters of a simulated quorum through the client library, over the network."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import attrs
import trio

from kraft_trio.client.admin import AdminClient, VoterChangeError
from kraft_trio.client.quorum_description import NoLeader, QuorumDescription
from kraft_trio.errors import NetworkError, OutcomeUnknownError, RefusedError, UnsupportedVersionError
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import KRAFT_VERSION
from kraft_trio.simulation.facts.history import (
    ADD_VOTER,
    CANCEL_REASSIGNMENT,
    REASSIGN,
    REMOVE_VOTER,
    TRANSFER,
    UPGRADE,
    Operation,
)
from kraft_trio.simulation.survivability import LOST_WITHIN_S, Survivability
from kraft_trio.simulation.world import World
from kraft_trio.wire.error_codes import ErrorCode

RETRY_BACKOFFS_MS: Final = (200, 1000, 2000)
"""Delays before an administrator looks for a leader again; each request draws one of them."""

KNOWN_NODES: Final = 2
"""How many nodes an administrator of a guarded run asks who leads."""

MAY_HAVE_HAPPENED: Final = frozenset({ErrorCode.request_timed_out, ErrorCode.not_leader_or_follower})
"""Errors after which the change may still commit."""

Attempt = Callable[[AdminClient, Operation], Awaitable[None]]


class Administrator:
    """Makes each request an operation of the history.  Each request comes from a host of its own."""

    def __init__(self, world: World, survivability: Survivability) -> None:
        self._world = world
        self._survivability = survivability
        self._requests: list[Request] = []

    def add_voter(self, node_id: int, *, at: int | None, within_s: float) -> Request:
        """Ask the leader to make the present incarnation of a node a voter; `at` is the only node asked who leads.

        If the quorum is guarded, the request fails for a replica that has lost what it promised.
        """
        world, survivability = self._world, self._survivability
        own = world.config_of(node_id).as_voter(world.key_of(node_id).directory_id)

        async def attempt(admin: AdminClient, operation: Operation) -> None:
            operation.voter = own.key
            if survivability.is_guarded and not survivability.keeps_promises(own):
                raise NetworkError("not asked for: it will never be of use")
            with survivability.asking(own.key, is_removal=False):
                await admin.add_metadata_voter(
                    own.key, own.endpoints, cluster_id=world.cluster_id, timeout_ms=round(within_s * 1000)
                )

        return self._begin(ADD_VOTER, str(node_id), attempt, at)

    def remove_voter(self, node_id: int, *, at: int | None, within_s: float) -> Request:
        """Ask the leader to remove the voter of that id, whichever incarnation it is.

        If the quorum is guarded, the request fails when the removal could leave it without a majority.
        """
        survivability = self._survivability

        async def attempt(admin: AdminClient, operation: Operation) -> None:
            quorum = await _described(admin, within_s)
            operation.voter = key = _voter_of(quorum, node_id)
            if not survivability.permits_loss_of(key):
                raise NetworkError("not asked for: what would be left may never have a majority")
            with survivability.asking(key, is_removal=True):
                await admin.remove_metadata_voter(
                    key, cluster_id=self._world.cluster_id, timeout_ms=round(within_s * 1000)
                )

        return self._begin(REMOVE_VOTER, str(node_id), attempt, at)

    def reassign(self, node_ids: Sequence[int], *, at: int | None, within_s: float) -> Request:
        """Ask the leader to take the quorum to these voters, by their ids alone.

        If the quorum is guarded, the request fails when the quorum could lose its majority on the way.
        """
        survivability = self._survivability
        target = tuple(sorted(node_ids))

        async def attempt(admin: AdminClient, operation: Operation) -> None:
            if not survivability.permits_reassignment_to(target):
                raise NetworkError("not asked for: the quorum might lose its majority on the way")
            with survivability.asking_for(target):
                await admin.alter_partition_reassignments(target, timeout_ms=round(within_s * 1000))

        return self._begin(REASSIGN, " ".join(map(str, target)), attempt, at)

    def cancel_reassignment(self, *, at: int | None, within_s: float) -> Request:
        """Ask the leader to leave the voters as they are."""

        async def attempt(admin: AdminClient, operation: Operation) -> None:
            await admin.alter_partition_reassignments(None, timeout_ms=round(within_s * 1000))

        return self._begin(CANCEL_REASSIGNMENT, "", attempt, at)

    def transfer(self, node_id: int, *, at: int | None, within_s: float) -> Request:
        """Ask the leader to hand over to the voter of that id."""

        async def attempt(admin: AdminClient, operation: Operation) -> None:
            await admin.transfer_leadership(
                node_id, cluster_id=self._world.cluster_id, timeout_ms=round(within_s * 1000)
            )

        return self._begin(TRANSFER, str(node_id), attempt, at)

    def may_still_transfer_to(self, node_id: int) -> bool:
        """Whether a leader may still carry out a request to hand over to that voter."""
        lately_s = self._world.now_s - LOST_WITHIN_S
        return any(
            (operation.kind, operation.subject) == (TRANSFER, str(node_id))
            and (operation.completed_at_s is None or operation.completed_at_s >= lately_s)
            for operation in self._world.history.operations
        )

    def upgrade(self, *, at: int | None, within_s: float) -> Request:
        """Ask for kraft.version 1."""

        async def attempt(admin: AdminClient, operation: Operation) -> None:
            await admin.update_features({KRAFT_VERSION: 1}, timeout_ms=round(within_s * 1000))
            self._world.note_upgrade()

        return self._begin(UPGRADE, "", attempt, at)

    def stop(self) -> None:
        """Stop waiting for answers; unanswered requests stay pending."""
        for request in self._requests:
            request.scope.cancel()

    def _begin(self, kind: str, subject: str, attempt: Attempt, at: int | None) -> Request:
        world = self._world
        name = f"admin-{len(self._requests)}"
        source = world.random(name)
        asked = [at] if at is not None else self._known_to_one(source)
        network = world.network.seen_from(f"client-{name}")
        backoff_ms = source.choice(RETRY_BACKOFFS_MS)
        servers = [world.known_endpoint_of(node) for node in asked]
        client = AdminClient(servers, name, retry_backoff_ms=backoff_ms, network=network)
        operation = world.history.invoke(kind, client=name, subject=subject)
        request = Request(operation)
        self._requests.append(request)
        world.nursery.start_soon(self._run, client, request, attempt)
        return request

    def _known_to_one(self, source: random.Random) -> list[int]:
        """The nodes that an administrator asks who leads: all, but in a guarded run only a few.

        Asking all of them would be most of what happens in a run without a leader.
        """
        nodes = sorted(self._world.node_ids)
        return source.sample(nodes, min(KNOWN_NODES, len(nodes))) if self._survivability.is_guarded else nodes

    async def _run(self, client: AdminClient, request: Request, attempt: Attempt) -> None:
        history, operation = self._world.history, request.operation
        with request.scope:
            try:
                await attempt(client, operation)
                history.succeed(operation)
            except VoterChangeError as refused:
                if refused.error in MAY_HAVE_HAPPENED:
                    history.lose(operation, str(refused))
                else:
                    history.fail(operation, str(refused))
            except (OutcomeUnknownError, UnsupportedVersionError) as error:
                history.lose(operation, str(error))
            except (NetworkError, RefusedError) as error:
                history.fail(operation, str(error))
        request.ended.set()


async def _described(client: AdminClient, within_s: float) -> QuorumDescription:
    """Raises NetworkError if no leader answers in that time."""
    quorum = await client.describe_metadata_quorum(round(within_s * 1000))
    if isinstance(quorum, NoLeader):
        raise NetworkError(f"no leader: {'; '.join(map(str, quorum.views))}")
    return quorum


def _voter_of(quorum: QuorumDescription, node_id: int) -> ReplicaKey:
    """Raises NetworkError if no voter has that id."""
    for voter in quorum.voters:
        if voter.key.id == node_id:
            return voter.key
    names = ", ".join(str(voter.key) for voter in quorum.voters)
    raise NetworkError(f"not asked for: the voters are {names}")


@attrs.frozen(eq=False)
class Request:
    """One request of an administrator."""

    operation: Operation
    ended: trio.Event = attrs.field(factory=trio.Event)
    """Set once there is an answer, or nobody waits for one any more."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
