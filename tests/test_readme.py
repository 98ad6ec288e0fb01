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
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of the Python programs of README.md; each finds its ports and directories by itself."""
    directory = tmp_path_factory.mktemp("readme")
    for language, program in BLOCKS:
        if language == "python":
            named = re.search(r"^\"\"\".* python (\w+\.py)\"\"\"$", program, re.MULTILINE)
            assert named is not None, "a program's first line says how to run it"
            (directory / named[1]).write_text(program)
    return directory


@pytest.mark.acceptance
def test_the_embedding_example_runs_and_its_replicas_agree(programs: Path) -> None:
    leader, *replicas = run([sys.executable, str(programs / "bank.py")]).splitlines()
    assert re.fullmatch(r"leader: node [123], last offset: \d+", leader)
    assert replicas == [f"node {id}: {{'alice': 70, 'bob': 20, 'carol': 60}}" for id in (1, 2, 3)]


@pytest.mark.acceptance
def test_the_example_with_snapshots_begins_again_with_what_it_saved(programs: Path) -> None:
    before, loaded, after = run([sys.executable, str(programs / "tally.py")]).splitlines()
    assert before == "{b'be': 2, b'not': 1, b'or': 1, b'to': 2}"
    assert f"`{loaded}`" in README
    assert after == "{b'be': 2, b'is': 1, b'not': 1, b'or': 1, b'that': 1, b'to': 2}"


def test_the_programs_are_typed_and_formatted(programs: Path) -> None:
    settings = str(REPOSITORY / "pyproject.toml")
    files = [str(path) for path in sorted(programs.iterdir())]
    assert len(files) == 2
    run([sys.executable, "-m", "mypy", "--strict", "--config-file", settings, *files])
    run([sys.executable, "-m", "ruff", "format", "--check", "--config", settings, *files])


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
