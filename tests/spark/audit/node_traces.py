"""Traces of real nodes: of a quorum whose leader is killed and whose members change, and what may be left of them."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import attrs

from kraft_trio.cli import run as run_command_line
from kraft_trio.tracing.events import TraceEvent
from kraft_trio.tracing.files import TraceHeader, TraceWriter, open_trace
from tests.acceptance.node_process import NodeProcess
from tests.acceptance.quorum import Quorum

Change = Callable[[TraceHeader, list[TraceEvent]], list[TraceEvent]]
"""From the events of one file to what is to be written of them."""


def write_node_traces(folder: Path, traces: Path) -> str:
    """Three nodes and one that joins; a leader is killed and comes back, another one is removed; their cluster id.

    Each node has one file in `traces` for each of its processes.
    """
    quorum = Quorum(folder, voters=3, observers=1)

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
        leader = quorum.leader(besides=killed.id)
        quorum.produce(["without it"], leader)
        start(killed)
        killed.wait_until_listening()
        quorum.wait_until_caught_up()
        _command(
            "--bootstrap-controller", str(leader.endpoint), "add-controller", "-c", str(quorum.nodes[4].properties)
        )
        quorum.produce(["of four"])
        leader = quorum.leader()
        _command("--bootstrap-controller", quorum.bootstrap_servers, "remove-controller", "-i", str(leader.id))
        quorum.produce(["of three"], quorum.leader(besides=leader.id))
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


def _command(*arguments: str) -> None:
    """`kraft metadata-quorum`, in this process."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as complaints:
        assert run_command_line(["metadata-quorum", *arguments]) == 0, complaints.getvalue()
