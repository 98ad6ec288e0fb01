"""What recovery demands after the faults of a plan, and what it excuses."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kraft_trio.errors import DiskFullError
from kraft_trio.node import Node
from kraft_trio.protocol import votes
from kraft_trio.simulation.campaign.outcome import Outcome
from kraft_trio.simulation.campaign.seed_run import run_plan
from kraft_trio.simulation.cluster import Cluster, simulate
from kraft_trio.simulation.facts.history import Outcome as RequestOutcome
from kraft_trio.simulation.faults.plan import Plan, TimedStep
from kraft_trio.simulation.script.header import Header
from kraft_trio.simulation.script.recovery import demands, recover
from kraft_trio.simulation.script.recovery.changes import CHANGES, demand_made
from kraft_trio.simulation.script.recovery.demands import PROGRESS, Demands
from kraft_trio.simulation.script.recovery.leaders import keeps_leading, lasting_leader
from kraft_trio.simulation.script.run import run_script
from kraft_trio.simulation.script.script import parse_script
from kraft_trio.simulation.script.steps import disk, election, network, process
from kraft_trio.simulation.setup import Setup
from kraft_trio.simulation.violation import InvariantViolated
from kraft_trio.storage.log.log import Log
from kraft_trio.tracing.events import TraceEvent
from tests.storage.support import batch

SECOND = 1_000_000


class TestRecovery:
    """Demands of the liveness list, each unmet where a rule is broken, and met where none is."""

    def test_from_everything_at_once(self) -> None:
        faults = (
            TimedStep(2 * SECOND, process.pause((1, 2))),
            TimedStep(2 * SECOND, process.kill((3,))),
            TimedStep(2 * SECOND, network.cut(((1, 4), (2, 3, 5)), silent=True)),
        )
        plan = Plan(header=Header(seed=1, voters=(1, 2, 3, 4, 5)), duration_us=8 * SECOND, faults=faults)
        assert run_plan(plan).failure is None

    def test_a_moved_node_listens_there_before_it_is_added(self) -> None:
        """Seed 51017: the plan ended between the move and the restart."""
        script = "seed 1\nvoters 1\nobservers 2 3\n\nfair\nclients 1 every 500ms\nat 2s\nmove 3\nat 2100ms\nrecover\n"
        assert run_script(parse_script(script)).failure is None

    def test_moved_voters_are_of_a_build_that_gossips(self) -> None:
        """Seed 228: some passed for a build without pre-votes, which could not have told where they were."""
        moved = "older 1 2\nkill 1 2 3\nmove 1\nmove 2\nmove 3\nstart 1 2 3"
        script = f"seed 1\nvoters 1 2 3\n\nfair\nclients 1 every 500ms\nat 2s\n{moved}\nat 3s\nrecover\n"
        assert run_script(parse_script(script)).failure is None

    def test_a_lost_disk_is_not_made_a_voter_by_its_id(self) -> None:
        """The leader of seed 40065 added the replica that it knew, of the disk that had just been lost."""
        lost = "blank-disk 2\nat 2100ms\nreassign 1 2 nowait\nat 2200ms\nstart 2"
        script = f"seed 1\nvoters 1\nobservers 2 3\n\nfair\nclients 1 every 500ms\nat 2s\n{lost}\nat 3s\nrecover\n"
        assert run_script(parse_script(script)).failure is None

    def test_nobody_makes_a_broker_a_voter(self) -> None:
        """Seeds 941003 and 941025: an observer of static voters is a broker, which the leader refuses."""
        for seed in (1, 2, 3):  # Each chooses another node to add.
            script = f"seed {seed}\nvoters 1\nobservers 2 3\nkraft-version 0\n\nfair\nat 1s\nupgrade\nat 2s\nrecover\n"
            assert run_script(parse_script(script)).failure is None

    def test_a_majority_that_elects_nobody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        refused = votes.VoteDecision(False, "no")
        monkeypatch.setattr("kraft_trio.actors.election.role_changes.decide_vote", lambda *_: refused)
        assert_no_progress(run_plan(Plan(header=Header(seed=1), clients=1, duration_us=SECOND)), "without faults since")

    def test_a_leader_that_does_not_stay(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kraft_trio.actors.replication.leader_replication.has_majority_contact", lambda *_: False)
        plan = Plan(header=Header(seed=1), clients=1, duration_us=SECOND)
        assert_no_progress(run_plan(plan), "led epoch", "leads")

    def test_leaders_that_are_removed_again_and_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def is_removed(*_: Any) -> bool:
            return False

        monkeypatch.setattr(recover, "keeps_leading", is_removed)
        plan = Plan(header=Header(seed=1), clients=1, duration_us=SECOND)
        assert_no_progress(run_plan(plan), "no more changes have been asked for", "10 leaders, one after the other")

    @pytest.mark.parametrize("is_removed", [True, False])
    def test_a_voter_may_be_removed_by_its_replica_meanwhile(self, is_removed: bool) -> None:
        """Seed 93391: node 2 had a blank disk and joined by itself, which removes the voter that it was."""

        async def main(cluster: Cluster) -> None:
            await elected(cluster)
            request = cluster.administrator.remove_voter(3, at=None, within_s=5)
            await request.ended.wait()
            request.operation.outcome = RequestOutcome.FAIL
            if not is_removed:
                request.operation.voter = cluster.nodes[2].key
            await demand_made(Demands(cluster), request)

        if is_removed:
            simulate(main)
        else:
            with pytest.raises(InvariantViolated, match=CHANGES):
                simulate(main)

    def test_a_leader_may_hand_over_as_asked_before(self) -> None:
        """Seed 60037: the request was still pending when the faults stopped."""

        async def main(cluster: Cluster) -> None:
            leader = await elected(cluster)
            cluster.administrator.transfer(2, at=None, within_s=5)
            assert not await keeps_leading(Demands(cluster), leader, 5)
            assert await keeps_leading(Demands(cluster), await cluster.wait_for_leader(), 5)

        simulate(main)

    @pytest.mark.parametrize("asked", [None, 3])
    def test_a_leader_may_not_hand_over_otherwise(self, asked: int | None) -> None:
        """The application asks for node 2, and the administrator for no node or another one."""

        async def main(cluster: Cluster) -> None:
            leader = await elected(cluster)
            if asked is not None:
                cluster.administrator.transfer(asked, at=None, within_s=5).scope.cancel()
            cluster.nursery.start_soon(leader.transfer_leadership, 2)
            await keeps_leading(Demands(cluster), leader, 5)

        with pytest.raises(InvariantViolated, match=PROGRESS):
            simulate(main)

    def test_a_leader_may_resign_as_asked_before(self) -> None:
        async def main(cluster: Cluster) -> None:
            leader = await elected(cluster)
            cluster.nursery.start_soon(election.resign().take, cluster)
            assert not await keeps_leading(Demands(cluster), leader, 5)
            assert await keeps_leading(Demands(cluster), await cluster.wait_for_leader(), 5)

        simulate(main)

    def test_a_leader_may_not_resign_otherwise(self) -> None:
        async def main(cluster: Cluster) -> None:
            leader = await elected(cluster)
            cluster.nursery.start_soon(leader.resign)
            await keeps_leading(Demands(cluster), leader, 5)

        with pytest.raises(InvariantViolated, match=PROGRESS):
            simulate(main)

    def test_a_leader_may_hand_over_to_a_node_that_comes_back(self) -> None:
        """Seed 60090: the successor was not in the majority for which the faults had stopped first."""
        faults = 'pause 3\nappend "x"\ntransfer 3 nowait\nwait 500ms\n'
        script = f"seed 43\nvoters 1 2 3\n\nelect 1\nclients 1 every 500ms\n{faults}recover\n"
        leaders: list[int | None] = []

        def note(event: TraceEvent) -> None:
            if event.kind == "role" and event.role == "Leader":
                leaders.append(event.node)

        assert run_script(parse_script(script), on_trace=lambda trace: trace.listeners.append(note)).failure is None
        assert leaders == [1, 3]

    def test_a_leader_need_not_stay_until_all_follow_it(self) -> None:
        """A node that does not may have won a pre-vote before, and may campaign in a later epoch."""

        async def main(cluster: Cluster) -> None:
            for step in (network.isolate(3), election.elect(1)):
                await step.take(cluster)
            found = trio.Event()

            async def find() -> None:
                leader = await lasting_leader(Demands(cluster), [1, 2, 3])
                assert leader.key.id == 1
                found.set()

            cluster.nursery.start_soon(find)
            await trio.sleep(1)
            assert not found.is_set()
            cluster.heal()
            await found.wait()
            assert {node.view.leader_id for node in cluster.nodes.values()} == {1}

        simulate(main)

    def test_a_leader_need_not_stay_until_all_have_heard_of_it_since(self) -> None:
        """Seed 431569: a follower that was still cut off took it for lost, and its peers knew no pre-votes."""

        async def main(cluster: Cluster) -> None:
            await election.elect(1).take(cluster)
            await cluster.wait_until_alike()
            await network.isolate(3).take(cluster)
            found = trio.Event()

            async def find() -> None:
                await lasting_leader(Demands(cluster), [1, 2, 3])
                found.set()

            cluster.nursery.start_soon(find)
            await trio.sleep(0.5)
            assert cluster.nodes[3].view.leader_id == 1
            assert not found.is_set()
            cluster.heal()
            await found.wait()
            assert cluster.nodes[3].log.end_offset >= (cluster.nodes[1].high_watermark or 0)

        simulate(main)

    def test_who_cannot_campaign_need_not_follow(self) -> None:
        """Seed 340418: a blank disk knew nobody but who was cut off still."""

        async def main(cluster: Cluster) -> None:
            for step in (network.isolate(4), election.elect(1)):
                await step.take(cluster)
            leader = await lasting_leader(Demands(cluster), [1, 2, 3, 4])
            assert leader.key.id == 1
            assert cluster.nodes[4].view.leader_id is None

        simulate(main, Setup(voters=3, observers=1))

    def test_a_node_that_never_catches_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What a follower is told of the high watermark, it forgets."""
        advance = Log.advance_high_watermark

        def only_a_leader_advances(log: Any, offset: int) -> None:
            if log._watchers[0]._replica.is_leader:
                advance(log, offset)

        monkeypatch.setattr(Log, "advance_high_watermark", only_a_leader_advances)
        monkeypatch.setattr(demands, "CATCH_UP_S", 1.0)
        plan = Plan(header=Header(seed=1), clients=0, duration_us=SECOND)
        assert_no_progress(run_plan(plan), "nodes 1, 2, 3 have been without faults since", "high watermark None")

    def test_a_node_that_still_runs_on_a_full_disk_is_started_again(self) -> None:
        """Seed 290092: it had not yet ended when there was room again."""

        async def main(cluster: Cluster) -> None:
            leader = await cluster.wait_for_leader()
            machine = cluster.machines[leader.key.id]
            await disk.full_disk(leader.key.id, 0).take(cluster)
            with pytest.raises(DiskFullError):
                leader.log.append_as_leader(batch(b"value"), leader.view.epoch)
            assert machine.is_running
            await Demands(cluster).end_faults(sorted(cluster.machines))
            assert machine.is_running
            assert machine.node is not leader

        simulate(main)

    def test_a_node_that_is_about_to_end_is_started_again(self) -> None:
        """Seed 117 of the key-value store: on a slow disk, it ended after all nodes had been started."""

        async def main(cluster: Cluster) -> None:
            node = await elected(cluster)
            machine = cluster.machines[1]
            await disk.fail_write(1).take(cluster)
            with pytest.raises(OSError, match="injected"):
                machine.disk.open("/data/other", create=True).append(b"bytes")
            assert machine.is_running
            await Demands(cluster).end_faults(sorted(cluster.machines))
            assert machine.is_running
            assert machine.node is not node
            again = machine.node
            await Demands(cluster).end_faults(sorted(cluster.machines))
            assert machine.node is again

        simulate(main)

    def test_a_corrupt_disk_is_replaced_if_nothing_else_replaced_it(self) -> None:
        faults = (TimedStep(4 * SECOND, disk.rot(2)), TimedStep(5 * SECOND, process.restart((2,))))
        seen: list[TraceEvent] = []
        plan = Plan(header=Header(seed=1), clients=2, duration_us=8 * SECOND, faults=faults)
        outcome = run_plan(plan, lambda trace: trace.listeners.append(seen.append))
        assert outcome.failure is None
        assert [event.node for event in seen if event.kind == "fault" and event.cause == "blank disk"] == [2]


async def elected(cluster: Cluster) -> Node:
    await election.elect(1).take(cluster)
    await cluster.wait_until_alike()
    return cluster.nodes[1]


def assert_no_progress(outcome: Outcome, *facts: str) -> None:
    assert outcome.failure is not None
    assert outcome.failure.rule == "simulation"
    assert outcome.failure.title == PROGRESS
    for expected, fact in zip(facts, outcome.failure.facts, strict=False):
        assert expected in fact
