"""The pages about the library name every method, and their lines for Kafka clients run as they are."""

from __future__ import annotations

import inspect
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from harness.command import KRAFT
from kraft_trio import AdminClient, LogClient, Node, StateMachine
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.machine import Machine
from kraft_trio.simulation.world import World
from kraft_trio.testing import SimulatedMachine, VirtualCluster
from tests.support.programs import ALLOWED_SECONDS, REPOSITORY, run

DOCUMENT = (REPOSITORY / "docs" / "how-to" / "kafka-clients.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)


def block_that_begins_with(start: str) -> str:
    [block] = [text for _, text in BLOCKS if text.startswith(start)]
    return str(block)


@pytest.mark.parametrize(
    ("cls", "document", "heading"),
    [
        (Node, "reference/library.md", "The other methods of a node"),
        (LogClient, "reference/library.md", "All methods of LogClient"),
        (AdminClient, "reference/library.md", "Administer a quorum"),
        (StateMachine, "reference/library.md", "A state machine"),
        (VirtualCluster, "reference/simulator.md", "All methods of VirtualCluster"),
        (SimulatedMachine, "reference/simulator.md", "All methods of SimulatedMachine"),
        (World, "reference/simulator.md", "All methods of Cluster"),
        (Cluster, "reference/simulator.md", "All methods of Cluster"),
        (Machine, "reference/simulator.md", "All methods of Machine"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_every_public_method_is_explained(cls: type, document: str, heading: str) -> None:
    text = (REPOSITORY / "docs" / document).read_text()
    section = re.split(r"^##", text.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    rows = " ".join(re.findall(r"^\| (.*?) \|", section, re.MULTILINE))
    named = set(re.findall(r"`(?:await |async )?(\w+)", rows))
    if cls is Node:
        named |= set(re.findall(r"\bnode\.(\w+)", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)))
    members = {name for name, member in vars(cls).items() if inspect.isfunction(member) or isinstance(member, property)}
    assert {name for name in members if not name.startswith("_")} - named == set()


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The quickstart's quorum, up until the tests are over; its addresses."""
    with subprocess.Popen([KRAFT, "quickstart"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            # The quickstart bounds itself: without a quorum it gives up and its output ends.
            found = next(
                (match for line in lines if (match := re.search(r"up at (\S+), topic quickstart", line))), None
            )
            assert found is not None, "the quickstart ended without a quorum"
            yield found[1]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(ALLOWED_SECONDS) == 0


@pytest.mark.acceptance
@pytest.mark.rotating(3)
def test_the_lines_for_kafka_python_work(quickstart: str) -> None:
    program = f"B = {quickstart!r}\n" + block_that_begins_with("from kafka import")
    offset, *records = run([sys.executable, "-c", program]).splitlines()
    assert records[-1] == f"{offset} b'from kafka-python'"
    assert [line.split(" ", 1)[1] for line in records[:5]] == [f"b'record {number}'" for number in range(1, 6)]


@pytest.mark.acceptance
@pytest.mark.rotating(3)
@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_the_lines_for_kcat_work(quickstart: str) -> None:
    output = run(["bash", "-ec", block_that_begins_with("printf")], B=quickstart)
    values = [line.split(" ", 1)[1] for line in output.splitlines()]
    assert values[:5] == [f"record {number}" for number in range(1, 6)]
    assert values[-2:] == ["one", "two"]
