"""All three voters are exchanged, and the leader is lost at each record that the reassignment appends (KIP-642)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio

from kraft_trio.actors.membership.voter_change import VoterChangeSteps
from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.facts.history import Outcome
from kraft_trio.simulation.script.steps import election
from kraft_trio.simulation.setup import Setup
from kraft_trio.tracing.events import TraceEvent
from tests.support.on_cluster import run_on_cluster

NEW = (4, 5, 6)
RECORDS = range(7)
"""The target, three newcomers, and three voters that leave, one of them with the target."""
WITHIN_S = 60.0

BEFORE, WRITTEN, COMMITTED = "before it is written", "before anybody fetches it", "when it is committed"
WAYS = (("killed", BEFORE), ("killed", WRITTEN), ("killed", COMMITTED), ("cut off", WRITTEN), ("cut off", COMMITTED))


@attrs.define(eq=False)
class _Loss:
    """What happens to the leader at the record of that number."""

    cluster: Cluster
    record: int
    moment: str
    offsets: list[int] = attrs.field(factory=list)
    """Where the reassignment's records have been appended."""
    leader: int | None = None
    """The id of the lost leader."""
    has_happened: trio.Event = attrs.field(factory=trio.Event)

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = VoterChangeSteps.append

        async def append(steps: VoterChangeSteps, change: Any, *records: Any) -> None:
            is_due = len(self.offsets) == self.record and self.leader is None
            if is_due and self.moment != COMMITTED:
                self._cut_off(steps._context.key.id)
            if is_due and self.moment == BEFORE:
                await trio.sleep_forever()
            await real(steps, change, *records)
            self.offsets.append(change.offset)

        def look(event: TraceEvent) -> None:
            is_next = self.moment == COMMITTED and len(self.offsets) > self.record and self.leader is None
            if is_next and event.kind == "high_watermark" and event.role == "Leader" and event.node is not None:
                self._cut_off(event.node)

        monkeypatch.setattr(VoterChangeSteps, "append", append)
        self.cluster.trace.listeners.append(look)

    def _cut_off(self, leader: int) -> None:
        """At once: no other node gets anything from the leader any more."""
        self.leader = leader
        others = [machine.host for machine in self.cluster.machines.values() if machine.id != leader]
        self.cluster.network.isolate(self.cluster.machines[leader].host, others, silent=True)
        self.has_happened.set()


async def _reassign(cluster: Cluster) -> None:
    """Ask for the target until it is known to be set."""
    while True:
        request = cluster.administrator.reassign(NEW, at=None, within_s=WITHIN_S)
        await request.ended.wait()
        if request.operation.outcome is Outcome.OK:
            return
        await trio.sleep(1)


def _has_reached(cluster: Cluster) -> bool:
    newest = cluster.facts.committed.voter_sets[-1]
    return newest.voters is not None and newest.voters.ids == NEW and not newest.target


@pytest.mark.rotating(4)
@pytest.mark.parametrize(("blow", "moment"), WAYS)
@pytest.mark.parametrize("record", RECORDS)
def test_the_next_leader_reaches_the_target(
    record: int, blow: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(cluster: Cluster) -> None:
        await election.elect(1).take(cluster)
        await cluster.wait_until_alike()
        loss = _Loss(cluster, record, moment)
        loss.watch(monkeypatch)
        cluster.nursery.start_soon(_reassign, cluster)
        with trio.fail_after(WITHIN_S):
            await loss.has_happened.wait()
        assert loss.leader is not None
        lost = cluster.machines[loss.leader]
        if blow == "killed":
            lost.kill()
            cluster.heal()
        assert len(loss.offsets) == record + (moment != BEFORE)
        if moment != BEFORE:
            assert (cluster.facts.committed.end > loss.offsets[record]) == (moment == COMMITTED)
        # Only then does the leader come back.
        await cluster.wait_until(lambda: _has_reached(cluster), within_s=WITHIN_S)
        cluster.heal()
        await lost.start()
        await cluster.wait_until_alike()
        assert {node.log.voters.voters.ids for node in cluster.nodes.values()} == {NEW}
        cluster.checker.finished()

    run_on_cluster(test, Setup(voters=3, observers=3))
