"""A quorum of real processes that writes traces, is written to, and is disturbed; then TLC checks the traces."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from harness.command import kraft
from harness.node import NodeProcess
from harness.quorum import Quorum
from harness.waiting import wait_until
from scripts.trace_checking.checking import Verdict, check
from scripts.trace_checking.killed import completed
from scripts.trace_checking.merging import merged
from scripts.trace_checking.steps import steps_of
from tests.acceptance.test_node_traces import read, start, trace_of

PAUSE_S = 0.2
"""Between two batches; a trace of a thousand steps is checked in some ten seconds."""
TARGETS = 3


def start_all(quorum: Quorum) -> None:
    """Start the nodes that do not run, and wait until they listen."""
    nodes = [node for node in quorum.nodes.values() if not node.running]
    for node in nodes:
        start(node)
    for node in nodes:
        node.wait_until_listening()


@contextmanager
def writing(quorum: Quorum) -> Iterator[None]:
    """Write a small batch again and again."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            while not stop.wait(PAUSE_S):
                quorum.produce(["value"])
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failures, failures


def wait_until_told(node: NodeProcess, role: str) -> None:
    """Wait until its trace has the node in that role: one that is killed before cannot be checked."""

    def is_told() -> bool:
        return [event.role for event in read(trace_of(node))[1] if event.role is not None][-1:] == [role]

    wait_until(f"node {node.id} is {role} in its trace", is_told)


def kill_leader(quorum: Quorum, random: Random) -> None:
    leader = quorum.leader()
    wait_until_told(leader, "Leader")
    leader.kill()
    quorum.leader()


def kill_another(quorum: Quorum, random: Random) -> None:
    leader = quorum.leader()
    another = random.choice([node for node in quorum.nodes.values() if node is not leader])
    wait_until_told(another, "Follower")
    another.kill()


def stop_leader(quorum: Quorum, random: Random) -> None:
    assert quorum.leader().stop(signal.SIGTERM) == 0


def take_snapshots(quorum: Quorum, random: Random) -> None:
    taken = kraft("snapshot", "take", "--bootstrap-controller", quorum.bootstrap_servers, "--all")
    assert taken.returncode == 0, taken.stderr


def reassign(quorum: Quorum, random: Random) -> None:
    ids = ",".join(map(str, sorted(random.sample(sorted(quorum.nodes), TARGETS))))
    servers = quorum.bootstrap_servers
    changed = kraft("metadata-quorum", "--bootstrap-controller", servers, "reassign", "--to", ids, "--wait")
    assert changed.returncode == 0, changed.stderr


Disturbance = Callable[[Quorum, Random], None]
DISTURBANCES: tuple[Disturbance, ...] = (kill_leader, kill_another, stop_leader, take_snapshots, reassign)


def disturb(quorum: Quorum, disturbance: Disturbance, random: Random) -> None:
    """Disturb the quorum, and wait until all nodes run and have its log again."""
    disturbance(quorum, random)
    start_all(quorum)
    quorum.leader()


def checked(quorum: Quorum, jar: Path) -> Verdict:
    """Stop the nodes, and check their traces."""
    quorum.wait_until_caught_up()
    for node in quorum.nodes.values():
        assert node.stop(signal.SIGTERM) == 0
    traces = [[event for path in traces_of(node) for event in read(path)[1]] for node in quorum.nodes.values()]
    [verdict] = check(jar, [steps_of(merged(completed(traces)))]).verdicts
    return verdict


def traces_of(node: NodeProcess) -> list[Path]:
    """The files of the node's processes, the oldest first."""
    newest = trace_of(node)
    older = sorted(newest.parent.glob(f"{newest.name}.*"), key=lambda path: int(path.suffix[1:]))
    return [*older, newest]
