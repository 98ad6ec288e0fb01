"""`kraft metrics` of real processes: a running node's, a stopped node's and one that was killed."""

from __future__ import annotations

import json
from typing import Any

from harness.command import kraft
from harness.node import NodeProcess
from harness.waiting import wait_until
from tests.acceptance.conftest import MakeQuorum

SETTINGS = {"kraft_metrics_interval_ms": "200", "controller_quorum_fetch_timeout_ms": "6000"}
"""No busy machine moves the leadership within this fetch timeout, after which a leader misses a voter."""


def metrics_of(node: NodeProcess) -> dict[str, Any]:
    """The metrics that `kraft metrics --json` prints; empty if it reports no file, or an old one."""
    completed = kraft("metrics", "-c", str(node.properties), "--json")
    found: dict[str, Any] = json.loads(completed.stdout)["metrics"] if completed.returncode == 0 else {}
    return found


def test_a_quorum_is_seen_through_its_nodes_metrics(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(voters=3, observers=1, **SETTINGS)
    quorum.start()

    def leader_of_all() -> int | None:
        # On a busy machine, the first leader may lose the leadership before all have heard of it.
        leader_id = quorum.leader().id
        states = dict.fromkeys(quorum.voter_ids, "follower") | {leader_id: "leader", 4: "observer"}
        told = {id: metrics_of(node).get("current-state") for id, node in quorum.nodes.items()}
        return leader_id if told == states else None

    leader_id = wait_until("every node's metrics say what it is", leader_of_all)

    def after_a_commit() -> dict[str, Any] | None:
        # Of two leaders in a row, the second may measure a commit before the observer has fetched from it.
        quorum.produce(["value"])
        found = metrics_of(quorum.nodes[leader_id])
        return found if "commit-latency-avg" in found and found["number-of-observers"] > 0 else None

    of_leader = wait_until("the leader has measured a commit and a fetch of the observer", after_a_commit)
    assert (of_leader["current-leader"], of_leader["number-of-voters"], of_leader["is-observer"]) == (leader_id, 3, 0)
    assert (of_leader["number-of-observers"], of_leader["number-of-offline-voters"]) == (1, 0)
    assert 0 < of_leader["poll-idle-ratio-avg"] <= 1
    assert 0 < of_leader["commit-latency-avg"] <= of_leader["commit-latency-max"]

    killed, stopped = quorum.nodes[leader_id % 3 + 1], quorum.nodes[4]
    killed.kill()
    wait_until(
        "the leader misses the voter",
        lambda: metrics_of(quorum.nodes[leader_id]).get("number-of-offline-voters") == 1,
    )
    stopped.stop()
    assert "there is no such file: the node is not running" in kraft("metrics", "-c", str(stopped.properties)).stderr
    wait_until("the killed node's metrics are old", lambda: not metrics_of(killed))
    completed = kraft("metrics", "-c", str(killed.properties))
    assert completed.returncode == 1
    assert completed.stderr.endswith("s old: the node is not running, or hangs\n")
    assert ["current-state", "follower"] in [line.split() for line in completed.stdout.splitlines()]
