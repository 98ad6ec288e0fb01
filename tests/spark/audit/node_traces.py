"""Traces of real nodes: of a quorum whose leader is killed and whose members change, and what may be left of them."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import attrs

from harness.node import NodeProcess
from harness.quorum import Quorum
from harness.waiting import wait_until
from kraft_trio.cli import run as run_command_line
from kraft_trio.tracing.events import TraceEvent
from kraft_trio.tracing.files import TraceHeader, TraceWriter, open_trace

Change = Callable[[TraceHeader, list[TraceEvent]], list[TraceEvent]]
"""Converts the events of one file to the events to write."""


PATIENT = {"controller.quorum.election.timeout.ms": "1000", "controller.quorum.fetch.timeout.ms": "3000"}
"""So long that no leader loses its place just because the machine is busy."""


def write_node_traces(folder: Path, traces: Path) -> str:
    """Three nodes and one that joins; a leader is killed and comes back, another one is removed; their cluster id.

    Each node has one file in `traces` for each of its processes.
    """
    quorum = Quorum(folder, voters=3, observers=1, settings=PATIENT)

    def start(node: NodeProcess) -> None:
        node.start(options=["--trace", str(traces / f"node-{node.id}.trace")])

    try:
        for node in quorum.nodes.values():
            start(node)
        for node in quorum.nodes.values():
            node.wait_until_listening()
        for number in range(10):
            quorum.produce([f"{number}-a", f"{number}-b"])
        quorum.wait_until_caught_up()
        killed = quorum.leader()
        killed.kill()
        quorum.produce(["without it"])
        start(killed)
        killed.wait_until_listening()
        quorum.wait_until_caught_up()
        joining = quorum.nodes[4]
        _change(quorum, lambda ids: 4 in ids, "add-controller", "-c", str(joining.properties))
        quorum.produce(["of four"])
        leader = quorum.leader().id
        _change(quorum, lambda ids: leader not in ids, "remove-controller", "-i", str(leader))
        quorum.produce(["of three"])
        quorum.wait_until_caught_up()
        for node in quorum.nodes.values():
            assert node.stop(signal.SIGTERM) == 0
    finally:
        quorum.kill_all()
    return quorum.cluster_id


def copy_traces(traces: Path, copies: Path, name: str, change: Change, *, without: str = "") -> None:
    """What `change` leaves of all files but those that match `without`, as of a cluster of that name."""
    (copies / name).mkdir(parents=True)
    left_out = set(traces.glob(without)) if without else set()
    for path in sorted({*traces.iterdir()} - left_out):
        with open_trace(path) as (header, events):
            seen = list(events)
        with TraceWriter(copies / name / path.name, attrs.evolve(header, cluster_id=name)) as writer:
            for event in change(header, seen):
                writer.write(event)


def _change(quorum: Quorum, is_made: Callable[[set[int]], bool], *command: str) -> None:
    """Run `kraft metadata-quorum` in this process until the voters have the expected ids."""

    def is_seen() -> bool:
        if is_made({voter.key.id for voter in quorum.described_by_leader()[1].voters}):
            return True
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            run_command_line(["metadata-quorum", "--bootstrap-controller", quorum.bootstrap_servers, *command])
        return False

    wait_until(" ".join(command), is_seen)
