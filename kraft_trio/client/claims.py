"""Asks every node of a quorum for its own view.  A node that hangs costs its time limit, and delays no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar
from uuid import UUID

import attrs
import trio

from kraft_trio.client.connecting import ask, drop, open_connection
from kraft_trio.client.node_answer import NodeAnswer, answer_of
from kraft_trio.client.quorum_description import UNKNOWN, QuorumDescription, health_of, silent_ms_of
from kraft_trio.client.quorum_question import describe_quorum, finalized_kraft_version, known_epoch, refused_fetch
from kraft_trio.client.told_status import (
    MAX_NODES,
    initial_voter_of,
    line_of,
    restored_of,
    shared_id_of,
    status_of,
    texts_of,
    vital_number,
    voter_keys_of,
    voters_of,
    whole_of,
)
from kraft_trio.config.sasl_fields import Login
from kraft_trio.diagnosis.quorum_situation import (
    Claim,
    LeaderReport,
    ObserverReport,
    Situation,
    VoterReport,
)
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.protocol.replica_health import Health
from kraft_trio.protocol.types import Endpoint
from kraft_trio.security.sasl_network import LoginRefusedError
from kraft_trio.wire.api import DESCRIBE_CLUSTER, FETCH, METADATA, REPLICA_SNAPSHOTS
from kraft_trio.wire.apis.describe_cluster import CONTROLLERS, DescribeClusterRequest
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumResponse
from kraft_trio.wire.apis.metadata import MetadataRequest, MetadataResponse
from kraft_trio.wire.apis.replica_snapshots import ReplicaSnapshotsRequest
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.network import Network

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

CLIENT_ID: Final = "kraft-explain"
OF_REPLICAS: Final = "CLUSTER_ACTION"
"""The right that a leader asks of a node which passes a question on to it, and not of who asks the node."""


@attrs.frozen
class Told:
    """What one node answered."""

    claim: Claim
    description: QuorumDescription | None = None
    """The leader's description of the quorum, if the node leads or asked the leader."""
    brokers: tuple[tuple[int, Endpoint], ...] = ()
    """The nodes that it names, with their ids."""
    status: Mapping[str, Any] = attrs.field(factory=dict)
    """Its own status (docs/reference/status.md#what-a-node-tells), or empty."""


async def ask_all(network: Network, named: Sequence[Endpoint], *, timeout_ms: int, fetch_timeout_ms: int) -> Situation:
    """Ask the named nodes, then the others that they name, each within `timeout_ms`."""
    told = await _ask_each(network, named, timeout_ms)
    told |= await _ask_each(network, others_named(told), timeout_ms)
    return situation_of(await _with_strangers(network, told, timeout_ms), fetch_timeout_ms)


def others_named(told: Mapping[Endpoint, Told]) -> list[Endpoint]:
    """The endpoints that the answers name and that have not been asked yet, up to MAX_NODES in all."""
    asked = {one.claim.node_id for one in told.values()} - {None}
    named = named_by(told).items()
    others = [endpoint for node_id, endpoint in named if node_id not in asked and endpoint not in told]
    return others[: max(0, MAX_NODES - len(told))]


def named_by(told: Mapping[Endpoint, Told]) -> dict[int, Endpoint]:
    """Where the nodes listen that the answers name, by id."""
    known = {broker_id: endpoint for one in told.values() for broker_id, endpoint in one.brokers}
    for one in told.values():
        for node_id, listeners in () if one.description is None else one.description.endpoints.items():
            for _, endpoint in listeners:
                known.setdefault(node_id, endpoint)
    return known


def situation_of(told: Mapping[Endpoint, Told], fetch_timeout_ms: int) -> Situation:
    """What the answers say together.  A node that was asked at two endpoints has one claim."""
    known = named_by(told)
    id_at = {endpoint: node_id for node_id, endpoint in known.items()}
    claims: dict[object, Claim] = {}
    for endpoint, one in told.items():
        claim = one.claim if one.claim.node_id is not None else attrs.evolve(one.claim, node_id=id_at.get(endpoint))
        key = claim.endpoint if claim.node_id is None else claim.node_id
        if key not in claims or claims[key].problem is not None:
            claims[key] = claim
    newest = newest_description(told)
    report = None if newest is None else report_of(newest, fetch_timeout_ms)
    all_claims = [claim if newest is None else completed(claim, newest, report) for claim in claims.values()]
    return Situation(tuple(sorted(all_claims, key=_place)), report)


