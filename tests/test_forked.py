"""A forked child lets go of the node's lock, port and connections, and its calls are refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kraft_trio import NodeConfig, sync
from tests.support.single_voter import single_voter

HERE = Path(__file__).parent
PARENT = HERE / "support" / "forking.py"


@pytest.fixture
def config(tmp_path: Path) -> NodeConfig:
    return single_voter(tmp_path)


@contextmanager
def parent_and_child(config: NodeConfig, way: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """A process with a node, and its child.  What the child was told comes first, and it lives until the end."""
    arguments = [
        sys.executable,
        "-W",
        "ignore",
        str(PARENT),
        way,
        str(config.metadata_log_dir),
        str(config.listeners[0]),
    ]
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE.parent)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, f"{way}: the parent has ended"
        yield process, json.loads(line)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()  # The child reads it, and ends.
        process.stdout.close()


@pytest.mark.rotating(4)
@pytest.mark.parametrize("way", ["sync", "aio", "trio", "apply", "multiprocessing", "grandchild", "preexec"])
def test_a_child_is_refused_and_holds_nothing_of_the_node(config: NodeConfig, way: str) -> None:
    with parent_and_child(config, way) as (parent, told):
        assert told.pop("alive")
        assert len(told) > 0 or way == "preexec"
        for name, said in told.items():
            assert "called in a forked child" in said, name
        parent.kill()
        parent.wait()
        # The child lives.  Neither the lock nor the port is held any more.
        with sync.open_node(config) as node:
            assert node.append([b"again"])


@pytest.mark.rotating(2)
@pytest.mark.parametrize("way", ["leaves the block", "raises in the block"])
def test_a_child_can_leave_the_block(config: NodeConfig, way: str) -> None:
    with parent_and_child(config, way) as (_, told):
        assert told == {"alive": "left"}


def test_the_parent_does_not_notice(config: NodeConfig) -> None:
    with parent_and_child(config, "sync") as (parent, _):
        assert parent.stdout is not None
        parent.send_signal(signal.SIGUSR1)
        assert json.loads(parent.stdout.readline())["appended"]


@pytest.mark.rotating(3)
@pytest.mark.parametrize("way", ["forkserver", "spawn", "subprocess"])
def test_started_programs_inherit_nothing(config: NodeConfig, way: str) -> None:
    with parent_and_child(config, way) as (parent, told):
        assert "alive" in told
        parent.kill()
        parent.wait()
        with sync.open_node(config) as node:
            assert node.append([b"again"])


def test_descriptors_of_a_node_close_when_a_program_is_executed(config: NodeConfig) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with sync.open_node(config, state_machine=None) as node:
        node.append([b"value"])
        opened = {int(name) for name in set(os.listdir("/proc/self/fd")) - before}
        inheritable = []
        for descriptor in opened:
            try:
                if os.get_inheritable(descriptor):
                    inheritable.append(descriptor)
            except OSError:
                pass  # that of the listing itself
    assert len(opened) > 5
    assert inheritable == []
