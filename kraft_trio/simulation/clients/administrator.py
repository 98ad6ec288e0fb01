"""An administrator who changes the voters of a simulated quorum, by the client library and over the network."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import attrs
import trio

from kraft_trio.client.admin import AdminClient, VoterChangeError
from kraft_trio.client.quorum_description import NoLeader, QuorumDescription
from kraft_trio.errors import NetworkError, OutcomeUnknownError, UnsupportedVersionError
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import KRAFT_VERSION
from kraft_trio.simulation.facts.history import ADD_VOTER, REMOVE_VOTER, UPGRADE, Operation
from kraft_trio.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster

RETRY_BACKOFFS_MS: Final = (200, 1000, 2000)
"""How long administrators wait before they look for a leader once more; one of these for each request."""

KNOWN_NODES: Final = 2

MAY_HAVE_HAPPENED: Final = frozenset({ErrorCode.request_timed_out, ErrorCode.not_leader_or_follower})
"""The answers after which a change that was appended may commit yet."""

REPEATED_WITHIN_S: Final = 15.0
"""How long after its answer a request may be carried out once more, where the network delivers some twice."""

LOST_WITHIN_S: Final = 90.0
"""The same of a request that was never answered: it may be stuck on the way, or in a process that is paused."""


@attrs.define(eq=False)
class AskedChange:
    """A change of one member that somebody has asked for, and that may be made for as long as it is listed."""

    key: ReplicaKey
    is_removal: bool
    may_happen_until_s: float | None = None
    """Virtual time; None while there is no answer."""


Attempt = Callable[[AdminClient, Operation], Awaitable[None]]


class Administrator:
    """Makes each request an operation of the history, and remembers what may come of those that were asked.

    Each has a host of its own on the network.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._asked: list[AskedChange] = []
        self._requests: list[Request] = []

    def add_voter(self, node_id: int, *, at: int | None, patience_s: float) -> Request:
        """Ask for the present incarnation of a node to become a voter; `at`: ask that node who leads.

        Where the cluster is to be kept fair, no replica is asked for that has lost what it promised: it fails.
        """
        machine = self._cluster.machines[node_id]
        own = machine.config.as_voter(self._cluster.key_of(node_id).directory_id)

        async def attempt(admin: AdminClient, operation: Operation) -> None:
            operation.voter = own.key
            if self._cluster.is_fair and not self._cluster.outlook.keeps_promises(own):
                raise NetworkError("not asked for: it will never be of use")
            with self._asking(own.key, is_removal=False):
                await admin.add_metadata_voter(
                    own.key, own.endpoints, cluster_id=self._cluster.cluster_id, timeout_ms=round(patience_s * 1000)
                )

        return self._begin(ADD_VOTER, str(node_id), attempt, at)

    def remove_voter(self, node_id: int, *, at: int | None, patience_s: float) -> Request:
        """Ask for the voter of that id, whichever incarnation the leader says it is, to be one no more.

        Where the cluster is to be kept fair, a removal that could leave no majority is not asked for: it fails.
        """

        async def attempt(admin: AdminClient, operation: Operation) -> None:
            quorum = await _described(admin, patience_s)
            operation.voter = key = _voter_of(quorum, node_id)
            if self._cluster.is_fair and not self._cluster.outlook.can_spare(key):
                raise NetworkError("not asked for: what would be left may never have a majority")
            with self._asking(key, is_removal=True):
                await admin.remove_metadata_voter(
                    key, cluster_id=self._cluster.cluster_id, timeout_ms=round(patience_s * 1000)
                )

        return self._begin(REMOVE_VOTER, str(node_id), attempt, at)

    def upgrade(self, *, at: int | None, patience_s: float) -> Request:
        """Ask for kraft.version 1."""

        async def attempt(admin: AdminClient, operation: Operation) -> None:
            await admin.update_features({KRAFT_VERSION: 1}, timeout_ms=round(patience_s * 1000))

        return self._begin(UPGRADE, "", attempt, at)

    def stop(self) -> None:
        """Wait for no answer any more: what is not answered stays pending."""
        for request in self._requests:
            request.patience.cancel()

    def asked(self) -> list[AskedChange]:
        """The changes that may still be made, or made once more."""
        now_s = self._cluster.now_s
        self._asked = [
            change for change in self._asked if change.may_happen_until_s is None or change.may_happen_until_s >= now_s
        ]
        return self._asked

    def _asking(self, key: ReplicaKey, *, is_removal: bool) -> _Asking:
        change = AskedChange(key, is_removal)
        self._asked.append(change)
        return _Asking(self._cluster, change)

    def _begin(self, kind: str, subject: str, attempt: Attempt, at: int | None) -> Request:
        cluster = self._cluster
        name = f"admin-{len(self._requests)}"
        source = cluster.random(name)
        asked = [at] if at is not None else self._known_to_one(source)
        network = cluster.network.seen_from(f"client-{name}")
        backoff_ms = source.choice(RETRY_BACKOFFS_MS)
        servers = [cluster.endpoint_of(node) for node in asked]
        client = AdminClient(servers, name, retry_backoff_ms=backoff_ms, network=network)
        operation = cluster.history.invoke(kind, client=name, subject=subject)
        request = Request(operation)
        self._requests.append(request)
        cluster.nursery.start_soon(self._run, client, request, attempt)
        return request

    def _known_to_one(self, source: random.Random) -> list[int]:
        """The nodes that an administrator asks who leads: all of them, but in a random run a few, or that would be most
        of what happens in one without a leader."""
        nodes = sorted(self._cluster.machines)
        return source.sample(nodes, min(KNOWN_NODES, len(nodes))) if self._cluster.is_fair else nodes

    async def _run(self, client: AdminClient, request: Request, attempt: Attempt) -> None:
        history, operation = self._cluster.history, request.operation
        with request.patience:
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
            except NetworkError as error:
                history.fail(operation, str(error))
        request.ended.set()


async def _described(client: AdminClient, patience_s: float) -> QuorumDescription:
    """Raises NetworkError where there is no leader in that time."""
    quorum = await client.describe_metadata_quorum(round(patience_s * 1000))
    if isinstance(quorum, NoLeader):
        raise NetworkError(f"no leader: {'; '.join(map(str, quorum.views))}")
    return quorum


def _voter_of(quorum: QuorumDescription, node_id: int) -> ReplicaKey:
    """Raises NetworkError where no voter has that id."""
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
    """Set once there is an answer, or none is waited for any more."""
    patience: trio.CancelScope = attrs.field(factory=trio.CancelScope)


@attrs.define
class _Asking:
    """While it is open there is no answer; from then on what was asked may happen for a while yet."""

    cluster: Cluster
    change: AskedChange

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        is_answered = error is None or isinstance(error, VoterChangeError)
        grace_s = REPEATED_WITHIN_S if is_answered else LOST_WITHIN_S
        self.change.may_happen_until_s = self.cluster.now_s + grace_s