def completed(claim: Claim, quorum: QuorumDescription, report: LeaderReport | None = None) -> Claim:
    """The claim with what the leader says of the node, if the node itself does not tell, as Kafka's controllers.

    A node that fetches with another directory id than the voter of its id, which does not, has a blank or another disk.
    """
    if claim.problem is not None or claim.node_id is None:
        return claim
    if report is not None and claim.directory_id is None:
        claim = attrs.evolve(claim, directory_id=_fetching_disk(claim.node_id, report))
    states = (*quorum.voters, *quorum.observers)
    ends = [state.log_end_offset for state in states if state.key.id == claim.node_id]
    is_leader, high_watermark = claim.node_id == quorum.leader_id, quorum.high_watermark
    return attrs.evolve(
        claim,
        reported_end=max((end for end in ends if end >= 0), default=None) if claim.log_end is None else None,
        reported_high_watermark=(
            high_watermark if is_leader and high_watermark >= 0 and claim.high_watermark is None else None
        ),
    )


def _fetching_disk(node_id: int, report: LeaderReport) -> UUID | None:
    """With which directory id a node fetches, if the voter of its id is not up."""
    if any(voter.id == node_id and voter.health.is_up for voter in report.voters):
        return None  # After a change of disks, the leader lists the old one as an observer for a while.
    fetching = {one.directory_id for one in report.observers if one.id == node_id and one.fetches}
    return fetching.pop() if len(fetching) == 1 else None


def newest_description(told: Mapping[Endpoint, Told]) -> QuorumDescription | None:
    """The newest description that the leader with the highest epoch has given."""
    descriptions = [one.description for one in told.values() if one.description is not None]
    return max(descriptions, key=lambda description: (description.leader_epoch, description.now_ms), default=None)


def report_of(quorum: QuorumDescription, fetch_timeout_ms: int) -> LeaderReport:
    return LeaderReport(
        leader_id=quorum.leader_id,
        epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        voters=tuple(
            VoterReport(
                state.key.id,
                health_of(quorum, state, fetch_timeout_ms),
                state.key.directory_id,
                has_fetched=state is quorum.leader or state.last_fetch_timestamp_ms != UNKNOWN,
                silent_ms=silent_ms_of(quorum, state),
            )
            for state in quorum.voters
        ),
        committed_voter_ids=tuple(state.key.id for state in quorum.committed_voters),
        target_voter_ids=tuple(state.key.id for state in quorum.target_voters),
        reassignment_status=quorum.reassignment_status,
        observers=tuple(
            ObserverReport(
                state.key.id,
                state.key.directory_id,
                fetches=health_of(quorum, state, fetch_timeout_ms).status is not Health.OFFLINE,
            )
            for state in quorum.observers
        ),
    )


def _place(claim: Claim) -> tuple[bool, int, str]:
    return claim.node_id is None, claim.node_id or 0, claim.endpoint


async def _ask_each(network: Network, endpoints: Sequence[Endpoint], timeout_ms: int) -> dict[Endpoint, Told]:
    told: dict[Endpoint, Told] = {}

    async def ask_one(endpoint: Endpoint) -> None:
        told[endpoint] = await ask_node(network, endpoint, timeout_ms)

    async with trio.open_nursery() as nursery:
        for endpoint in dict.fromkeys(endpoints):
            nursery.start_soon(ask_one, endpoint)
    return {endpoint: told[endpoint] for endpoint in dict.fromkeys(endpoints)}


async def _with_strangers(network: Network, told: dict[Endpoint, Told], timeout_ms: int) -> dict[Endpoint, Told]:
    """A Kafka controller without metadata does not tell its cluster: have it refuse the only one reported."""
    clusters = {one.claim.cluster_id for one in told.values()} - {None}
    silent = [endpoint for endpoint, one in told.items() if one.claim.lacks_metadata]
    if len(clusters) != 1:
        return told
    [cluster_id] = clusters
    found = dict(told)

    async def ask_one(endpoint: Endpoint) -> None:
        if await _is_of_other_cluster(network, endpoint, cluster_id, timeout_ms):
            claim = attrs.evolve(told[endpoint].claim, is_of_other_cluster=True, epoch=None, leader_id=None)
            found[endpoint] = attrs.evolve(told[endpoint], claim=claim)

    async with trio.open_nursery() as nursery:
        for endpoint in silent:
            nursery.start_soon(ask_one, endpoint)
    return found


