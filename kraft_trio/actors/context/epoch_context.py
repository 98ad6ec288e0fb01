"""What actors share: the identity, configuration, log and connections of their node, and the epoch they belong to."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import attrs

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
from kraft_trio.config import NodeConfig
from kraft_trio.limits.refusals import Refusals
from kraft_trio.messages import ElectionMessage, LeaderHeardOf, Stamp
from kraft_trio.protocol.types import Endpoint, ReplicaKey
from kraft_trio.protocol.waits import retry_backoff_ms
from kraft_trio.storage.directory.removal_marker import RemovalMarker
from kraft_trio.storage.log.log import Log

TellElection: TypeAlias = Callable[[ElectionMessage], Awaitable[None]]


@attrs.frozen
class NodeContext:
    """What the actors of one node share; NodeTree makes it."""

    key: ReplicaKey
    cluster_id: str
    config: NodeConfig
    log: Log
    snapshot_fetch: SnapshotFetch
    removal: RemovalMarker
    client: NetworkClient
    addresses: VoterAddresses
    bootstrap: BootstrapServers
    random: random.Random
    secret_bits: Callable[[int], int]
    """Returns that many unpredictable bits."""
    wall_clock_ms: Callable[[], int]
    clock_s: Callable[[], float]
    """See `Environment.clock_s`."""
    failures: RequestFailures
    refusals: Refusals
    kafka: KafkaReplicas
    controllers: KafkaControllers
    fetch_problem: FetchProblem
    restored: RestoredVoters
    lost_records: LostRecords
    own_address: OwnAddress
    other_disks: OtherDisks

    def for_stay(self, stamp: Stamp, tell_election: TellElection) -> EpochContext:
        """The context of the tasks that run during one stay in a role."""
        shared = {field.name: getattr(self, field.name) for field in attrs.fields(NodeContext)}
        return EpochContext(**shared, stamp=stamp, tell_election=tell_election)

    def kafkas_controllers(self) -> list[int]:
        """The ids of the other voters that are known to be controllers of Apache Kafka."""
        return self.controllers.among(self.log.voters.voters, self.key, self.config.controller_listener_name)

    def retry_backoff_s(self) -> float:
        """How long to wait before a failed request is repeated: between one and two backoffs, at random."""
        config = self.config
        least_ms = retry_backoff_ms(config.retry_backoff_ms, config.fetch_timeout_ms, config.election_timeout_ms)
        return least_ms * self.random.uniform(1.0, 2.0) / 1000


@attrs.frozen
class EpochContext(NodeContext):
    """What the tasks of one stay in a role share; Election makes it, and its holders end with the epoch nursery."""

    stamp: Stamp
    tell_election: TellElection

    async def tell_of_leader(self, epoch: int, leader_id: int, endpoint: Endpoint | None) -> None:
        """Tell Election which epoch and leader a response names."""
        listener_name = self.config.controller_listener_name
        await self.tell_election(LeaderHeardOf.of_response(epoch, leader_id, endpoint, listener_name))

    @property
    def epoch(self) -> int:
        return self.stamp.epoch
