"""Moments for which a step waits, so that it strikes in the middle of something: a voter change, a download."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from kraft_trio.simulation.network.message import Message
from kraft_trio.wire.apis.fetch_snapshot import FETCH_SNAPSHOT, FetchSnapshotResponse

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.tracing.events import TraceEvent

CHANGED_WITHIN_S: Final = 1.0
"""How long a step waits for a leader to append a set of voters."""

FETCHED_WITHIN_S: Final = 3.0
"""How long a step waits for a piece of a snapshot."""


async def leader_appends_voters(cluster: Cluster) -> bool:
    """Whether a leader takes up a new set of voters in time; returns in the moment when it has."""
    has_appended = trio.Event()

    def look(event: TraceEvent) -> None:
        if event.kind == "voters" and event.role == "Leader":
            has_appended.set()

    cluster.trace.listeners.append(look)
    try:
        with trio.move_on_after(CHANGED_WITHIN_S):
            await has_appended.wait()
    finally:
        cluster.trace.listeners.remove(look)
    return has_appended.is_set()


async def piece_arrives(cluster: Cluster) -> int | None:
    """The node that has just been given a piece of a snapshot, and not the last one; None where none is in time."""
    fetchers: list[int] = []
    has_come = trio.Event()

    def look(message: Message) -> None:
        if message.delivered and message.api_key == FETCH_SNAPSHOT.key and not message.is_request:
            response = message.value
            fetcher = cluster.facts.replica_at(message.target)
            if fetcher is not None and isinstance(response, FetchSnapshotResponse) and _is_not_the_last(response):
                fetchers.append(fetcher.key.id)
                has_come.set()

    cluster.message_listeners.append(look)
    try:
        with trio.move_on_after(FETCHED_WITHIN_S):
            await has_come.wait()
    finally:
        cluster.message_listeners.remove(look)
    return fetchers[0] if fetchers else None


def _is_not_the_last(response: FetchSnapshotResponse) -> bool:
    return 0 < response.position + len(response.unaligned_records) < response.size
