"""The traces of real nodes, put into one order, are a behaviour of the specification (scripts/trace-check --quorum)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from scripts.model_checking.tlc import TlcMissingError, jar
from scripts.trace_checking.checking import check
from scripts.trace_checking.merging import merged
from scripts.trace_checking.steps import steps_of
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.test_node_traces import read, start, trace_of


@pytest.fixture
def tlc_jar() -> Path:
    try:
        return jar(fetch=False)
    except TlcMissingError as missing:
        pytest.skip(str(missing))


@pytest.mark.rotating(5)
def test_a_leader_stops_and_comes_back(make_quorum: MakeQuorum, tlc_jar: Path) -> None:
    quorum = make_quorum()
    for node in quorum.nodes.values():
        start(node)
    for node in quorum.nodes.values():
        node.wait_until_listening()
    quorum.produce(["a", "b"])
    leader = quorum.leader()
    assert leader.stop(signal.SIGTERM) == 0
    quorum.produce(["c"])
    start(leader)
    leader.wait_until_listening()
    quorum.produce(["d"])
    quorum.wait_until_caught_up()
    for node in quorum.nodes.values():
        assert node.stop(signal.SIGTERM) == 0
    traces = []
    for node in quorum.nodes.values():
        # The file of an earlier process has been renamed.
        paths = [Path(f"{trace_of(node)}.1"), trace_of(node)]
        traces.append([event for path in paths if path.exists() for event in read(path)[1]])
    [verdict] = check(tlc_jar, [steps_of(merged(traces))]).verdicts
    assert verdict.refusal is None, verdict.refusal.told()
    assert verdict.followed == verdict.steps > 50
