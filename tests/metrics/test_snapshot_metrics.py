"""What a node says of its snapshots, and of what they make of its log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from kraft_trio.simulation import Cluster, Setup
from kraft_trio.simulation.state_machine import RememberedValues
from tests.support.on_cluster import on_cluster, run_on_cluster


def with_machines(test: Callable[[Cluster], Awaitable[None]], **fields: Any) -> None:
    settings = {
        "metadata.log.max.snapshot.interval.ms": "0",
        "metadata.log.max.record.bytes.between.snapshots": str(2**40),
        "metadata.log.segment.bytes": "1024",
        "metadata.max.retention.bytes": "0",
        "controller.quorum.fetch.snapshot.max.bytes": "300",
    }
    run_on_cluster(test, Setup(state_machine=lambda _: RememberedValues(), settings=settings, **fields))


def test_snapshots_and_what_they_make_of_the_log() -> None:
    async def test(cluster: Cluster) -> None:
        node = await cluster.wait_for_leader()
        assert node.metrics.values()["number-of-snapshots"] == 0
        assert node.metrics.values()["latest-snapshot-generated-bytes"] == 0
        await trio.sleep(5)
        assert node.metrics.values()["latest-snapshot-generated-age-ms"] == pytest.approx(5000, abs=50)
        for number in range(40):
            await node.append([b"%050d" % number])
        before = node.metrics.values()
        assert (before["log-start-offset"], before["number-of-log-trims"]) == (0, 0)
        assert before["log-size-bytes"] == node.log.size_in_bytes
        snapshot_id = await node.take_snapshot()
        await trio.sleep(2)
        values = node.metrics.values()
        assert values["number-of-snapshots"] == 1
        assert snapshot_id is not None
        assert values["latest-snapshot-generated-bytes"] == node.log.snapshots.file(snapshot_id).size_in_bytes
        assert values["latest-snapshot-generated-age-ms"] == pytest.approx(2000, abs=50)
        assert values["log-start-offset"] == node.log.log_start_offset > 0
        assert values["number-of-log-trims"] >= 1
        assert values["log-size-bytes"] == node.log.size_in_bytes < before["log-size-bytes"]

    with_machines(test, voters=1)


def test_a_snapshot_on_its_way_is_seen_coming() -> None:
    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        late = next(machine for machine in cluster.machines.values() if machine.id != leader.key.id)
        late.kill()
        for number in range(60):
            await leader.append([b"%050d" % number])
        assert await leader.take_snapshot() is not None
        assert leader.log.log_start_offset > 0
        await late.start()
        node = cluster.nodes[late.id]
        seen: list[float | str] = []

        async def look() -> None:
            while True:
                ratio = node.metrics.values().get("snapshot-download-ratio")
                if ratio is not None:
                    seen.append(ratio)
                await trio.sleep(0.0005)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            await cluster.wait_until(lambda: node.log.snapshots.newest is not None)
            nursery.cancel_scope.cancel()
        assert seen == sorted(seen)
        assert len(set(seen)) > 3
        assert all(isinstance(ratio, float) and 0 < ratio <= 1 for ratio in seen)
        assert "snapshot-download-ratio" not in node.metrics.values()

    with_machines(test, voters=3)


@on_cluster(voters=1)
async def test_a_node_without_a_state_machine_takes_none(cluster: Cluster) -> None:
    node = await cluster.wait_for_leader()
    values = node.metrics.values()
    assert "latest-snapshot-generated-age-ms" not in values
    assert values["latest-snapshot-generated-bytes"] == values["number-of-snapshots"] == 0
