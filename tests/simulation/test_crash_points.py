"""Power fails at every storage call of one node's life, once each; the node starts again, and all rules hold.

By default, a sixteenth of the calls, which changes with the commit: `tests/storage` enumerates all calls of the log.
"""

from __future__ import annotations

from contextlib import suppress

import attrs
import pytest
import trio

from kraft_trio import KraftError
from kraft_trio.simulation import Cluster, Setup, simulate
from kraft_trio.simulation.disk.inode import Loss
from kraft_trio.simulation.machine import Machine
from kraft_trio.storage.disk.partition_files import PRODUCER_SNAPSHOT
from tests.storage.support import values_in
from tests.support import sizes

SETUP = Setup(seed=3, settings={"metadata.log.segment.bytes": "1024", "kraft.log.preallocate.bytes": "600"}, started=())
VICTIM = 1
"""The node that leads first, with this seed, as long as nothing happens to it."""
OFF_S = 0.3
"""How long its power is off."""
READS = {"read_at", "read_bytes", "view", "list_directory", "forget_cached"}
LOSSES: tuple[Loss, ...] = ("all", "some", "reordered")
SHARES = 16


class Life:
    """What happens to three nodes: elections, appends, segments, a truncation, a clean stop, a kill."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.victim = cluster.machines[VICTIM]
        self.others = [id for id in cluster.voter_ids if id != VICTIM]
        self.acknowledged: list[bytes] = []
        self._number = 0

    async def run(self) -> None:
        await self.victim.start()
        for node_id in self.others:
            await self.cluster.machines[node_id].start()
        await self.append(4)
        await self.lose_its_tail()
        await self.victim.stop()
        await self.victim.start()
        await self.append(3)
        self.victim.kill()
        await self.victim.start()
        await self.append(2)
        # Whatever happened to it, it comes back.
        await self.cluster.wait_until(lambda: len(self.cluster.nodes) == 3)
        await self.cluster.wait_until_alike()

    async def append(self, count: int) -> None:
        """Append that many values at the current leader.  One that is not acknowledged is not sent again."""
        for _ in range(count):
            self._number += 1
            value = b"%03d" % self._number * 40
            leader = await self.cluster.wait_for_leader()
            with trio.move_on_after(5), suppress(KraftError):
                await leader.append([value])
                self.acknowledged.append(value)

    async def lose_its_tail(self) -> None:
        """It appends what its followers never see, and truncates that when it hears of the leader after it."""
        leader = self.cluster.leader()
        if leader is None or leader.key.id != VICTIM:
            return
        self.cluster.partition({VICTIM}, self.others)
        with trio.move_on_after(1), suppress(KraftError):
            await leader.append([b"lost" * 40, b"lost as well" * 40])
        await self.cluster.wait_for_leader(other_than=leader)
        await self.append(2)
        self.cluster.heal()
        await self.cluster.wait_until_alike(*self.others)


@attrs.define
class Lived:
    calls: list[tuple[str, str]] = attrs.field(factory=list)
    """The victim's storage calls since it was formatted, and on which file."""
    crashes: int = 0


def live(*, crash_at: int | None = None, lose: Loss = "all", after: bool = False) -> Lived:
    """The whole life, with a power failure at the victim's storage call of that number, the first being 1."""
    lived = Lived()

    async def power_on(machine: Machine) -> None:
        await trio.sleep(OFF_S)
        await machine.start()

    async def main(cluster: Cluster) -> None:
        machine = cluster.machines[VICTIM]

        def crash() -> None:
            lived.crashes += 1
            machine.crash(lose)
            cluster.nursery.start_soon(power_on, machine)

        machine.disk.hook = lambda operation, path: lived.calls.append((operation, path.rpartition("/")[2]))
        if crash_at is not None:
            machine.disk.crash_at(machine.disk.calls + crash_at, after=after, crash=crash)
        life = Life(cluster)
        await life.run()
        machine.disk.clear_faults()
        for node in cluster.nodes.values():
            assert set(life.acknowledged) <= set(values_in(node.log))

    simulate(main, SETUP)
    return lived


@pytest.fixture(scope="module")
def undisturbed() -> list[tuple[str, str]]:
    return live().calls


def test_a_life_has_every_kind_of_call(undisturbed: list[tuple[str, str]]) -> None:
    segments = {name for operation, name in undisturbed if operation == "append" and name.endswith(".log")}
    assert len(segments) > 2
    # Opening and sealing a segment cut it, too.
    last_truncation = max(i for i, (call, name) in enumerate(undisturbed) if call == "truncate" and name in segments)
    assert ("overwrite", "recovery-point") in undisturbed[:last_truncation]
    assert ("rename", "quorum-state") in undisturbed
    assert any(name.endswith(PRODUCER_SNAPSHOT) for _, name in undisturbed), "a clean stop"
    assert {"sync", "sync_directory", "make_directory", "lock"} <= {operation for operation, _ in undisturbed}


@pytest.mark.parametrize("share", sizes.part(range(SHARES), SHARES))
def test_every_rule_holds_whichever_call_it_crashes_at(share: int, undisturbed: list[tuple[str, str]]) -> None:
    """Before and after each call that changes something; what is lost takes turns."""
    lived = 0
    changing = [number for number, (operation, _) in enumerate(undisturbed, start=1) if operation not in READS]
    for turn, number in enumerate(changing[share::SHARES]):
        operation, name = undisturbed[number - 1]
        for after in (False, True):
            lose = LOSSES[(turn + after) % len(LOSSES)]
            found = live(crash_at=number, lose=lose, after=after)
            assert found.calls[:number] == undisturbed[:number], "until then it is the same life"
            assert found.crashes == 1, f"call {number}: {operation} {name}, after: {after}"
            lived += 1
    assert lived >= 10
