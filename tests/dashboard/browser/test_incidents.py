"""Incidents: how many steps lead from the page to the cause, and to what to do."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.quorum import Quorum
from kraft_trio.cli import run
from tests.acceptance.mounts import SmallDisk, small_disk
from tests.dashboard.browser.reader import Reader

FULL_BYTES = 48 * 1024
"""What is left to the disk: less than the reserve of a node, so that it ends soon."""

Start = Callable[[Quorum], str]
Open = Callable[..., Reader]


def test_no_majority(quorum: Quorum, dashboard: Start, reader: Open) -> None:
    """The cause is on the screen at once; one step leads to what each node says, one more copies the command."""
    opened = reader(dashboard(quorum))
    opened.sees("#survival", "Survives 1 more failure now")
    left = quorum.leader().id
    dead = [node_id for node_id in (1, 2, 3) if node_id != left]
    for node_id in dead:
        quorum.nodes[node_id].kill()
    cause = opened.sees("#findings [data-code=no-majority]", "No leader: two of the voters 1, 2, 3 are needed")
    assert all(f"{node_id} (Connection refused)" in cause for node_id in dead)
    assert "kraft server start -c FILE" in cause
    assert opened.is_in_view("#findings [data-code=no-majority]")
    opened.sees("#survival", "Has no majority: nothing can be committed")
    opened.click("[data-code=no-majority] a")
    assert opened.is_in_view("#claims-table")
    for node_id in dead:
        assert "Connection refused" in opened.sees("#claims-table tr.silent", f"Node {node_id}")
    lost = opened.sees("#epoch-list li", f"node {left} led from")
    assert "no progress by a majority of the voters" in lost
    assert opened.steps == 1


def test_a_voter_that_hangs(quorum: Quorum, dashboard: Start, reader: Open) -> None:
    """The page continues for the others; one step leads to the voter, its last contact, and what its disk had left."""
    opened = reader(dashboard(quorum))
    opened.sees("#survival", "Survives 1 more failure now")
    leader = quorum.leader().id
    hanging = next(node_id for node_id in (1, 2, 3) if node_id != leader)
    quorum.nodes[hanging].send(signal.SIGSTOP)
    opened.sees("#findings [data-code=voter-behind]", f"Voter {hanging} is offline: has not fetched for")
    opened.sees("#survival", "Survives no more failure now")
    opened.click("[data-code=voter-behind] a")
    assert opened.is_in_view("#voters-table")
    row = opened.sees("#voters-table tr.silent", f"Voter {hanging}")
    assert "offline" in row
    opened.sees("#claims-table tr.silent", "no answer within 2000 ms")
    opened.sees("#claims-table tr:has-text('now')", f"Node {leader}")  # the others are asked on
    assert opened.steps == 1
    quorum.nodes[hanging].send(signal.SIGCONT)
    opened.sees("#survival", "Survives 1 more failure now")


def test_a_voter_with_a_blank_disk(quorum: Quorum, dashboard: Start, reader: Open) -> None:
    """The finding names both directory ids, and its command replaces the voter."""
    opened = reader(dashboard(quorum))
    opened.sees("#survival", "Survives 1 more failure now")
    leader = quorum.leader().id
    node = next(quorum.nodes[node_id] for node_id in (1, 2, 3) if node_id != leader)
    node.kill()
    shutil.rmtree(node.directory)
    again = ["storage", "format", "-t", quorum.cluster_id, "-c", str(node.properties), "--no-initial-controllers"]
    assert run(again) == 0
    node.start()
    cause = opened.sees("#findings [data-code=other-directory]", f"Node {node.id} runs with directory id")
    assert "has a blank or another disk, so it does not vote" in cause
    assert f"replace -i {node.id}" in cause
    opened.click("[data-code=other-directory] a")
    assert opened.is_in_view("#voters-table")
    assert "offline" in opened.sees("#voters-table tr.silent", f"Voter {node.id}")
    assert opened.steps == 1


@pytest.fixture
def on_small_disks(tmp_path: Path) -> Iterator[tuple[Quorum, dict[int, SmallDisk]]]:
    """Three voters, each on a file system of its own.  Skips the test where nothing can be mounted."""
    made = Quorum(tmp_path, voters=3)
    with ExitStack() as stack:
        disks = {node.id: stack.enter_context(small_disk(node.directory)) for node in made.nodes.values()}
        stack.callback(made.kill_all)
        made.start()
        made.produce(["first"])
        yield made, disks


def test_a_leader_whose_disk_is_full(
    on_small_disks: tuple[Quorum, dict[int, SmallDisk]], dashboard: Start, reader: Open
) -> None:
    """The cause is on the screen before the node ends and after it, first among the disks; one step leads to it."""
    quorum, disks = on_small_disks
    opened = reader(dashboard(quorum))
    opened.sees("#survival", "Survives 1 more failure now")
    full = quorum.leader()
    disks[full.id].leave_room(FULL_BYTES)
    opened.sees("#findings [data-code=little-room]", f"The disk of node {full.id} has {FULL_BYTES // 1024} KiB left.")
    while full.running:
        quorum.produce(["x" * 1000])
    new = quorum.leader(besides=full.id).id
    opened.sees("#headline", f"Node {new} leads epoch")
    cause = opened.sees("#findings [data-code=little-room]", f"The disk of node {full.id} had")
    assert "KiB left when it last answered. A node whose disk is full ends: make room, and start it." in cause
    assert "kraft server start -c FILE" in cause
    assert opened.is_in_view(f"#findings [data-code=little-room]:has-text('node {full.id} had')")
    opened.sees("#findings [data-code=voter-behind]", f"Voter {full.id} is offline")
    opened.sees("#findings [data-code=voter-behind]", "Its disk was nearly full: make room, and start it.")
    opened.sees("#epoch-list li", f"node {full.id} led from")
    assert opened.steps == 0
    opened.click("[data-code=little-room] a")
    assert opened.is_in_view("#voters-table")
    assert "KiB" in opened.sees("#voters-table tr.silent", f"Voter {full.id}")
    assert opened.steps == 1
    disks[full.id].enlarge()
    quorum.start([full.id])
    opened.sees("#survival", "Survives 1 more failure now")


def test_a_leader_that_was_cut_off_contradicts_the_others(quorum: Quorum, dashboard: Start, reader: Open) -> None:
    """Two claims of a leader in one picture: the old one is marked as soon as it speaks again."""
    opened = reader(dashboard(quorum))
    opened.sees("#survival", "Survives 1 more failure now")
    old = quorum.leader().id
    quorum.nodes[old].send(signal.SIGSTOP)
    new = quorum.leader(besides=old).id
    opened.sees("#headline", f"Node {new} leads epoch")
    before = opened.sees("#claims-table tr.silent", f"Node {old}")
    assert "(before)" in before
    opened.sees("#epoch-list li", "had no answer from it for the fetch timeout")
    assert opened.steps == 0
    quorum.nodes[old].send(signal.SIGCONT)
    opened.sees("#survival", "Survives 1 more failure now")
