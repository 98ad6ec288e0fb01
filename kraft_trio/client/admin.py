"""Administers a quorum: describes it, changes its voters, and finalizes features.

The methods have the names of Kafka's Java `Admin` (KIP-853 "Admin client").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import attrs
import trio

from kraft_trio.client.arguments import MAX_INT16, MAX_INT32, check_number, check_replica, check_type
from kraft_trio.client.connecting import ask, drop
from kraft_trio.client.leader_connection import LeaderConnection
from kraft_trio.client.leader_finder import Bootstrap, LeaderFinder, LeaderNotFoundError
from kraft_trio.client.quorum_description import FeatureLevels, FeatureMetadata, NoLeader, QuorumDescription
from kraft_trio.client.replica_snapshots import ReplicaSnapshots, ask_for_snapshots
from kraft_trio.errors import KraftError, NetworkError, OutcomeUnknownError, RefusedError
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey, VersionRange
from kraft_trio.wire.api import (
    ADD_RAFT_VOTER,
    ALTER_PARTITION_REASSIGNMENTS,
    REMOVE_RAFT_VOTER,
    TRANSFER_LEADERSHIP,
    UPDATE_FEATURES,
    Api,
)
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest
from kraft_trio.wire.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignedPartition,
)
from kraft_trio.wire.apis.remove_raft_voter import RemoveRaftVoterRequest
from kraft_trio.wire.apis.replica_snapshots import ReplicaSnapshotsRequest
from kraft_trio.wire.apis.transfer_leadership import (
    MOST_HAND_OVERS,
    TransferLeadershipRequest,
    TransferLeadershipResponse,
)
from kraft_trio.wire.apis.unregister_controller import UNREGISTER_CONTROLLER, UnregisterControllerRequest
from kraft_trio.wire.apis.update_features import (
    FeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)
from kraft_trio.wire.apis.voter_change_response import VoterChangeResponse
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.network import Network
from kraft_trio.wire.tcp_network import TcpNetwork

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

NOT_LEADING: Final = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.not_controller})
"""How a node that does not lead answers a change.  The second error answers UpdateFeatures."""


class VoterChangeError(KraftError):
    """The leader refused a change, or did not finish it in time.

    `error` is the leader's answer.  After REQUEST_TIMED_OUT and NOT_LEADER_OR_FOLLOWER, a change that was appended may
    still commit or vanish; the message says so.  After any other error nothing has changed.
    """

    def __init__(self, what: str, error: ErrorCode, message: str | None) -> None:
        self.error = error
        self.reason = message
        super().__init__(f"{what}: {error.name.upper()}" + (f": {message}" if message else ""))


@attrs.frozen
class _Refusal:
    """The leader's final answer to a change.  Without an error, the change was made."""

    error: ErrorCode
    message: str | None

    def raise_for(self, what: str) -> None:
        if self.error != ErrorCode.none:
            raise VoterChangeError(what, self.error, self.message)


