"""The invariant of reads behind a barrier fires: 25."""

from __future__ import annotations

from collections.abc import Iterator

from kraft_trio.simulation.facts.history import BARRIER_READ, Operation
from tests.simulation.fabricated_cluster import FabricatedCluster
from tests.simulation.invariant_stories import Stories
from tests.simulation.test_invariants_log import start_epoch

STORIES = Stories()


def reading_behind_barrier(cluster: FabricatedCluster, node_id: int) -> Operation:
    return cluster.history.invoke(BARRIER_READ, client="b", via=node_id, from_offset=0, is_linearizable=True)


def committed(cluster: FabricatedCluster, *values: bytes) -> None:
    """Node 1 leads; the values are committed from offset 1 on, and nobody was told."""
    epoch = start_epoch(cluster)
    for value in values:
        cluster.history.invoke("append", client="a", values=[value])
        cluster.append(1, epoch, value)
        cluster.commit_everywhere(1, [2, 3])


@STORIES.of(25)
def a_read_index_below_what_was_committed_before(cluster: FabricatedCluster) -> Iterator[None]:
    committed(cluster, b"value")
    operation = reading_behind_barrier(cluster, 1)
    yield
    cluster.history.succeed(operation, values=(), end_offset=1)


@STORIES.of(25)
def a_barrier_that_returns_before_the_records_are_applied(cluster: FabricatedCluster) -> Iterator[None]:
    committed(cluster, b"value", b"other")
    cluster.apply(1, (1, b"value"))
    operation = reading_behind_barrier(cluster, 1)
    yield
    cluster.history.succeed(operation, offsets=[1, 2], values=[b"value", b"other"], end_offset=3)
