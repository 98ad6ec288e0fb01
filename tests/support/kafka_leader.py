"""Lets a simulated node answer a client as a controller of Kafka would."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from kraft_trio.client import snapshot_saver
from kraft_trio.client.leader_connection import LeaderConnection
from kraft_trio.node import Node
from kraft_trio.wire.apis.fetch import FetchPartitionResponse


def as_kafka(monkeypatch: pytest.MonkeyPatch, node: Node) -> None:
    """A leader of Kafka's offers its newest snapshot to a reader that has nothing; ours offer it to replicas alone."""
    fetch = LeaderConnection.fetch

    async def offering(leader: LeaderConnection, offset: int, **more: Any) -> FetchPartitionResponse:
        answer = await fetch(leader, offset, **more)
        if (offset, more["last_fetched_epoch"]) == (0, 0) and (newest := node.log.snapshots.newest) is not None:
            return attrs.evolve(answer, snapshot_id=newest, records=b"")
        return answer

    monkeypatch.setattr(LeaderConnection, "fetch", offering)
    monkeypatch.setattr(snapshot_saver, "_is_kafkas", lambda _leader: True)