async def _is_of_other_cluster(network: Network, endpoint: Endpoint, cluster_id: str | None, timeout_ms: int) -> bool:
    """Whether the node refuses that cluster id, within `timeout_ms`."""
    with trio.move_on_after(timeout_ms / 1000), suppress(NetworkError, UnsupportedVersionError):
        connection = await open_connection(network, endpoint, CLIENT_ID, timeout_ms)
        try:
            answer = await ask(connection, FETCH, refused_fetch(cluster_id), timeout_ms)
            return answer.error is ErrorCode.inconsistent_cluster_id
        finally:
            await drop(connection)
    return False


async def ask_node(network: Network, endpoint: Endpoint, timeout_ms: int) -> Told:
    """Ask one node, for `timeout_ms` at most.  If it does not answer, its claim has the problem."""
    found = Told(Claim(str(endpoint), f"no answer within {timeout_ms} ms"))
    with trio.move_on_after(timeout_ms / 1000):
        try:
            found = await _asked(network, endpoint, timeout_ms)
        except LoginRefusedError as error:
            problem = str(error).removeprefix(f"{endpoint}: ")
            found = Told(Claim(str(endpoint), problem, refused_login=_own_principal(network)))
        except (NetworkError, UnsupportedVersionError) as error:
            found = Told(Claim(str(endpoint), str(error).removeprefix(f"{endpoint}: ")))
    return found


