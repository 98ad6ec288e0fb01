"""Formats a node's directory from Python, like `kraft storage format` (KIP-853)."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Mapping
from uuid import UUID

import trio

from kraft_trio.client.known_voter import refuse_known_voter
from kraft_trio.config import NodeConfig, check_is_config
from kraft_trio.config.key import MAX_INT32
from kraft_trio.config.values import parse_peer
from kraft_trio.errors import ConfigError, StorageError
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey, directory_id_from_text, directory_id_to_text
from kraft_trio.protocol.voter_set import SUPPORTED_KRAFT_VERSIONS, Voter, VoterSet
from kraft_trio.security.client_network import peer_network
from kraft_trio.storage.directory.directory import (
    format_directory,
    random_directory_id,
    read_meta_properties,
    refuse_other_topic,
)
from kraft_trio.storage.disk.real_disk import RealDisk


def random_uuid() -> str:
    """Return a random UUID in Kafka's text form, for a cluster id or a directory id."""
    return directory_id_to_text(_random_directory_id())


def first_voter(config: NodeConfig, directory_id: UUID | None = None) -> Voter:
    """Return a node as one of a new quorum's first voters; its directory id is random by default."""
    return config.as_voter(_random_directory_id() if directory_id is None else directory_id)


def format_node(config: NodeConfig, cluster_id: str, voters: VoterSet | None = None) -> None:
    """Format a node's directory.  Blocks while the device syncs.

    With `voters`, the node is one of a new quorum's first voters at kraft.version 1; `cluster_id` and `voters` must be
    the same on all of them.  Without `voters`, the node gets a new directory id, and learns the voters from an existing
    quorum or from `controller.quorum.voters`, like `kraft storage format --no-initial-controllers`.

    Raises ConfigError if the node is not among `voters` or `cluster_id` is not a UUID, and StorageError if the
    directory is already formatted or cannot be written.  Nothing has changed then.
    """
    check_is_config(config)
    _check_cluster_id(cluster_id)
    if voters is None:
        directory_id = _random_directory_id()
    else:
        own = voters.get(config.node_id)
        if own is None:
            raise ConfigError(f"voters: {', '.join(map(str, voters.ids)) or 'none'}, but not node.id={config.node_id}")
        directory_id = own.key.directory_id
    with contextlib.closing(RealDisk()) as disk:
        format_directory(
            disk,
            config.metadata_log_dir,
            cluster_id=cluster_id,
            node_id=config.node_id,
            directory_id=directory_id,
            topic_name=config.topic_name,
            voters=voters,
            kraft_version=SUPPORTED_KRAFT_VERSIONS.maximum,
            timestamp_ms=time.time_ns() // 1_000_000,
        )


async def ensure_formatted(
    config: NodeConfig, cluster_id: str, first_voters: Mapping[int, Endpoint | str] | None = None
) -> bool:
    """Format a node's directory unless it is formatted already.  Returns whether it was formatted now.

    Every node may call this at each start.  `first_voters` names the controllers of a new quorum by their ids, each
    with the address of its controller listener; give all nodes the same ones.  The directory ids of first voters follow
    from the cluster id and the node ids, so the nodes need not exchange them.  A node that is not among `first_voters`,
    and each node without them, is formatted as one that joins.

    A first voter asks the others before it is formatted, because a voter that comes back with a blank disk may have
    lost what it has acknowledged.  Raises

    - ConfigError for a cluster id that is no UUID, for `first_voters` that are empty, have a node id below 0, or give
      this node another address than its configuration, or for static voters with another port of this node,
    - TypeError for an argument of another type, such as a node id that is text,
    - StorageError if the directory belongs to another node, cluster or topic, if the others know this voter already, or
      if the directory cannot be written.
    """
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError(
            "ensure_formatted: called outside trio.run; expected that of kraft_trio.aio or kraft_trio.sync"
        )
    check_is_config(config)
    _check_cluster_id(cluster_id)
    voters = None if first_voters is None else _first_voters(config, cluster_id, first_voters)
    own = None if voters is None else voters.get(config.node_id)
    if own is not None:
        _check_own_address(config, own)
    _check_static_address(config)
    if await trio.to_thread.run_sync(_is_formatted, config, cluster_id):
        return False
    if voters is not None and own is not None:
        listener = config.controller_listener_name
        others = [voter.endpoints.get(listener) for voter in voters if voter.id != config.node_id]
        endpoints = [endpoint for endpoint in others if endpoint is not None]
        await refuse_known_voter(endpoints, cluster_id, own.key, peer_network(config))
    await trio.to_thread.run_sync(format_node, config, cluster_id, voters if own is not None else None)
    return True


