"""What one task of an epoch needs, for tests of a single actor, over the disk of a node that does not run."""

from __future__ import annotations

import random
from collections.abc import Iterable

import attrs
import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.context.fetch_problem import FetchProblem
from kraft_trio.actors.context.kafka_replicas import KafkaReplicas
from kraft_trio.actors.context.lost_records import LostRecords
from kraft_trio.actors.context.other_disks import OtherDisks
from kraft_trio.actors.context.request_failures import RequestFailures
from kraft_trio.actors.context.restored_voters import RestoredVoters
from kraft_trio.actors.peers.bootstrap_servers import BootstrapServers
from kraft_trio.actors.peers.kafka_controllers import KafkaControllers
from kraft_trio.actors.peers.network_client import NetworkClient
from kraft_trio.actors.peers.own_address import OwnAddress
from kraft_trio.actors.peers.voter_addresses import VoterAddresses
from kraft_trio.actors.snapshots.snapshot_fetch import SnapshotFetch
from kraft_trio.limits.refusals import Refusals
from kraft_trio.messages import ElectionMessage, Stamp
from kraft_trio.protocol.types import Endpoints, VersionRange
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import LISTENER
from kraft_trio.storage.directory.removal_marker import RemovalMarker
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.log.log_appender import LogConfig


@attrs.define
class LoneEpoch:
    """An EpochContext with nobody around it."""

    context: EpochContext
    told: list[ElectionMessage]
    """What the actor has told Election."""
    failed: list[Exception]
    """What requests have met."""


def lone_epoch(cluster: Cluster, node_id: int, stamp: Stamp, log_config: LogConfig | None = None) -> LoneEpoch:
    """Over that node's own log, just formatted; nothing leaves its network client, which does not run."""
    machine, config = cluster.machines[node_id], cluster.config_of(node_id)
    log = Log.open(
        machine.disk,
        machine.partition_path,
        topic_id=config.topic_id,
        static_voters=config.static_voter_set(),
        config=log_config or LogConfig(),
        now_ms=lambda: 0,
    )
    told: list[ElectionMessage] = []
    failed: list[Exception] = []

    async def tell_election(message: ElectionMessage) -> None:
        told.append(message)

    network = cluster.network.seen_from(machine.host)
    client = NetworkClient(network, "test", random.Random(0), 1024 * 1024)
    context = EpochContext(
        stamp=stamp,
        key=cluster.key_of(node_id),
        cluster_id=cluster.cluster_id,
        config=config,
        log=log,
        snapshot_fetch=SnapshotFetch(machine.disk, log),
        fetch_problem=FetchProblem(),
        restored=RestoredVoters(lambda: 0),
        lost_records=LostRecords(),
        own_address=OwnAddress(network, network, config),
        other_disks=OtherDisks(),
        removal=RemovalMarker(machine.disk, machine.partition_path, cluster.key_of(node_id)),
        client=client,
        addresses=VoterAddresses(client, LISTENER),
        bootstrap=BootstrapServers(network, config),
        random=random.Random(0),
        secret_bits=random.Random(0).getrandbits,
        wall_clock_ms=lambda: 0,
        clock_s=trio.current_time,
        tell_election=tell_election,
        failures=RequestFailures(failed.append),
        refusals=Refusals(),
        kafka=KafkaReplicas(config),
        controllers=KafkaControllers(config.topic_name),
    )
    return LoneEpoch(context, told, failed)


def voters_of(cluster: Cluster, node_ids: Iterable[int]) -> VoterSet:
    """The set of these nodes, with directory ids and endpoints."""
    return VoterSet(
        Voter(cluster.key_of(id), Endpoints({LISTENER: cluster.endpoint_of(id)}), VersionRange(0, 1)) for id in node_ids
    )
