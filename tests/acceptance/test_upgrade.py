"""Nodes of an earlier release and of this one: directories of the one serve the other, in both directions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.quorum import Quorum
from kraft_trio.cli import run as run_command_line
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.keyed_writer import BackgroundWriter, KeyedWriter
from tests.acceptance.kv_quorum import start_kv_quorum
from tests.acceptance.stateful_quorum import Sizes, assert_states_are_what_was_written, make_stateful_quorum
from tests.support.releases import SMALL, Release, put, releases, values_of

pytestmark = pytest.mark.usefixtures("by_exec")

PER_SECOND = 500
KEYS = 100


@pytest.fixture(params=releases(), ids=lambda release: release.version)
def release(request: pytest.FixtureRequest) -> Release:
    kept: Release = request.param
    return kept


@pytest.fixture
def code(release: Release, tmp_path: Path) -> Path:
    """The release's package."""
    directory = tmp_path / "release"
    release.unpack(directory)
    asked = "import kraft_trio; print(kraft_trio.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(directory)}
    said = subprocess.run(
        [sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert Path(said.stdout.strip()).is_relative_to(directory), "these nodes would be of this checkout"
    return directory


def nodes_are_of(code: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What starts from now on is of this release, or of the checkout."""
    monkeypatch.undo()
    if code is not None:
        monkeypatch.setenv("PYTHONPATH", str(code), prepend=os.pathsep)


@pytest.mark.rotating(4)
def test_directories_of_a_release_are_taken_up_and_given_back(
    release: Release, code: Path, make_quorum: MakeQuorum
) -> None:
    """Its voters have other addresses now, which they find by the bootstrap servers."""
    quorum = make_quorum(**{key.replace(".", "_"): value for key, value in SMALL.items()}, kraft_state_machine="kv")
    for node in quorum.nodes.values():
        shutil.rmtree(node.directory)
        shutil.copytree(release.directories / str(node.id), node.directory)
    values = dict(release.values)
    with pytest.MonkeyPatch.context() as monkeypatch:
        for number, runs in enumerate([None, code, None]):
            nodes_are_of(runs, monkeypatch)
            kv = start_kv_quorum(quorum)
            for node in quorum.nodes.values():
                assert values_of(kv, node.id) == values
            status, lease = kv.post(1, "/v3/lease/timetolive", {"ID": release.lease})
            assert (status, lease["grantedTTL"]) == (200, str(10**9))
            for key in range(40):
                values[f"key {key}"] = f"value {key} of start {number} " * 10
                put(kv, f"key {key}", values[f"key {key}"])
            quorum.wait_until_caught_up()
            for node in quorum.nodes.values():
                assert node.stop() == 0
    assert run_command_line(["audit", *(str(node.directory) for node in quorum.nodes.values())]) == 0


def restart_each(quorum: Quorum, writer: BackgroundWriter) -> None:
    """One node after another, while it is written to."""
    for node in quorum.nodes.values():
        assert node.stop() == 0
        quorum.start([node.id])
        quorum.wait_until_holds(node.id, quorum.described_by_leader()[1].high_watermark)
        writer.check()


@pytest.mark.rotating(8)
def test_a_quorum_is_upgraded_and_taken_back_under_load(code: Path, make_quorum: MakeQuorum) -> None:
    """Node by node, so that both releases vote and replicate together, and lead in turn."""
    quorum = make_stateful_quorum(make_quorum, Sizes.for_log_of(2_000_000))
    writer = KeyedWriter("upgraded", quorum.bootstrap_servers, KEYS)
    with pytest.MonkeyPatch.context() as monkeypatch:
        nodes_are_of(code, monkeypatch)
        quorum.start()
        with BackgroundWriter(writer, PER_SECOND) as background:
            for runs in (None, code, None):
                nodes_are_of(runs, monkeypatch)
                restart_each(quorum, background)
    assert_states_are_what_was_written(quorum, writer)
    print(f"{writer.sent} acknowledged, all there")
