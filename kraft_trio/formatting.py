"""Formats a node's directory from Python, like `kraft storage format` (KIP-853)."""

from __future__ import annotations

import contextlib
import random
import time
from uuid import UUID

from kraft_trio.config import NodeConfig
from kraft_trio.errors import ConfigError
from kraft_trio.protocol.types import directory_id_from_text, directory_id_to_text
from kraft_trio.protocol.voter_set import SUPPORTED_KRAFT_VERSIONS, Voter, VoterSet
from kraft_trio.storage.directory import format_directory, random_directory_id
from kraft_trio.storage.real_disk import RealDisk


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
    try:
        directory_id_from_text(cluster_id)
    except ValueError as error:
        raise ConfigError(f"cluster_id: {error}") from error
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


def _random_directory_id() -> UUID:
    return random_directory_id(random.SystemRandom())
