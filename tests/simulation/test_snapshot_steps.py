"""Steps that are about snapshots, on whole clusters: what each does, and that what comes of it is what must."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation.cluster import Cluster, simulate
from kraft_trio.simulation.facts.snapshot_files import is_rotten, path_of, snapshots_of
from kraft_trio.simulation.script.catalog import parse_step
from kraft_trio.simulation.script.run import SNAPSHOTS_KEY
from kraft_trio.simulation.script.step import NotAsExpected
from kraft_trio.simulation.state_machine import RememberedValues
from kraft_trio.tracing.events import TraceEvent

SETTINGS = {
    "metadata.log.segment.bytes": "1024",
    SNAPSHOTS_KEY: "1000000",
    "metadata.max.retention.bytes": "0",
    "controller.quorum.fetch.snapshot.max.bytes": "200",
}
"""Snapshots are taken when a step says so."""


async def take(cluster: Cluster, *lines: str) -> None:
    for line in lines:
        await parse_step(line).take(cluster)


async def fill(cluster: Cluster, values: int = 12) -> None:
    """So much that there are segments before the last one."""
    leader = await cluster.wait_for_leader()
    for number in range(values):
        await leader.append([b"%d" % number * 100])
    await cluster.wait_until_alike()


def on_cluster(main: Callable[[Cluster], Awaitable[None]], **fields: object) -> None:
    simulate(main, settings=SETTINGS, state_machine=lambda _: RememberedValues(), **fields)


def ids_on(cluster: Cluster, node: int) -> list[OffsetAndEpoch]:
    replica = cluster.machines[node].replica
    assert replica is not None
    return list(snapshots_of(replica))


class TestTakeSnapshot:
    def test_it_is_there_and_the_log_is_trimmed(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1")
            await fill(cluster)
            await take(cluster, "take-snapshot 1 2")
            assert ids_on(cluster, 1) == ids_on(cluster, 2) != []
            assert ids_on(cluster, 3) == []
            assert cluster.nodes[1].log.log_start_offset > 0
            assert cluster.nodes[3].log.log_start_offset == 0

        on_cluster(main)

    def test_with_nowait_nothing_waits(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1")
            await fill(cluster)
            await take(cluster, "slow-disk 2 1s", "take-snapshot 2 nowait")
            assert ids_on(cluster, 2) == []
            await cluster.wait_until(lambda: ids_on(cluster, 2) != [])

        on_cluster(main)

    def test_who_does_not_run_takes_none(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1")
            await fill(cluster)
            await take(cluster, "kill 2", "pause 3", "take-snapshot 2 3")
            assert ids_on(cluster, 2) == ids_on(cluster, 3) == []

        on_cluster(main)

    def test_with_its_process_it_ends(self) -> None:
        """What a dead process had begun changes nothing of the disk that the next one has."""

        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1")
            await fill(cluster)
            await take(cluster, "slow-disk 2 1s", "take-snapshot 2 nowait", "wait 500ms", "kill 2")
            began_s = cluster.now_s
            await take(cluster, "start 2")
            assert cluster.now_s > began_s + 0.1, "until the fsync that was under way has ended"
            await take(cluster, "wait 3s")
            assert ids_on(cluster, 2) == []

        on_cluster(main)

    def test_without_a_state_machine_there_is_none_to_take(self) -> None:
        async def main(cluster: Cluster) -> None:
            with pytest.raises(NotAsExpected, match="take-snapshot: the nodes have no state machine; expected"):
                await take(cluster, "take-snapshot 1")

        simulate(main)


class TestFaults:
    @pytest.mark.parametrize("calls", range(1, 8))
    def test_a_crash_within_a_snapshot(self, calls: int) -> None:
        """Whatever call of it is the last, nothing is there or all of it; other calls are not counted."""

        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1", f"crash-in 2 {calls} of snapshot")
            await fill(cluster)
            assert cluster.machines[2].is_running, "the log's own calls are none of a snapshot's"
            await take(cluster, "take-snapshot 2", "wait 1s")
            assert not cluster.machines[2].is_running
            await take(cluster, "start 2")
            await cluster.wait_until_alike()
            assert len(ids_on(cluster, 2)) in ((0,) if calls < 4 else (0, 1))

        on_cluster(main)

    def test_a_crash_within_a_trim(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1", "crash-in 2 2 of trim")
            await fill(cluster)
            await take(cluster, "take-snapshot 2", "wait 1s")
            assert not cluster.machines[2].is_running
            assert len(ids_on(cluster, 2)) == 1
            await take(cluster, "start 2")
            await cluster.wait_until_alike()

        on_cluster(main)

    @pytest.mark.parametrize("failing", ["fail-sync", "fail-write"])
    def test_a_snapshot_that_cannot_be_written(self, failing: str) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1", f"{failing} 2 of snapshot")
            await fill(cluster)
            assert cluster.machines[2].is_running, "the log can be written"
            await take(cluster, "take-snapshot 2", "wait 1s")
            assert not cluster.machines[2].is_running
            assert ids_on(cluster, 2) == []

        on_cluster(main)

    def test_a_rotten_snapshot_is_found_at_the_next_start(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1")
            await fill(cluster)
            await take(cluster, "rot 2 snapshot")
            assert not cluster.machines[2].has_bad_disk, "there is none"
            await take(cluster, "take-snapshot 2", "rot 2 snapshot", "restart 2")
            assert cluster.machines[2].has_bad_disk
            failure = cluster.machines[2].failure
            assert failure is not None
            assert "checkpoint" in str(failure)

        on_cluster(main)

    def test_another_one_in_the_place_of_a_rotten_one_counts(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1")
            await fill(cluster)
            await take(cluster, "take-snapshot 2")
            snapshot_id, replica = ids_on(cluster, 2)[0], cluster.machines[2].replica
            assert replica is not None
            path = path_of(replica, snapshot_id)
            whole = cluster.machines[2].disk.peek(path) or b""
            await take(cluster, "kill 2", "rot 2 snapshot")
            assert is_rotten(replica, snapshot_id)
            cluster.machines[2].disk.is_attached = True
            cluster.machines[2].disk.replace_now(path, whole)
            assert not is_rotten(replica, snapshot_id)
            await take(cluster, "start 2")
            await cluster.wait_until_alike()

        on_cluster(main)

    @pytest.mark.parametrize("file", ["snapshot", "log", "quorum-state"])
    def test_damage_that_is_done_twice_is_not_undone(self, file: str) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1")
            await fill(cluster)
            await take(cluster, "take-snapshot 2", "kill 2", f"rot 2 {file}", f"rot 2 {file}", "start 2")
            assert cluster.machines[2].failure is not None

        on_cluster(main)


class TestStrikes:
    """Node 4 has missed what the others have trimmed by now, and is given a snapshot in several pieces."""

    @staticmethod
    async def lag(cluster: Cluster) -> None:
        await take(cluster, "elect 1", "kill 4")
        await fill(cluster)
        await take(cluster, "take-snapshot 1 2 3")

    def test_the_fetcher_in_the_middle(self) -> None:
        async def main(cluster: Cluster) -> None:
            await self.lag(cluster)
            await take(cluster, "start 4", "strike-fetcher kill")
            assert not cluster.machines[4].is_running
            assert ids_on(cluster, 4) == []
            assert any(
                name.endswith(".part") for name in cluster.machines[4].disk.peek_names("/data/__cluster_metadata-0")
            )
            await take(cluster, "start 4")
            await cluster.wait_until_alike()
            assert ids_on(cluster, 4) == ids_on(cluster, 1)

        on_cluster(main, observers=1)

    def test_the_leader_in_the_middle(self) -> None:
        """The next leader has the same snapshot, so the download continues where it was."""
        begun_at: list[int] = []

        def look(event: TraceEvent) -> None:
            if event.kind == "log" and event.cause == "fetching a snapshot":
                begun_at.append(event.details["position"])

        async def main(cluster: Cluster) -> None:
            await self.lag(cluster)
            cluster.trace.listeners.append(look)
            await take(cluster, "start 4", "strike-leader kill mid-download")
            assert not cluster.machines[1].is_running
            assert ids_on(cluster, 4) == []
            await cluster.wait_until_alike(2, 3, 4)
            assert ids_on(cluster, 4) == ids_on(cluster, 2)
            assert begun_at[0] == 0
            assert begun_at[-1] > 0

        on_cluster(main, observers=1)

    @pytest.mark.parametrize("step", ["strike-fetcher kill", "strike-leader kill mid-download"])
    def test_nobody_where_nothing_is_fetched(self, step: str) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1")
            began_s = cluster.now_s
            await take(cluster, step)
            assert cluster.now_s == pytest.approx(began_s + 3)
            assert list(cluster.nodes) == [1, 2, 3]
            assert cluster.message_listeners == []

        on_cluster(main)


def test_every_loaded_snapshot_is_compared_with_the_commits() -> None:
    """A state machine that forgets a value when it saves its state: its own node then loads what nobody committed."""

    class Forgetful(RememberedValues):
        def save(self) -> list[object]:  # type: ignore[override]
            return list(super().save())[1:]

    async def main(cluster: Cluster) -> None:
        await take(cluster, "elect 1")
        await fill(cluster)
        await take(cluster, "take-snapshot 2", "restart 2")
        await trio.sleep(1)

    with pytest.raises(AssertionError, match=r"invariant 19 .* gives the state machine of 2-"):
        simulate(main, settings=SETTINGS, state_machine=lambda _: Forgetful())
