"""Runs whose voters change: the administrator, what is left alone so that there is a majority, the end of the run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from kraft_trio.actors.membership.voter_change import VoterChangeSteps
from kraft_trio.protocol.roles import Resigned
from kraft_trio.simulation.campaign.seed_run import run_plan
from kraft_trio.simulation.cluster import Cluster, simulate
from kraft_trio.simulation.facts.history import Operation, Outcome
from kraft_trio.simulation.faults.plan import Plan, TimedStep
from kraft_trio.simulation.script.catalog import parse_step
from kraft_trio.simulation.script.header import Header
from kraft_trio.simulation.script.recovery.changes import CHANGES
from kraft_trio.simulation.script.step import NotAsExpected
from kraft_trio.simulation.setup import PORT

pytestmark = pytest.mark.rotating(2)

SECOND = 1_000_000


async def take(cluster: Cluster, *lines: str) -> None:
    for line in lines:
        await parse_step(line).take(cluster)


def asked(cluster: Cluster, asks: str) -> Operation:
    operation = cluster.history.request(asks)
    assert operation is not None
    return operation


def on_cluster(main: Callable[[Cluster], Awaitable[None]], **setup: object) -> None:
    simulate(main, **setup)


class TestAdministrator:
    def test_a_change_that_is_made_and_one_that_is_refused(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1", "add-voter 4", "add-voter 4", "remove-voter 3", "remove-voter 3")
            changes = [(operation.asks, operation.outcome) for operation in cluster.history.operations]
            assert changes == [
                ("add-voter 4", Outcome.OK),
                ("add-voter 4", Outcome.FAIL),
                ("remove-voter 3", Outcome.OK),
                ("remove-voter 3", Outcome.FAIL),
            ]
            assert asked(cluster, "add-voter 4").voter == cluster.key_of(4)
            assert cluster.nodes[1].log.voters.voters.ids == (1, 2, 4)

        on_cluster(main, observers=1)

    def test_without_an_answer_the_outcome_is_unknown(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1", "isolate 1 silent", "remove-voter 1 at 1", "kill 1", "wait 1s")
            assert asked(cluster, "remove-voter 1").outcome is Outcome.UNKNOWN

        on_cluster(main)

    def test_where_nobody_leads_nothing_was_asked_for(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1", "kill 2 3", "wait 10s", "remove-voter 3 within 2s", "wait 10s")
            assert asked(cluster, "remove-voter 3").outcome is Outcome.FAIL
            assert not cluster.survivability.asked()

        on_cluster(main)

    def test_who_is_stopped_waits_for_no_answer(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1", "isolate 1 silent", "remove-voter 3 at 1")
            cluster.administrator.stop()
            await trio.sleep(60)
            assert asked(cluster, "remove-voter 3").outcome is Outcome.PENDING

        on_cluster(main)

    def test_what_was_asked_for_may_happen_for_a_while(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1", "add-voter 4")
            assert [change.key for change in cluster.survivability.asked()] == [cluster.key_of(4)]
            await take(cluster, "wait 20s")
            assert not cluster.survivability.asked()

        on_cluster(main, observers=1)

    def test_a_static_quorum_is_upgraded(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1", "settle", "upgrade")
            assert asked(cluster, "upgrade").outcome is Outcome.OK
            assert {node.log.voters.kraft_version for node in cluster.nodes.values()} == {1}

        on_cluster(main, kraft_version=0)

    def test_the_current_leader_is_removed(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "remove-leader")
            assert not cluster.history.operations, "nobody leads yet"
            await take(cluster, "elect 2", "remove-leader", "settle")
            assert asked(cluster, "remove-voter 2").outcome is Outcome.OK
            assert cluster.nodes[1].log.voters.voters.ids == (1, 3)

        on_cluster(main)


class TestMoving:
    def test_a_node_comes_back_elsewhere_and_everybody_hears_of_it(self) -> None:
        async def main(cluster: Cluster) -> None:
            before = cluster.endpoint_of(2)
            await take(cluster, "elect 1", "kill 2", "move 2", "start 2", "wait 5s", "settle")
            now = cluster.endpoint_of(2)
            assert now != before
            for node in cluster.nodes.values():
                voter = node.log.voters.voters.get(2)
                assert voter is not None
                assert [endpoint for _, endpoint in voter.endpoints] == [now]
            await take(cluster, "elect 2")

        on_cluster(main)

    def test_static_voters_stay_where_they_are(self) -> None:
        async def main(cluster: Cluster) -> None:
            with pytest.raises(NotAsExpected, match="kraft-version 0"):
                await take(cluster, "move 2")

        on_cluster(main, kraft_version=0)


class TestSurvivability:
    """In a fair run, a fault that would take a majority's disks, voters or addresses does nothing."""

    def test_as_many_disks_as_a_majority_can_do_without(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "fair", "elect 1")
            keys = {node: cluster.key_of(node) for node in cluster.machines}
            await take(cluster, "blank-disk 2", "blank-disk 3", "blank-disk 4", "rot 5")
            assert [node for node in keys if cluster.key_of(node) != keys[node]] == [2, 3]
            assert not cluster.machines[5].has_bad_disk
            blank = cluster.key_of(2)
            await take(cluster, "blank-disk 2")
            assert cluster.key_of(2) != blank, "what is lost already can be lost again"
            assert cluster.survivability.has_majority([1, 4, 5])
            assert not cluster.survivability.has_majority([1, 2, 3, 4])

        on_cluster(main, voters=5)

    def test_a_disk_counts_as_lost_before_its_process_has_ended(self) -> None:
        """Seed 500244: meanwhile another voter was removed, and what was left could have no majority."""

        async def main(cluster: Cluster) -> None:
            await take(cluster, "fair", "elect 1")
            losing = cluster.machines[2]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(take, cluster, "blank-disk 2")
                while losing.is_running:
                    await trio.lowlevel.checkpoint()
                assert not losing.has_ended
                assert not cluster.survivability.can_spare(cluster.key_of(3))
            assert not losing.device.is_being_replaced
            await take(cluster, "start 2", "wait 5s", "remove-voter 2", "add-voter 2", "wait 1s")
            assert cluster.survivability.can_spare(cluster.key_of(3)), "the disk that has come counts as any other"

        on_cluster(main)

    def test_fewer_once_voters_are_removed(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "fair", "elect 1", "remove-voter 5", "remove-voter 4")
            assert cluster.nodes[1].log.voters.voters.ids == (1, 2, 3)
            keys = {node: cluster.key_of(node) for node in cluster.machines}
            await take(cluster, "blank-disk 2", "wait 20s", "blank-disk 3", "blank-disk 4")
            assert [node for node in keys if cluster.key_of(node) != keys[node]] == [2, 4]

        on_cluster(main, voters=5)

    def test_a_removal_that_leaves_too_few_disks_is_not_asked_for(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "fair", "elect 1", "blank-disk 3", "start 3", "remove-voter 2")
            assert "not asked for" in asked(cluster, "remove-voter 2").problem
            await take(cluster, "remove-voter 3")
            assert asked(cluster, "remove-voter 3").outcome is Outcome.OK, "what is lost already is no loss"

        on_cluster(main)

    def test_one_that_is_asked_for_counts_before_it_is_made(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "fair", "elect 1", "isolate 1 silent", "remove-voter 5 at 1", "heal")
            keys = {node: cluster.key_of(node) for node in cluster.machines}
            assert {voters.ids for voters in cluster.survivability.possible()} == {(1, 2, 3, 4, 5), (1, 2, 3, 4)}
            await take(cluster, "blank-disk 4", "blank-disk 3")
            assert [node for node in keys if cluster.key_of(node) != keys[node]] == [4]

        on_cluster(main, voters=5)

    def test_a_majority_is_one_of_every_set_that_may_be_in_force(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1", "cut 1 4 | 2 3 silent", "add-voter 4 at 1", "wait 100ms")
            survivability = cluster.survivability
            assert {voters.ids for voters in survivability.possible()} == {(1, 2, 3), (1, 2, 3, 4)}
            assert survivability.members() == [1, 2, 3, 4]
            assert not survivability.has_majority([2, 3]), "two are no majority of four"
            assert not survivability.has_majority([1, 4])
            assert survivability.has_majority([1, 2, 3])

        on_cluster(main, observers=1)

    def test_without_gossip_a_moved_voter_is_away_until_it_is_heard(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "fair", "elect 1")
            voter = cluster.nodes[1].log.voters.voters.get(2)
            assert voter is not None
            assert cluster.survivability.keeps_promises(voter)
            await take(cluster, "move 2", "move 3")
            assert not cluster.survivability.keeps_promises(voter)
            assert cluster.endpoint_of(3).port == cluster.endpoint_of(1).port, "with 3 away too, 1 would be alone"

        on_cluster(main, settings={"kraft.voter.gossip.enable": "false"})

    def test_with_gossip_all_voters_may_move(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "fair", "elect 1", "move 1", "move 2", "move 3")
            assert cluster.survivability.has_majority([1, 2])
            assert {cluster.endpoint_of(id).port for id in (1, 2, 3)} == {PORT + 1}

        on_cluster(main)


class TestStrikeInTheMiddle:
    def test_the_leader_is_struck_when_it_has_appended_the_voters(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1", "add-voter 4 nowait")
            log = cluster.nodes[1].log
            await take(cluster, "strike-leader kill mid-change")
            assert 1 not in cluster.nodes
            assert log.voters.voters.ids == (1, 2, 3, 4)
            assert log.voters.uncommitted(log.high_watermark)

        on_cluster(main, observers=1)

    def test_nobody_is_struck_where_nothing_changes(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1")
            began_s, listeners = cluster.now_s, len(cluster.trace.listeners)
            await take(cluster, "strike-leader kill mid-change")
            assert cluster.now_s == pytest.approx(began_s + 1)
            assert list(cluster.nodes) == [1, 2, 3]
            assert len(cluster.trace.listeners) == listeners

        on_cluster(main)


class TestStrikeAtAnAction:
    def test_the_node_is_struck_before_it_does_anything_else(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1", "add-voter 4 nowait")
            log = cluster.nodes[1].log
            await take(cluster, "strike-at AddVoter kill")
            assert 1 not in cluster.nodes
            assert log.voters.voters.ids == (1, 2, 3, 4)
            assert log.synced_end_offset < log.end_offset

        on_cluster(main, observers=1)

    def test_a_leader_resigns_when_it_has_appended_a_change(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1", "remove-voter 3 nowait", "strike-at RemoveVoter resign")
            assert isinstance(cluster.nodes[1].view.role, Resigned)

        on_cluster(main)

    def test_nobody_is_struck_where_nobody_acts(self) -> None:
        async def main(cluster: Cluster) -> None:
            await take(cluster, "elect 1")
            began_s, listeners = cluster.now_s, len(cluster.trace.listeners)
            await take(cluster, "strike-at Truncate kill")
            assert cluster.now_s == pytest.approx(began_s + 3)
            assert list(cluster.nodes) == [1, 2, 3]
            assert len(cluster.trace.listeners) == listeners

        on_cluster(main)


class TestRecovery:
    """A run that changes its voters ends with a change, which must be made."""

    PLAN = Plan(header=Header(seed=1, observers=(4, 5)), clients=1, duration_us=SECOND, is_fair_by_itself=False)

    def test_a_change_is_made(self) -> None:
        outcome = run_plan(self.PLAN)
        assert outcome.failure is None
        assert outcome.counts["voter changes made"] == 1
        assert outcome.counts["voter sets committed"] == 2

    def test_one_that_is_not_made_is_a_violation(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def never(_steps: Any, _change: Any) -> None:
            await trio.sleep_forever()

        monkeypatch.setattr(VoterChangeSteps, "_until_epoch_is_committed", never)
        failure = run_plan(self.PLAN).failure
        assert failure is not None
        assert failure.title == CHANGES
        assert "an administrator asks: " in failure.facts[0]

    def test_static_voters_are_upgraded(self) -> None:
        plan = Plan(header=Header(seed=1, kraft_version=0), clients=1, duration_us=SECOND, is_fair_by_itself=False)
        outcome = run_plan(plan)
        assert outcome.failure is None
        assert outcome.counts["voter changes made"] == 1

    def test_a_change_in_progress_commits_or_vanishes_everywhere(self) -> None:
        steps = ("strike-leader stall", "add-voter 4 nowait", "remove-voter 2 nowait")
        faults = tuple(TimedStep(3 * SECOND, parse_step(step)) for step in steps)
        plan = Plan(
            header=Header(seed=1, observers=(4,)),
            clients=1,
            duration_us=5 * SECOND,
            faults=faults,
            is_fair_by_itself=False,
        )
        outcome = run_plan(plan)
        assert outcome.failure is None
        assert outcome.counts["voter sets truncated"] >= 1
