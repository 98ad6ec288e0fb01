"""S9: power fails at every storage call of a snapshot, of an install and of a trim, once each; then all rules hold.

By default, one call of 32, which changes with the commit: `tests/storage` enumerates all calls of the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import attrs
import pytest
import trio

from kraft_trio import KraftError
from kraft_trio.simulation import Cluster, Setup, simulate
from kraft_trio.simulation.disk.inode import Loss
from kraft_trio.simulation.machine import Machine
from kraft_trio.simulation.script.run import SNAPSHOTS_KEY
from kraft_trio.simulation.state_machine import RememberedValues
from tests.support import sizes

VICTIM = 4
OFF_S = 0.3
"""How long its power is off."""
SETTLED_S = 1.0
"""After which everything that the part began has come to its end, and the victim is back."""
READS = {"read_at", "read_bytes", "view", "list_directory", "forget_cached"}
LOSSES: tuple[Loss, ...] = ("all", "some", "reordered")
SETUP = Setup(
    seed=5,
    observers=1,
    settings={
        "metadata.log.segment.bytes": "1024",
        "kraft.log.preallocate.bytes": "600",
        SNAPSHOTS_KEY: "1000000",
        "metadata.max.retention.bytes": "0",
        "controller.quorum.fetch.snapshot.max.bytes": "400",
    },
    state_machine=lambda _: RememberedValues(),
)
"""A snapshot is taken when the story says so; then everything goes that it covers."""

Part = Callable[[Cluster], Awaitable[None]]


async def append(cluster: Cluster, count: int) -> None:
    leader = await cluster.wait_for_leader()
    for number in range(count):
        await leader.append([b"%d" % number * 150])


async def take(cluster: Cluster, *node_ids: int) -> None:
    for node_id in node_ids:
        if (node := cluster.nodes.get(node_id)) is not None:
            with suppress(KraftError):
                await node.take_snapshot()


async def is_there(cluster: Cluster) -> None:
    await cluster.wait_until(lambda: VICTIM in cluster.nodes)


async def takes_two_snapshots(cluster: Cluster) -> None:
    """Its first snapshot and trim; then another one, for which the first one goes too."""
    for _ in range(2):
        await append(cluster, 8)
        await is_there(cluster)
        await cluster.wait_until_alike()
        await take(cluster, VICTIM)
        await is_there(cluster)


async def is_given_one(cluster: Cluster) -> None:
    """It was away when the others trimmed what it needs; it has a log of its own, and an older snapshot, to let go."""
    machine = cluster.machines[VICTIM]
    machine.kill()
    await append(cluster, 8)
    await take(cluster, 1, 2, 3)
    await append(cluster, 1)
    await machine.start()


PARTS: dict[str, tuple[Part, Part]] = {
    "taken and trimmed": (lambda cluster: append(cluster, 1), takes_two_snapshots),
    "fetched and installed": (takes_two_snapshots, is_given_one),
}
"""What comes before, and what is disturbed."""


@attrs.define
class Lived:
    calls: list[tuple[str, str]] = attrs.field(factory=list)
    """The victim's storage calls in the disturbed part, and on which file."""
    crashes: int = 0
    fetched: int = 0
    trimmed: int = 0


def live(part: str, *, crash_at: int | None = None, lose: Loss = "all", after: bool = False) -> Lived:
    """The part, with a power failure at the victim's storage call of that number, the first being 1."""
    lived = Lived()
    before, disturbed = PARTS[part]

    async def power_on(machine: Machine) -> None:
        await trio.sleep(OFF_S)
        await machine.start()

    async def main(cluster: Cluster) -> None:
        machine = cluster.machines[VICTIM]

        def crash() -> None:
            lived.crashes += 1
            machine.crash(lose)
            cluster.nursery.start_soon(power_on, machine)

        await cluster.wait_for_leader()
        await before(cluster)
        await cluster.wait_until_alike()

        def note(operation: str, path: str) -> None:
            lived.calls.append((operation, path.rpartition("/")[2]))

        machine.disk.hook = note
        if crash_at is not None:
            machine.disk.crash_at(machine.disk.calls + crash_at, after=after, crash=crash)
        await disturbed(cluster)
        await trio.sleep(SETTLED_S)
        machine.disk.clear_faults()
        await is_there(cluster)
        await append(cluster, 1)
        await cluster.wait_until_alike()
        lived.fetched = sum(
            e.kind == "replace" and e.node == VICTIM for e in cluster.trace.last_events([VICTIM], 10_000)
        )
        lived.trimmed = sum(e.kind == "trim" and e.node == VICTIM for e in cluster.trace.last_events([VICTIM], 10_000))
        assert machine.node is not None
        assert machine.node.log.log_start_offset <= machine.node.log.snapshots.ids[0].offset
        cluster.checker.finished()

    simulate(main, SETUP)
    return lived


@pytest.fixture(scope="module", params=PARTS)
def undisturbed(request: pytest.FixtureRequest) -> tuple[str, Lived]:
    return request.param, live(request.param)


def changes(lived: Lived) -> list[int]:
    """The numbers of the calls that change something."""
    return [number for number, (operation, _) in enumerate(lived.calls, start=1) if operation not in READS]


def test_a_life_has_all_of_it(undisturbed: tuple[str, Lived]) -> None:
    part, lived = undisturbed
    calls = {(operation, name.partition(".")[2]) for operation, name in lived.calls}
    assert {("append", "checkpoint.part"), ("sync", "checkpoint.part"), ("rename", "checkpoint")} <= calls
    assert {("rename", "log.deleted"), ("remove", "log.deleted"), ("rename", "checkpoint.deleted")} <= calls
    assert lived.fetched == (part == "fetched and installed")
    assert lived.trimmed > 0
    assert len(changes(lived)) > 50


@pytest.mark.rotating(2)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_every_rule_holds_whichever_call_it_crashes_at(after: bool, undisturbed: tuple[str, Lived]) -> None:
    """Before and after each call that changes something; what is lost takes turns."""
    part, whole = undisturbed
    for number in sizes.part(changes(whole), 32):
        found = live(part, crash_at=number, lose=LOSSES[(number + after) % len(LOSSES)], after=after)
        assert found.calls[:number] == whole.calls[:number], "until then it is the same life"
        assert found.crashes == 1, f"call {number}: {whole.calls[number - 1]}"
