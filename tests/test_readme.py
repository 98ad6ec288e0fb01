"""What README.md shows is run: its embedding example and its lines for Kafka clients, as they stand there."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.programs import ALLOWED_SECONDS, REPOSITORY, run

README = (REPOSITORY / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def block_that_begins_with(start: str) -> str:
    [block] = [text for _, text in BLOCKS if text.startswith(start)]
    return block


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one Python program of README.md, in a file of its own; it finds its ports and directories by itself."""
    [program] = [text for language, text in BLOCKS if language == "python"]
    path = tmp_path_factory.mktemp("readme") / "bank.py"
    path.write_text(program)
    return path


@pytest.mark.acceptance
def test_the_embedding_example_runs_and_its_replicas_agree(example: Path) -> None:
    leader, *replicas = run([sys.executable, str(example)]).splitlines()
    assert re.fullmatch(r"leader: node [123], last offset: \d+", leader)
    assert replicas == [f"node {id}: {{'alice': 70, 'bob': 20, 'carol': 60}}" for id in (1, 2, 3)]


def test_the_embedding_example_is_typed_and_formatted(example: Path) -> None:
    settings = str(REPOSITORY / "pyproject.toml")
    run([sys.executable, "-m", "mypy", "--strict", "--config-file", settings, str(example)])
    run([sys.executable, "-m", "ruff", "format", "--check", "--config", settings, str(example)])


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The quickstart's quorum, up until the tests are over; its addresses."""
    with subprocess.Popen(
        [sys.executable, "scripts/quickstart.py"], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as process:
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
            process.wait(ALLOWED_SECONDS)


@pytest.mark.acceptance
def test_the_lines_for_kafka_python_work_against_the_quickstart(quickstart: str) -> None:
    program = f"B = {quickstart!r}\n" + block_that_begins_with("from kafka import")
    offset, *records = run([sys.executable, "-c", program]).splitlines()
    assert records[-1] == f"{offset} b'from kafka-python'"
    assert [line.split(" ", 1)[1] for line in records[:5]] == [f"b'record {number}'" for number in range(1, 6)]


@pytest.mark.acceptance
@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_the_lines_for_kcat_work_against_the_quickstart(quickstart: str) -> None:
    output = run(["bash", "-ec", block_that_begins_with("printf")], B=quickstart)
    values = [line.split(" ", 1)[1] for line in output.splitlines()]
    assert values[:5] == [f"record {number}" for number in range(1, 6)]
    assert values[-2:] == ["one", "two"]


def test_the_two_commands_come_first() -> None:
    _, first = BLOCKS[0]
    assert re.findall(r"^scripts/\w+", first, re.MULTILINE) == ["scripts/quickstart", "scripts/test"]
    assert README.index("```") < 20