class AdminClient:
    """Sends administrative requests to a quorum.  Holds no connection between calls, so there is nothing to close."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        client_id: str = "kraft-admin",
        *,
        request_timeout_ms: int = 2000,
        retry_backoff_ms: int = 200,
        network: Network | None = None,
    ) -> None:
        """`bootstrap` is any nodes of the quorum, as endpoints or as texts, such as "a:9093,b:9093".

        `request_timeout_ms` is the time for each single answer.

        `retry_backoff_ms` is the pause before the client looks for a leader again.  Raises ValueError if `bootstrap`
        is empty.
        """
        self._request_timeout_ms = request_timeout_ms
        self._retry_s = retry_backoff_ms / 1000
        self._finder = LeaderFinder(
            bootstrap,
            client_id,
            request_timeout_ms=request_timeout_ms,
            network=TcpNetwork() if network is None else network,
        )

    async def describe_metadata_quorum(self, timeout_ms: int = 5000) -> QuorumDescription | NoLeader:
        """The leader's description of the quorum (KIP-595 "DescribeQuorum").

        Asks the bootstrap nodes, then the leaders that they name.  If nodes answer but none leads, an election may be
        under way, and the client asks again for `timeout_ms`.  The result is NoLeader, with the answer of each node, if
        that time is over or if no node answers.
        """
        deadline = trio.current_time() + timeout_ms / 1000
        while True:
            answers = await self._finder.describe()
            for answer in answers:
                if answer.description is not None:
                    return answer.description
            cluster_id = next((answer.cluster_id for answer in answers if answer.cluster_id is not None), None)
            outcome = NoLeader(cluster_id, tuple(answer.view for answer in answers))
            if outcome.reachable == 0 or trio.current_time() + self._retry_s > deadline:
                return outcome
            await trio.sleep(self._retry_s)

    async def add_metadata_voter(
        self,
        voter: ReplicaKey,
        listeners: Endpoints,
        *,
        cluster_id: str | None = None,
        timeout_ms: int = 30_000,
        ack_when_committed: bool = True,
    ) -> None:
        """Make a replica a voter (KIP-853 "AddVoter").

        Returns when the change has committed, or, without `ack_when_committed`, when the leader has appended it.  The
        leader waits at most `timeout_ms` for earlier changes and for the replica to catch up.  If the leadership
        changes meanwhile, the client asks the next leader.  Raises

        - ValueError for a value out of range; nothing is sent,
        - VoterChangeError if the leader refuses,
        - NetworkError if no leader could be asked,
        - OutcomeUnknownError if the leader that was asked did not answer.

        A cancelled call may or may not have changed the voters.
        """
        check_replica("voter", voter)
        check_type("listeners", listeners, Endpoints, "Endpoints, as NodeConfig.advertised_endpoints returns")
        check_number("timeout_ms", timeout_ms, MAX_INT32)
        what = f"add voter {voter}"
        refusal, was_repeated = await self._change(
            what,
            ADD_RAFT_VOTER,
            lambda left_ms, _topic: AddRaftVoterRequest(
                cluster_id, left_ms, voter.id, voter.directory_id, listeners, ack_when_committed
            ),
            _refusal_of_voter_change,
            timeout_ms,
        )
        if was_repeated and refusal.error == ErrorCode.duplicate_voter and await self._is_voter(voter) is True:
            return
        refusal.raise_for(what)

    async def remove_metadata_voter(
        self, voter: ReplicaKey, *, cluster_id: str | None = None, timeout_ms: int = 30_000
    ) -> None:
        """Remove exactly this replica from the voters (KIP-853 "RemoveVoter").  Returns when that has committed.

        If the leadership changes meanwhile, the client asks the next leader.  Raises what `add_metadata_voter` raises.
        """
        check_replica("voter", voter)
        check_number("timeout_ms", timeout_ms, MAX_INT32)
        what = f"remove voter {voter}"
        refusal, was_repeated = await self._change(
            what,
            REMOVE_RAFT_VOTER,
            lambda _left_ms, _topic: RemoveRaftVoterRequest(cluster_id, voter.id, voter.directory_id),
            _refusal_of_voter_change,
            timeout_ms,
        )
        if was_repeated and refusal.error == ErrorCode.voter_not_found and await self._is_voter(voter) is False:
            return
        refusal.raise_for(what)

    async def unregister_controller(self, controller_id: int, *, timeout_ms: int = 30_000) -> None:
        """Have Kafka's active controller forget a controller that is no voter any more (KIP-1312, Kafka 4.4).

        Raises what `add_metadata_voter` raises, and UnsupportedVersionError for a leader without registrations: an
        older Kafka or a node of this library.
        """
        check_number("controller_id", controller_id, MAX_INT32, at_least=0)
        check_number("timeout_ms", timeout_ms, MAX_INT32)
        what = f"unregister controller {controller_id}"
        refusal, _ = await self._change(
            what,
            UNREGISTER_CONTROLLER,
            lambda _left_ms, _topic: UnregisterControllerRequest(controller_id),
            lambda response: _Refusal(response.error, response.error_message),
            timeout_ms,
        )
        refusal.raise_for(what)

    async def alter_partition_reassignments(
        self, target: Sequence[int | ReplicaKey] | None, *, timeout_ms: int = 30_000
    ) -> None:
        """Set the target voters of the quorum, or cancel the reassignment with None (KIP-642).

        An id means the voter with that id, or the observer that fetches; a ReplicaKey also names the disk.
        Returns when the target has committed.  The leader, and each leader after it, then takes the quorum there;
        `describe_metadata_quorum` shows the progress.  A cancelled reassignment leaves the voters as they are.  If the
        answer is lost, the client asks again.  Raises what `add_metadata_voter` raises.
        """
        check_type("target", target, list | tuple | None, "a list of ids and ReplicaKeys, or None")
        replicas = None if target is None else tuple(ReplicaKey(it) if isinstance(it, int) else it for it in target)
        for key in replicas or ():
            check_replica("target", key)
        check_number("timeout_ms", timeout_ms, MAX_INT32)
        what = "cancel reassignment" if replicas is None else f"reassign to {', '.join(map(str, replicas))}"
        refusal, was_repeated = await self._change(
            what,
            ALTER_PARTITION_REASSIGNMENTS,
            lambda left_ms, topic: AlterPartitionReassignmentsRequest(
                left_ms, (ReassignedPartition(topic, 0, replicas),)
            ),
            _first_refusal,
            timeout_ms,
            is_repeatable=True,
        )
        if was_repeated and refusal.error == ErrorCode.no_reassignment_in_progress:
            return
        refusal.raise_for(what)

    async def transfer_leadership(
        self, to: int, *, cluster_id: str | None = None, timeout_ms: int = 30_000
    ) -> QuorumDescription:
        """Have the voter of this id lead.  Returns its description of the quorum.

        The leader waits until the voter has caught up, holds appends for a moment, and resigns in its favour.  If
        another voter wins, that one is asked again.  A cancelled call may or may not transfer the leadership.  Raises

        - ValueError for a value out of range; nothing is sent,
        - RefusedError if that node is no voter, or does not catch up in time; the leader stays,
        - NetworkError if no leader could be asked,
        - OutcomeUnknownError if the voter does not lead when the time is over, or when three leaders have resigned,
        - UnsupportedVersionError if the leader is one of Apache Kafka.
        """
        check_number("to", to, MAX_INT32, at_least=0)
        check_number("timeout_ms", timeout_ms, MAX_INT32)
        what, deadline = f"transfer leadership to node {to}", trio.current_time() + timeout_ms / 1000
        seen = "no leader was found"
        resigned = 0
        while (left_ms := round((deadline - trio.current_time()) * 1000)) > 0:
            refusal, _ = await self._change(
                what,
                TRANSFER_LEADERSHIP,
                lambda left_ms, _topic: TransferLeadershipRequest(cluster_id, to, left_ms),
                _refusal_of_transfer,
                left_ms,
            )
            if refusal.error not in {ErrorCode.none, *NOT_LEADING}:
                reason = f": {refusal.message}" if refusal.message else ""
                refused = f"{what}: {refusal.error.name.upper()}{reason}"
                raise (
                    OutcomeUnknownError(f"{refused}; but a leader has resigned") if resigned else RefusedError(refused)
                )
            resigned += refusal.error == ErrorCode.none
            await trio.sleep(self._retry_s)
            quorum = await self.describe_metadata_quorum(max(1, round((deadline - trio.current_time()) * 1000)))
            if isinstance(quorum, QuorumDescription):
                if quorum.leader_id == to:
                    return quorum
                seen = f"node {quorum.leader_id} leads epoch {quorum.leader_epoch}"
                if resigned >= MOST_HAND_OVERS:
                    raise OutcomeUnknownError(f"{what}: {resigned} leaders resigned: {seen}")
        raise OutcomeUnknownError(f"{what}: not done in {timeout_ms} ms: {seen}")

    async def describe_features(self, timeout_ms: int = 5000) -> FeatureMetadata:
        """The features that the leader supports, and their finalized levels (KIP-584).

        Raises NetworkError if no leader could be asked in that time.
        """
        leader = await self._find_leader("describe features", trio.current_time() + timeout_ms / 1000)
        await leader.aclose()
        told = leader.connection.api_versions
        finalized = {feature.name: feature.level for feature in told.finalized_features}
        return FeatureMetadata(
            tuple(
                FeatureLevels(
                    feature.name,
                    VersionRange(feature.min_version, feature.max_version),
                    finalized.get(feature.name, 0),
                )
                for feature in sorted(told.supported_features, key=lambda feature: feature.name)
            ),
            told.finalized_features_epoch if told.finalized_features_epoch >= 0 else None,
        )

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        validate_only: bool = False,
        allow_downgrade: bool = False,
        unsafe: bool = False,
        timeout_ms: int = 30_000,
    ) -> None:
        """Finalize feature levels.  The only feature is `kraft.version`, whose level never goes down (KIP-853).

        With `unsafe`, Kafka's controllers may lose metadata by a downgrade.  With `validate_only`, the leader only
        checks the change.  Raises what `add_metadata_voter` raises.
        """
        check_type("levels", levels, Mapping, "a mapping from features to levels")
        for name, level in levels.items():
            check_number(f"levels[{name!r}]", level, MAX_INT16, at_least=0)
        check_number("timeout_ms", timeout_ms, MAX_INT32)
        upgrade_type = UpgradeType.SAFE_DOWNGRADE if allow_downgrade else UpgradeType.UPGRADE
        if unsafe:
            upgrade_type = UpgradeType.UNSAFE_DOWNGRADE
        updates = tuple(FeatureUpdate(name, level, upgrade_type) for name, level in levels.items())
        refusal, _ = await self._change(
            "update features",
            UPDATE_FEATURES,
            lambda left_ms, _topic: UpdateFeaturesRequest(updates, left_ms, validate_only),
            _first_refusal,
            timeout_ms,
        )
        refusal.raise_for("update features")

    async def describe_snapshots(self, node: Endpoint, timeout_ms: int = 5000) -> ReplicaSnapshots:
        """Describe the log and the snapshots of the node at that endpoint.

        Raises NetworkError, and UnsupportedVersionError for a node of Apache Kafka.
        """
        return await self._ask_for_snapshots(node, ReplicaSnapshotsRequest(), timeout_ms)

    async def take_snapshot(
        self, node: Endpoint, *, cluster_id: str | None = None, timeout_ms: int = 600_000
    ) -> ReplicaSnapshots:
        """Have the node at that endpoint take a snapshot of its state, and describe its snapshots afterwards.

        If the newest snapshot is as new as the state, the node writes none, and `took_ms` is -1.  After a cancelled
        call or a lost connection, there is either a whole new snapshot or no new one.  Raises RefusedError if the node
        has no state machine, belongs to another cluster or cannot write the snapshot.  Also raises what
        `describe_snapshots` raises.
        """
        return await self._ask_for_snapshots(node, ReplicaSnapshotsRequest(cluster_id, take=True), timeout_ms)

    async def _ask_for_snapshots(
        self, node: Endpoint, request: ReplicaSnapshotsRequest, timeout_ms: int
    ) -> ReplicaSnapshots:
        check_type("node", node, Endpoint, "an Endpoint")
        check_number("timeout_ms", timeout_ms, MAX_INT32)
        connection = await self._finder.connect(node)
        try:
            return await ask_for_snapshots(connection, node, request, timeout_ms)
        except NetworkError as error:
            raise NetworkError(f"{node}: {error}") from error
        finally:
            await drop(connection)

    async def _change(
        self,
        what: str,
        api: Api[RequestT, ResponseT],
        request: Callable[[int, str], RequestT],
        refusal_of: Callable[[ResponseT], _Refusal],
        timeout_ms: int,
        *,
        is_repeatable: bool = False,
    ) -> tuple[_Refusal, bool]:
        """Send a change to the leader, or to the next leader if that one has lost its leadership.

        With `is_repeatable`, also send it again if the answer is lost before the time is over.  `request` gets the
        number of milliseconds that are left, and the name of the topic.  Returns the leader's answer, and whether an
        earlier leader was asked, which may have made the change.  Raises NetworkError if nothing was sent, and
        OutcomeUnknownError if something was sent and no answer came.
        """
        deadline = trio.current_time() + timeout_ms / 1000
        was_repeated = False
        while True:
            try:
                leader = await self._find_leader(what, deadline)
            except NetworkError as error:
                if was_repeated:
                    raise OutcomeUnknownError(f"{error}; the leader that was lost may have done it") from error
                raise
            left_ms = max(1, round((deadline - trio.current_time()) * 1000))
            try:
                # The leader keeps the deadline itself.  The extra time is for the network.
                response = await ask(
                    leader.connection, api, request(left_ms, leader.topic_name), left_ms + self._request_timeout_ms
                )
            except NetworkError as error:
                if not is_repeatable or trio.current_time() + self._retry_s > deadline:
                    raise OutcomeUnknownError(f"{what}: sent to the leader, which did not answer: {error}") from error
            else:
                refusal = refusal_of(response)
                if refusal.error not in NOT_LEADING or trio.current_time() + self._retry_s > deadline:
                    return refusal, was_repeated
            finally:
                await leader.aclose()
            was_repeated = True
            await trio.sleep(self._retry_s)

    async def _find_leader(self, what: str, deadline: float) -> LeaderConnection:
        """Find the leader.  Raises NetworkError if none is found by the deadline."""
        while True:
            try:
                return await self._finder.find()
            except LeaderNotFoundError as error:
                if trio.current_time() + self._retry_s > deadline:
                    raise NetworkError(f"{what}: no leader could be asked in time: {error.said}") from error
            await trio.sleep(self._retry_s)

    async def _is_voter(self, key: ReplicaKey) -> bool | None:
        """Whether exactly that replica is a voter.  None if no leader can be asked."""
        quorum = await self.describe_metadata_quorum()
        return None if isinstance(quorum, NoLeader) else quorum.voter(key) is not None


def _refusal_of_voter_change(response: VoterChangeResponse) -> _Refusal:
    return _Refusal(response.error, response.error_message)


def _refusal_of_transfer(response: TransferLeadershipResponse) -> _Refusal:
    return _Refusal(response.error, response.error_message)


def _first_refusal(response: AlterPartitionReassignmentsResponse | UpdateFeaturesResponse) -> _Refusal:
    """The error of a partition or, in versions 0 and 1, of a feature; otherwise that of the whole request."""
    for result in response.results:
        if result.error != ErrorCode.none:
            return _Refusal(result.error, result.error_message)
    return _Refusal(response.error, response.error_message)
