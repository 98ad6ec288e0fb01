"""What `kraft storage format` and `kraft server start` refuse: one line that says why, an exit code, nothing changed.

Each happens to one node of a live quorum, whose other nodes continue.  Root may write anywhere, so "read-only" is shown
with what stops root as well: a file where a directory must be, a directory where a file must be, and /proc.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.command import kraft
from harness.node import NodeProcess
from harness.ports import free_ports
from harness.quorum import Quorum
from harness.segments import written_bytes
from harness.waiting import wait_until
from kraft_trio.cli.terminal.exit_codes import ExitCode
from kraft_trio.client.known_voter import OVERRIDE
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.unharmed import unharmed

LONE = 3
"""The node that is stopped while the tests try to start it."""


@pytest.fixture(scope="module")
def quorum(make_module_quorum: MakeQuorum) -> Quorum:
    """Nodes 1 and 2 run; node 3 has run and was killed, so that its directory is one in use."""
    quorum = make_module_quorum(is_steady=True)
    quorum.start()
    quorum.produce(["before"])
    quorum.wait_until_caught_up()
    lone = quorum.nodes[LONE]
    while quorum.leader() is lone:
        lone.stop()  # it hands over, as a killed one would not
        quorum.start([LONE])
        quorum.wait_until_caught_up()
    lone.kill()
    return quorum


@pytest.fixture
def lone(quorum: Quorum) -> Iterator[NodeProcess]:
    """A stopped node whose files a test may damage.  The others keep committing."""
    node = quorum.nodes[LONE]
    kept = node.directory.with_name("kept")
    shutil.copytree(node.directory, kept)
    yield node
    if node.directory.is_dir():
        shutil.rmtree(node.directory)
    else:
        node.directory.unlink(missing_ok=True)
    kept.rename(node.directory)
    assert all(other.running for other in quorum.nodes.values() if other is not node)
    quorum.produce(["still committing"])


DERIVED = {".lock", ".index", ".timeindex", ".snapshot"}
"""Files made from the log whenever it is opened or closed, and the lock, which holds nothing."""


def files_below(directory: Path) -> dict[str, bytes]:
    """The content of every file in the directory, except derived files."""
    files = (path for path in directory.rglob("*") if path.is_file() and not {path.name, path.suffix} & DERIVED)
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def assert_refused(completed: subprocess.CompletedProcess[str], *named: str, code: int = 1) -> None:
    """That exit code, and a last line on stderr that names all of that; log lines may come before it."""
    assert completed.returncode == code, completed.stderr
    assert "Traceback" not in completed.stderr
    last = completed.stderr.splitlines()[-1]
    assert last.startswith("kraft: error: ")
    for name in named:
        assert name in last, f"{name!r} is not in {last!r}"


def start(node: NodeProcess, *overrides: str) -> subprocess.CompletedProcess[str]:
    """Start a node that is expected to end by itself."""
    options = [part for override in overrides for part in ("--override", override)]
    return kraft("server", "start", "-c", str(node.properties), "--log-format", "json", *options)


def test_the_node_starts_when_nothing_is_wrong_with_it(quorum: Quorum, lone: NodeProcess) -> None:
    """The refusals below are worth something because of this one."""
    quorum.start([LONE])
    quorum.wait_until_caught_up()
    lone.kill()


@pytest.mark.usefixtures("by_exec")
def test_formatting_twice(quorum: Quorum, lone: NodeProcess) -> None:
    before = files_below(lone.directory)
    again = quorum.format(lone)
    assert_refused(again, str(lone.directory), "already formatted")
    assert again.stderr.count("\n") == 1
    assert files_below(lone.directory) == before


def test_formatting_twice_on_purpose(quorum: Quorum, lone: NodeProcess) -> None:
    before = files_below(lone.directory)
    options = ["-t", quorum.cluster_id, "-c", str(lone.properties), "-I", quorum.initial_controllers]
    assert kraft("storage", "format", *options, "--ignore-formatted").returncode == 0
    assert files_below(lone.directory) == before


def test_formatting_an_empty_mount_point_of_a_live_voter(quorum: Quorum, lone: NodeProcess) -> None:
    shutil.rmtree(lone.directory)
    assert_refused(quorum.format(lone), "is a voter of the running quorum", "mount its disk", f"replace -i {LONE}")
    assert not lone.directory.exists()


@pytest.mark.parametrize("running", [True, False])
def test_formatting_for_another_cluster(quorum: Quorum, lone: NodeProcess, running: bool) -> None:
    node = quorum.nodes[1] if running else lone
    identity = (node.directory / "meta.properties").read_bytes()
    another = kraft("storage", "random-uuid").stdout.strip()
    for ignore in ([], ["--ignore-formatted"]):
        completed = kraft("storage", "format", "-t", another, "-c", str(node.properties), "-N", *ignore)
        assert_refused(completed, "cluster.id", another)
    assert (node.directory / "meta.properties").read_bytes() == identity


def test_starting_as_another_node(lone: NodeProcess) -> None:
    before = files_below(lone.directory)
    assert_refused(start(lone, "node.id=7"), str(lone.directory), "7", str(LONE), code=ExitCode.DIRECTORY)
    assert files_below(lone.directory) == before


def test_a_missing_directory(lone: NodeProcess) -> None:
    shutil.rmtree(lone.directory)
    assert_refused(start(lone), str(lone.directory))
    assert not lone.directory.exists()


def test_a_directory_that_is_not_formatted(lone: NodeProcess) -> None:
    shutil.rmtree(lone.directory)
    lone.directory.mkdir()
    assert_refused(start(lone), str(lone.directory), "not formatted")
    assert files_below(lone.directory) == {}


def test_a_file_in_place_of_the_directory(quorum: Quorum, lone: NodeProcess) -> None:
    shutil.rmtree(lone.directory)
    lone.directory.write_bytes(b"not a directory")
    assert_refused(start(lone), str(lone.directory))
    assert_refused(quorum.format(lone), str(lone.directory))
    assert lone.directory.read_bytes() == b"not a directory"


def test_a_directory_that_cannot_be_written(lone: NodeProcess) -> None:
    (lone.directory / ".lock").unlink(missing_ok=True)
    (lone.directory / ".lock").mkdir()
    before = files_below(lone.directory)
    assert_refused(start(lone), str(lone.directory))
    assert files_below(lone.directory) == before


def test_formatting_where_nothing_can_be_written(quorum: Quorum, lone: NodeProcess) -> None:
    for place in ("/proc/kraft-node", "/proc/tty"):
        properties = lone.directory.with_name("elsewhere.properties")
        properties.write_text(lone.properties.read_text().replace(str(lone.directory), place))
        options = ["-t", quorum.cluster_id, "-c", str(properties), "-I", quorum.initial_controllers, OVERRIDE]
        assert_refused(kraft("storage", "format", *options), place)


def test_a_port_in_use(lone: NodeProcess) -> None:
    before, log = files_below(lone.directory), lone.log_bytes()
    with socket.create_server((lone.endpoint.host, lone.endpoint.port)):
        assert_refused(start(lone), str(lone.endpoint.port), "in use")
    assert files_below(lone.directory)["meta.properties"] == before["meta.properties"]
    assert lone.log_bytes() == log


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 100,
        b'{"leaderId":1,"leaderEpoch":1',
        b'{"leaderId":1,"leaderEpoch":-4,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
        b'{"leaderId":1,"leaderEpoch":"4","votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
        b'{"leaderId":1,"leaderEpoch":4,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":9}',
        b'{"leaderId":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
        b"[]",
        b'{"leaderId":1,"leaderEpoch":4,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}\n'
        b"0123abcd\n",
    ],
)
def test_a_corrupt_quorum_state(lone: NodeProcess, content: bytes) -> None:
    (lone.partition_directory / "quorum-state").write_bytes(content)
    before = files_below(lone.directory)
    assert_refused(start(lone), str(lone.partition_directory / "quorum-state"), code=ExitCode.DIRECTORY)
    assert files_below(lone.directory) == before


@pytest.mark.parametrize("content", [b"", b"version=1\n", b"version=7\ncluster.id=x\nnode.id=3\n", b"\xff\xfe\x00"])
def test_a_corrupt_meta_properties(lone: NodeProcess, content: bytes) -> None:
    (lone.directory / "meta.properties").write_bytes(content)
    before = files_below(lone.directory)
    assert_refused(start(lone), str(lone.directory / "meta.properties"), code=ExitCode.DIRECTORY)
    assert files_below(lone.directory) == before


def test_a_second_process_on_the_same_directory(quorum: Quorum, lone: NodeProcess) -> None:
    running = quorum.nodes[1]
    before = running.quorum_state_bytes()
    [port] = free_ports(1)
    completed = start(running, f"listeners=CONTROLLER://127.0.0.1:{port}")
    assert_refused(completed, str(running.directory), "the lock is held")
    assert running.running
    assert running.quorum_state_bytes() == before


def test_damage_in_the_middle_of_the_log(lone: NodeProcess) -> None:
    """Valid batches follow, so it is no torn tail: the node must not serve or vote (scenario S13)."""
    [path] = lone.partition_directory.glob("*.log")
    log = bytearray(written_bytes(path))
    log[100] ^= 0x01
    path.write_bytes(log)
    before = files_below(lone.directory)
    assert_refused(start(lone), str(path), code=ExitCode.DIRECTORY)
    assert files_below(lone.directory) == before


def test_a_torn_tail_is_cut(quorum: Quorum, lone: NodeProcess) -> None:
    """A last write that a crash cut short was acknowledged to nobody; it is no reason to refuse."""
    [path] = lone.partition_directory.glob("*.log")
    with path.open("ab") as log:
        log.write(path.read_bytes()[:80])
    quorum.start([LONE])
    quorum.assert_logs_equal()
    lone.kill()


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("controller.quorum.fetch.timeout.ms=soon", "controller.quorum.fetch.timeout.ms"),
        ("listeners=nowhere", "listeners"),
        ("process.roles=king", "process.roles"),
        ("node.id=-1", "node.id"),
    ],
)
def test_configuration_that_cannot_be_used(lone: NodeProcess, override: str, named: str) -> None:
    before = files_below(lone.directory)
    assert_refused(start(lone, override), named, override.split("=")[1], code=ExitCode.CONFIGURATION)
    assert files_below(lone.directory) == before


def test_a_node_of_another_cluster_is_kept_out(quorum: Quorum, make_quorum: MakeQuorum) -> None:
    """It runs, since its own cluster may still come; it says what is wrong, and nobody's state changes."""
    stray = make_quorum(0, 1).nodes[1]
    stray.start([f"controller.quorum.bootstrap.servers={quorum.bootstrap_servers}"])
    stray.wait_until_listening()
    with unharmed(quorum, [1, 2]):
        wait_until("it says what is wrong", lambda: "inconsistent_cluster_id" in stray.log_text())
    assert stray.log_bytes() == b""
    assert stray.stop() == 0
