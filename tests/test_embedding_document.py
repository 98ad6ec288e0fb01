"""docs/start/embedding.md: a reader who types its programs and commands sees what it says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from ast import literal_eval
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from harness.ports import free_ports
from kraft_trio import NodeConfig, ensure_formatted
from tests.support.programs import ALLOWED_SECONDS, REPOSITORY, check_program

DOCUMENT = (REPOSITORY / "docs" / "start" / "embedding.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
FIRST_PORT = 9093

pytestmark = pytest.mark.xdist_group("embedding")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The reader's folder with the three programs, on ports that are free now."""
    for program in PROGRAMS:
        named = re.match(r"\"\"\".*?(\w+\.py)", program)
        assert named is not None, "a program's first line names its file"
        (tmp_path / named[1]).write_text(program)
    shop = (tmp_path / "shop.py").read_text()
    for number, port in enumerate(free_ports(3)):
        shown = f"127.0.0.1:{FIRST_PORT + number}"
        assert shown in shop
        shop = shop.replace(shown, f"127.0.0.1:{port}")
    (tmp_path / "shop.py").write_text(shop)
    return tmp_path


def command_that_begins_with(start: str) -> list[str]:
    [command] = re.findall(rf"^(?:PYTHONPATH=\. )?({start}.*)$", DOCUMENT, re.MULTILINE)
    return str(command).split()


@contextmanager
def shop(folder: Path, *arguments: int) -> Iterator[Iterator[str]]:
    """A node in a terminal, with the lines that it prints, until Ctrl-C."""
    command = [sys.executable, "-u", "shop.py", *map(str, arguments)]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield iter(process.stdout.readline, "")
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=ALLOWED_SECONDS)
    assert process.returncode == 0


def constant(program: Path, name: str) -> Any:
    found = re.search(rf"^{name} = ([^#\n]*)", program.read_text(), re.MULTILINE)
    assert found is not None
    return literal_eval(found[1].strip())


async def format_three(folder: Path) -> None:
    """Before one of them starts: when two of them have had a second leader, nobody knows that the third is new."""
    addresses: dict[int, str] = constant(folder / "shop.py", "ADDRESSES")
    for node_id, address in addresses.items():
        config = NodeConfig(
            node_id=node_id,
            listeners=f"CONTROLLER://{address}",
            metadata_log_dir=folder / "data" / f"{node_id}-of-3",
        )
        await ensure_formatted(config, constant(folder / "shop.py", "CLUSTER_ID"), addresses)


def run_in(folder: Path, command: list[str]) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f".{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def left(lines: Iterator[str], below: int = sys.maxsize) -> int:
    """How many are left after the next sale that leaves fewer than `below`."""
    counts = (int(line.removeprefix("sold, left: ")) for line in lines if line.startswith("sold, left: "))
    return next(count for count in counts if count < below)


@pytest.mark.acceptance
def test_the_stock_of_one_node_is_there_after_a_restart(folder: Path) -> None:
    with shop(folder, 1, 1) as lines:
        assert next(lines) == "in stock: {}\n"
        assert left(lines) == 999
    with shop(folder, 1, 1) as lines:
        found = re.fullmatch(r"in stock: {'tea': (\d+)}\n", next(lines))
        assert found is not None
        assert int(found[1]) <= 999
        assert left(lines) == int(found[1]) + 1000 - 1


@pytest.mark.acceptance
@pytest.mark.rotating(3)
def test_two_of_three_nodes_go_on_selling(folder: Path) -> None:
    trio.run(format_three, folder)
    with ExitStack() as others:
        with shop(folder, 1, 3) as first:
            second, third = (others.enter_context(shop(folder, node_id, 3)) for node_id in (2, 3))
            last = left(first, below=min(left(second), left(third)))
        left(third, below=left(second, below=last))
        with shop(folder, 1, 3) as first:
            left(first)


@pytest.mark.acceptance
@pytest.mark.rotating(3)
def test_the_readers_test_passes_with_each_seed(folder: Path) -> None:
    [command] = re.findall(r"`(pytest -p [^`]*)`", DOCUMENT)
    ours = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    assert "5 passed" in run_in(folder, [sys.executable, "-m", *command.split(), *ours])


@pytest.mark.acceptance
@pytest.mark.nightly
def test_the_simulation_finds_the_shop_linearizable(folder: Path) -> None:
    _, *arguments = command_that_begins_with("kraft simulate")
    assert "5 seeds, " in run_in(folder, [str(Path(sys.executable).parent / "kraft"), *arguments])


@pytest.mark.xdist_group("mypy")
def test_the_programs_are_typed_and_formatted(folder: Path) -> None:
    files = sorted(folder.glob("*.py"))
    assert [file.name for file in files] == ["shop.py", "stock.py", "test_stock.py"]
    check_program(*files)