def _first_voters(config: NodeConfig, cluster_id: str, given: Mapping[int, Endpoint | str]) -> VoterSet:
    if not isinstance(given, Mapping):
        raise TypeError(f"first_voters: {type(given).__name__}, expected a mapping from node ids to addresses")
    for node_id, address in given.items():
        # Text never equals the id of this node, which would be formatted as one that joins.
        if not isinstance(node_id, int) or isinstance(node_id, bool):
            raise TypeError(f"first_voters: node id {node_id!r}, expected an int")
        if not 0 <= node_id <= MAX_INT32:
            raise ConfigError(f"first_voters: node id {node_id}, expected a whole number from 0 to {MAX_INT32}")
        if not isinstance(address, str | Endpoint):
            raise TypeError(f"first_voters: node {node_id} at {address!r}, expected text or an Endpoint")
    if not given:
        raise ConfigError("first_voters: empty, expected one voter or more, or None for a node that joins")
    try:
        endpoints = {
            node_id: parse_peer(endpoint) if isinstance(endpoint, str) else endpoint
            for node_id, endpoint in given.items()
        }
    except ValueError as error:
        raise ConfigError(f"first_voters: {error}") from error
    return VoterSet(
        Voter(
            ReplicaKey(node_id, _first_directory_id(cluster_id, node_id)),
            Endpoints({config.controller_listener_name: endpoint}),
            SUPPORTED_KRAFT_VERSIONS,
        )
        for node_id, endpoint in endpoints.items()
    )


def _check_own_address(config: NodeConfig, own: Voter) -> None:
    listener = config.controller_listener_name
    given, configured = own.endpoints.get(listener), config.advertised_endpoint(listener)
    if given != configured:
        raise ConfigError(f"first_voters: node {own.id} at {given}, but it announces {listener}://{configured}")


def _check_static_address(config: NodeConfig) -> None:
    """Two names may be of one host, but nobody listens on another port."""
    listener = config.controller_listener_name
    configured = config.advertised_endpoint(listener)
    for voter in config.quorum_voters:
        if voter.id == config.node_id and configured is not None and voter.endpoint.port != configured.port:
            raise ConfigError(
                f"controller.quorum.voters: node {voter.id} at {voter.endpoint}, but it announces {listener}://{configured}"
            )


def _is_formatted(config: NodeConfig, cluster_id: str) -> bool:
    """Raises StorageError if it is formatted for something else."""
    directory = config.metadata_log_dir
    with contextlib.closing(RealDisk()) as disk:
        found = read_meta_properties(disk, directory, config.node_id)
        if found is None:
            return False
        if found.node_id != config.node_id:
            raise StorageError(f"{directory}: formatted for node {found.node_id}, not for node.id={config.node_id}")
        if found.cluster_id != cluster_id:
            raise StorageError(f"{directory}: formatted for cluster {found.cluster_id}, not for {cluster_id}")
        refuse_other_topic(disk, directory, config.topic_name)
        return True


def _check_cluster_id(cluster_id: str) -> None:
    if not isinstance(cluster_id, str):
        raise TypeError(f"cluster_id: {cluster_id!r}, expected text, as random_uuid returns it")
    try:
        directory_id_from_text(cluster_id)
    except ValueError as error:
        raise ConfigError(f"cluster_id: {error}") from error


def _first_directory_id(cluster_id: str, node_id: int) -> UUID:
    return random_directory_id(random.Random(f"{cluster_id}/{node_id}"))


def _random_directory_id() -> UUID:
    return random_directory_id(random.SystemRandom())
