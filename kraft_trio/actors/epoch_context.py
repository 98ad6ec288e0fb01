"""What every task of an epoch is given: who and where it is, and how it talks to others."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import attrs

from kraft_trio.actors.network_client import NetworkClient
from kraft_trio.actors.request_failures import RequestFailures
from kraft_trio.actors.snapshot_fetch import SnapshotFetch
from kraft_trio.config import NodeConfig
from kraft_trio.messages import ElectionMessage, Stamp
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.waits import retry_backoff_ms
from kraft_trio.storage.log import Log
from kraft_trio.storage.removal_marker import RemovalMarker


@attrs.frozen
class EpochContext:
    """Made by Election for one stay in one role; whoever holds it ends with the epoch nursery."""

    stamp: Stamp
    key: ReplicaKey
    cluster_id: str
    config: NodeConfig
    log: Log
    snapshot_fetch: SnapshotFetch
    removal: RemovalMarker
    client: NetworkClient
    random: random.Random
    secret_bits: Callable[[int], int]
    wall_clock_ms: Callable[[], int]
    tell_election: Callable[[ElectionMessage], Awaitable[None]]
    failures: RequestFailures

    @property
    def epoch(self) -> int:
        return self.stamp.epoch

    def retry_backoff_s(self) -> float:
        """How long to wait before a failed request is tried again: up to doubled at random."""
        config = self.config
        least_ms = retry_backoff_ms(config.retry_backoff_ms, config.fetch_timeout_ms, config.election_timeout_ms)
        return least_ms * self.random.uniform(1.0, 2.0) / 1000
