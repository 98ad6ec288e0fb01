"""Nodes of both kinds give each other their snapshots, and continue with each other's directories."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TypeAlias

import pytest

from harness.kafka import kafka_version
from harness.waiting import wait_until
from tests.interop.mixed_quorum import KAFKA, OURS, SECONDS, MixedQuorum

pytestmark = [
    pytest.mark.skipif(kafka_version() < (3, 9), reason="needs a TestRaftServer that knows KIP-853"),
    pytest.mark.nightly,
]

Make: TypeAlias = Callable[..., MixedQuorum]

STEADY = {"election": 2000, "fetch": 30_000}
"""A slow machine does not lose its leader, and a lost leader is missed."""
WITH_STATE = {"kraft.state.machine": "latest-by-key"}
EACH_FIRST = pytest.mark.parametrize("kinds", [(OURS, KAFKA, KAFKA), (KAFKA, OURS, OURS)], ids="-".join)


def led_by_the_first(make_mixed: Make, *kinds: str, **options: object) -> MixedQuorum:
    """Nodes 1 to 3 run, and node 1 leads them until it is stopped."""
    quorum = make_mixed(*kinds, settings=WITH_STATE, **options)
    quorum.run(1, **STEADY)
    quorum.run(2, 3, election=6000, fetch=30_000)
    quorum.let_lead(1, **STEADY)
    return quorum


def wait_until_it_holds(quorum: MixedQuorum, node_id: int, snapshot: str) -> None:
    """The snapshot is that of node 1, and the log behind it, too."""
    expected = quorum.checkpoints(1)[snapshot]
    end = int(snapshot[:20])

    def holds() -> bool:
        behind = {at: batch for at, batch in quorum.batches(1).items() if at >= end}
        return quorum.checkpoints(node_id).get(snapshot) == expected and quorum.batches(node_id) == behind

    wait_until(f"node {node_id} has {snapshot}", holds, SECONDS)


@EACH_FIRST
def test_a_voter_with_a_blank_disk_gets_the_snapshot(make_mixed: Make, kinds: tuple[str, ...]) -> None:
    """Then it votes with what it got, and leads."""
    quorum = led_by_the_first(make_mixed, *kinds, static=True)
    for number in range(3):
        quorum.write(f"value {number}")
    quorum.wait_until_equal("value 2")
    quorum.end(3)
    quorum.replace_disk(3)
    quorum.write("before the snapshot")
    snapshot = quorum.take_snapshot(1)
    quorum.write("behind the snapshot")
    quorum.run(3, **STEADY)
    wait_until_it_holds(quorum, 3, snapshot.name)

    quorum.let_lead(3, **STEADY)
    quorum.write("led by what has only the snapshot")
    wait_until_it_holds(quorum, 3, snapshot.name)
    assert b"led by" in quorum.log(3)


@EACH_FIRST
def test_an_observer_gets_the_snapshot_with_its_voters(make_mixed: Make, kinds: tuple[str, ...]) -> None:
    quorum = led_by_the_first(make_mixed, *kinds, kinds[1], observers=(4,))
    quorum.write("before the snapshot")
    snapshot = quorum.take_snapshot(1)
    quorum.run(4, **STEADY)
    quorum.write("behind the snapshot")
    wait_until_it_holds(quorum, 4, snapshot.name)


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@EACH_FIRST
def test_each_goes_on_with_the_directory_of_the_other(make_mixed: Make, kinds: tuple[str, ...], static: bool) -> None:
    """Each directory has a snapshot too, and nothing that was in a log is lost."""
    quorum = led_by_the_first(make_mixed, *kinds, static=static)
    quorum.write("written at first")
    before = quorum.wait_until_equal("written at first")
    for number, how in enumerate((signal.SIGTERM, signal.SIGKILL)):
        for node_id in quorum.nodes:
            quorum.take_snapshot(node_id)
        snapshots = {node_id: quorum.checkpoints(node_id) for node_id in quorum.nodes}
        for node_id, kind in list(quorum.kinds.items()):
            quorum.end(node_id, how)
            quorum.kinds[node_id] = KAFKA if kind == OURS else OURS
        quorum.run(1, 2, 3, election=1000, fetch=2000)
        quorum.write(f"after {number}")
        after = quorum.wait_until_equal(f"after {number}")
        assert after.startswith(before)
        before = after
        for node_id, kept in snapshots.items():
            assert kept.items() <= quorum.checkpoints(node_id).items()