async def _asked(network: Network, endpoint: Endpoint, timeout_ms: int) -> Told:
    """The node's own words come first: to describe the quorum, it may have to ask a leader that does not answer."""
    connection = await open_connection(network, endpoint, CLIENT_ID, timeout_ms)
    try:
        metadata = await _if_served(connection, METADATA, MetadataRequest(topics=None), timeout_ms)
        serves_clients, registered_ids, lacks_metadata = metadata is not None, None, False
        epoch_told, kraft_version = None, None
        if metadata is None:
            cluster = await _if_served(connection, DESCRIBE_CLUSTER, DescribeClusterRequest(CONTROLLERS), timeout_ms)
            lacks_metadata = cluster is not None and cluster.error is ErrorCode.unsupported_version
            if cluster is not None and not cluster.error:
                metadata = MetadataResponse(cluster.brokers, cluster.cluster_id, cluster.controller_id)
                registered_ids = tuple(sorted(broker.id for broker in cluster.brokers))[:MAX_NODES]
        replica = await _if_served(connection, REPLICA_SNAPSHOTS, ReplicaSnapshotsRequest(with_status=True), timeout_ms)
        described = None
        with trio.move_on_after(timeout_ms / 2000):
            try:
                metadata, described = await describe_quorum(connection, metadata, timeout_ms)
            except NetworkError:
                pass
        if replica is None and not serves_clients:
            epoch_told, kraft_version = await _of_kafkas(
                connection, metadata, lacks_metadata=lacks_metadata, timeout_ms=timeout_ms
            )
    finally:
        await drop(connection)
    answer = None if described is None else answer_of(endpoint, metadata, described)
    description = None if answer is None else answer.description
    epoch, leader_id, voter_ids = None, None, None
    is_broker = serves_clients and replica is None
    forwarding_problem = _forwarding_problem(described, answer, timeout_ms) if is_broker else None
    if is_broker and description is None:
        answer = None  # It names any broker as the controller.
    for topic in () if metadata is None or is_broker else metadata.topics[:1]:  # a broker's are the application's
        for partition in topic.partitions[:1]:
            epoch, voter_ids = partition.leader_epoch, tuple(partition.replicas)
            leader_id = partition.leader_id if partition.leader_id >= 0 else None
    if epoch is None and answer is not None:  # a controller or broker of Kafka
        epoch = epoch_told if answer.view.leader_epoch is None else answer.view.leader_epoch
        leader_id = answer.view.leader_id
        voter_ids = None if description is None else tuple(sorted(voter.key.id for voter in description.voters))
    is_told = replica is not None and replica.error == ErrorCode.none
    status = status_of(None if replica is None else replica.status)
    told_voters = voters_of(status)
    if told_voters is not None:  # Metadata names the leader and the node itself among the replicas, too.
        voter_ids = told_voters
    denial, denied_as = None, None
    if described is not None and described.error is ErrorCode.cluster_authorization_failed:
        told_by_node, _, what = (described.error_message or "").partition(" may not ")
        if told_by_node.startswith("User:") and what.startswith(OF_REPLICAS):
            denied_as = told_by_node
        else:
            denial = told_by_node if told_by_node.startswith("User:") else _own_principal(network)
    claim = Claim(
        endpoint=str(endpoint),
        node_id=replica.node.id if replica is not None and is_told else None,
        cluster_id=None if metadata is None else metadata.cluster_id,
        epoch=epoch,
        leader_id=leader_id,
        voter_ids=voter_ids,
        log_end=replica.log_end if replica is not None and is_told else None,
        high_watermark=replica.high_watermark if replica is not None and is_told else None,
        denial=denial,
        denied_as=denied_as,
        directory_id=replica.node.directory_id if replica is not None and is_told else None,
        free_bytes=vital_number(status, "freeBytes"),
        certificate_expires_ms=vital_number(status, "certificateExpiresMs"),
        fetch_problem=line_of(status.get("fetchProblem")),
        lost_records=line_of(status.get("lostRecords")),
        has_uncommitted_change=status.get("uncommittedVoterChange") is True,
        shared_id=shared_id_of(status),
        is_witness=status.get("isWitness") is True,
        restored=restored_of(status),
        state_machine_problem=line_of(status.get("stateMachineProblem")),
        voter_keys=voter_keys_of(status),
        dead_address=line_of(status.get("deadAddress")),
        registered_ids=registered_ids if replica is None else None,
        is_broker=is_broker,
        forwarding_problem=forwarding_problem,
        bootstrap=texts_of(status.get("bootstrapServers")),
        kraft_version=whole_of(status.get("kraftVersion")) if status else kraft_version,
        lacks_metadata=lacks_metadata,
        is_controller=status.get("isController") is True,
        as_initial=initial_voter_of(status),
        clock_offset_ms=_clock_offset_ms(whole_of(status.get("atMs"))),
        store_problem=line_of(status.get("storeProblem")),
    )
    brokers = () if metadata is None else tuple((broker.id, broker.endpoint) for broker in metadata.brokers)
    return Told(claim, description, brokers, status)


async def _of_kafkas(
    connection: Connection, metadata: MetadataResponse | None, *, lacks_metadata: bool, timeout_ms: int
) -> tuple[int | None, int | None]:
    """Epoch and kraft.version of a controller of Kafka's that names no leader: nothing else reports them."""
    if metadata is not None and metadata.controller_id >= 0:
        return None, None
    epoch = await known_epoch(connection, None if metadata is None else metadata.cluster_id, timeout_ms)
    return epoch, None if lacks_metadata else await finalized_kraft_version(connection, timeout_ms)


def _forwarding_problem(
    described: DescribeQuorumResponse | None, answer: NodeAnswer | None, timeout_ms: int
) -> str | None:
    """Why a broker, which passes the question on to the active controller, has no answer to it."""
    if described is None or answer is None:
        return f"no answer within {timeout_ms // 2} ms"
    if answer.description is not None or described.error is ErrorCode.cluster_authorization_failed:
        return None
    error = described.error if described.error is not ErrorCode.none else described.partition_error
    return answer.view.problem or f"answers {error.name}"


def _clock_offset_ms(told_ms: int | None) -> int | None:
    return None if told_ms is None else told_ms - round(trio.current_time() * 1000)


def _own_principal(network: Network) -> str:
    """Who this client is, as far as it knows."""
    login: Login | None = getattr(network, "login", None)
    return "this client" if login is None else f"User:{login.username}"


async def _if_served(
    connection: Connection, api: Api[RequestT, ResponseT], request: RequestT, timeout_ms: int
) -> ResponseT | None:
    try:
        return await ask(connection, api, request, timeout_ms)
    except UnsupportedVersionError:
        return None
