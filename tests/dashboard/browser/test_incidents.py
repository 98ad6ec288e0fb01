"""Three incidents: how many steps lead from the page to the cause, and to what to do."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable

from harness.quorum import Quorum
from kraft_trio.cli import run
from tests.dashboard.browser.reader import Reader

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
    cause = opened.sees("#findings [data-code=no-majority]", "No leader: 2 of the voters 1, 2, 3 are needed")
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
    """The page goes on for the others; one step leads to the voter, its last contact, and what its disk had left."""
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
