"""A replica's Fetch and FetchSnapshot requests, and what their responses say about the leader."""

from __future__ import annotations

from typing import Final

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.config import NodeConfig
from kraft_trio.messages import LeaderHeardOf
from kraft_trio.protocol.check_quorum import SIGN_OF_LIFE_BYTES
from kraft_trio.protocol.read_barrier import NO_ROUND
from kraft_trio.protocol.read_lease import promised_wait_ms
from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_history import VoterHistory
from kraft_trio.protocol.voter_set import SUPPORTED_KRAFT_VERSIONS
from kraft_trio.wire.apis.fetch import FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

NO_LISTENERS: Final = Endpoints()


def voters_to_ask(config: NodeConfig, history: VoterHistory, key: ReplicaKey) -> list[Endpoint]:
    """The endpoints of the other voters, as far as this node may ask there who leads.

    They are those of the newest set.  If that comes from `controller.quorum.voters` and there are bootstrap servers, an
    observer does not use it (KIP-853, "controller.quorum.bootstrap.servers").
    """
    voters, listener = history.voters, config.controller_listener_name
    if history.voters_offset is None and config.quorum_bootstrap_servers and not voters.is_voter(key):
        return []
    endpoints = (voter.endpoints.get(listener) for voter in voters if voter.id != key.id)
    return [endpoint for endpoint in endpoints if endpoint is not None]


def discovery_endpoints(config: NodeConfig, history: VoterHistory, key: ReplicaKey) -> list[Endpoint]:
    """The endpoints at which to ask for the leader, without this node's own.

    They are the configured bootstrap servers, or else the configured voters (KIP-853), and those of `voters_to_ask`.
    """
    own = {endpoint for _, endpoint in config.advertised_endpoints()}
    of_voters = voters_to_ask(config, history, key)
    configured = config.quorum_bootstrap_servers or [voter.endpoint for voter in config.quorum_voters]
    candidates = [*configured, *of_voters]
    return [endpoint for endpoint in dict.fromkeys(candidates) if endpoint not in own]


def leader_in_fetch_response(
    response: FetchResponse, partition: FetchPartitionResponse, listener_name: str
) -> LeaderHeardOf:
    """The leader's epoch, id and perhaps endpoint, as a Fetch response names them."""
    endpoint = next((endpoint for id, endpoint in response.node_endpoints if id == partition.leader_id), None)
    return LeaderHeardOf.of_response(partition.leader_epoch, partition.leader_id, endpoint, listener_name)


def leader_in_snapshot_response(response: FetchSnapshotResponse, listener_name: str) -> LeaderHeardOf:
    """The leader's epoch, id and perhaps endpoint, as a FetchSnapshot response names them."""
    return LeaderHeardOf.of_response(response.leader_epoch, response.leader_id, response.leader_endpoint, listener_name)


def replica_fetch_request(context: EpochContext, *, max_wait_ms: int, read_round: int = NO_ROUND) -> FetchRequest:
    """A Fetch from the end of this replica's log.  The whole log must be synced, because the position promises it."""
    log, config, key = context.log, context.config, context.key
    assert log.end_offset == log.synced_end_offset, "a Fetch position must be durable"
    end, high_watermark = log.end, log.high_watermark
    is_voter = log.voters.voters.is_voter(key)
    # Arguments by position, because each commit makes these two on every follower.
    partition = FetchPartition(
        config.topic_name,
        config.topic_id,
        0,  # partition
        end.offset,
        config.fetch_max_bytes,
        context.epoch,
        end.epoch,
        -1,  # log_start_offset
        key.directory_id,
        -1 if high_watermark is None else high_watermark,
    )
    return FetchRequest(
        context.cluster_id,
        key.id,
        max_wait_ms,
        0,  # min_bytes
        config.fetch_max_bytes,
        partitions=(partition,),
        kraft_versions=None if is_voter else SUPPORTED_KRAFT_VERSIONS,
        listeners=NO_LISTENERS if is_voter else _own_listeners(config),
        read_round=read_round,
        read_lease_wait_ms=promised_wait_ms(config.election_timeout_ms) if read_round and config.has_read_leases else 0,
    )


def _own_listeners(config: NodeConfig) -> Endpoints:
    """The listeners of this replica if it became a voter.  Empty for a broker, which cannot become one."""
    return config.advertised_endpoints() if "controller" in config.process_roles else Endpoints()


def fetch_snapshot_request(context: EpochContext, snapshot_id: OffsetAndEpoch) -> FetchSnapshotRequest:
    """A FetchSnapshot for the first piece of that snapshot."""
    return FetchSnapshotRequest(
        cluster_id=context.cluster_id,
        replica_id=context.key.id,
        max_bytes=max(context.config.fetch_snapshot_max_bytes, SIGN_OF_LIFE_BYTES + 1),
        topic=context.config.topic_name,
        partition=0,
        current_leader_epoch=context.epoch,
        snapshot_id=snapshot_id,
        position=0,
        replica_directory_id=context.key.directory_id,
    )
