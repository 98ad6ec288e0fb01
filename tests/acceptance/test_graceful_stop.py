"""SIGTERM and SIGINT: a leader hands over before it goes, and nobody waits longer than the grace time."""

from __future__ import annotations

import json
import signal
from datetime import datetime
from typing import Any

import pytest

from harness.node import NodeProcess
from harness.quorum import Quorum
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.readers import assert_written_once_in_order, read_with_confluent
from tests.acceptance.writers import ConfluentWriter, KafkaPythonWriter, wait_for_progress, writing

FETCH_TIMEOUT_MS = 300_000
"""A hand-over that waited for this timeout would be seen, however busy the machine is."""

LogLine = dict[str, Any]


def log_lines(node: NodeProcess) -> list[LogLine]:
    """The lines of the node's log that are JSON objects, of all its processes."""
    return [json.loads(line) for line in node.log_text().splitlines() if line.startswith("{")]


def time_of(line: LogLine) -> float:
    return datetime.fromisoformat(line["timestamp"]).timestamp()


def elections_since(quorum: Quorum, when: float) -> list[LogLine]:
    """Each step of a campaign that a node took since then, in the order of time."""
    lines = [{**line, "id": node.id} for node in quorum.nodes.values() for line in log_lines(node)]
    campaigns = ("Prospective", "Candidate", "Leader")
    steps = [line for line in lines if line["event"] == "role" and line["role"] in campaigns and time_of(line) >= when]
    return sorted(steps, key=time_of)


@pytest.mark.rotating(3)
@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopping_leader_hands_over_at_once(make_quorum: MakeQuorum, signal_number: signal.Signals) -> None:
    """`tests/actors/test_shutdown.py` says when each successor asks for votes, in virtual time."""
    quorum = make_quorum(controller_quorum_fetch_timeout_ms=str(FETCH_TIMEOUT_MS))
    quorum.start()
    old, before = quorum.described_by_leader()
    quorum.wait_until_caught_up()
    servers = quorum.bootstrap_servers
    writers = [
        KafkaPythonWriter("kafka-python-once", servers, idempotent=False),
        ConfluentWriter("confluent-idempotent", servers, idempotent=True),
    ]
    with writing(writers):
        wait_for_progress(writers)
        assert old.stop(signal_number) == 0
        new, after = quorum.described_by_leader(besides=old.id)
        wait_for_progress(writers)
    [asked_to_stop] = [line for line in log_lines(old) if line["event"] == "stopping"]
    steps = elections_since(quorum, time_of(asked_to_stop))
    # The second successor asks too if the first one is slow, or if its log lacks what the second has fetched.  It may
    # even take over from the first one, until it follows that.
    assert {step["role"] for step in steps} == {"Prospective", "Candidate", "Leader"}, steps
    led = [step["id"] for step in steps if step["role"] == "Leader"]
    assert led[-1] == new.id, steps
    assert old.id not in led, steps
    assert (time_of(steps[-1]) - time_of(asked_to_stop)) * 1000 < FETCH_TIMEOUT_MS / 2
    assert after.leader_epoch > before.leader_epoch
    assert_written_once_in_order(read_with_confluent(servers), writers)
    quorum.start([old.id])
    quorum.assert_logs_equal()


@pytest.mark.usefixtures("by_exec")
def test_a_stopped_follower_is_not_missed(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(is_steady=True)
    quorum.start()
    leader, before = quorum.described_by_leader()
    follower = next(node for node in quorum.nodes.values() if node is not leader)
    assert follower.stop(signal.SIGTERM) == 0
    quorum.produce(["without it"])
    assert quorum.described_by_leader()[1].leader_epoch == before.leader_epoch


def test_a_leader_that_reaches_nobody_stops_in_the_grace_time(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(is_steady=True, kraft_shutdown_grace_ms="1000")
    quorum.start()
    leader = quorum.leader()
    for node in quorum.nodes.values():
        if node is not leader:
            node.kill()
    assert leader.stop(signal.SIGTERM) == 0
    told = leader.log.read_text()
    assert "end of epoch not delivered" in told
    assert '"event": "stopped"' in told


def test_a_node_that_never_saw_a_leader_stops(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum()
    quorum.start([1])
    assert quorum.nodes[1].stop(signal.SIGTERM) == 0
