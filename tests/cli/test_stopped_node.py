"""`kraft metadata-quorum explain -c FILE`: the directory of a node that does not answer is looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from harness.ports import free_ports
from kraft_trio import NodeConfig, VoterSet, first_voter, format_node, random_uuid
from kraft_trio.cli import run
from kraft_trio.cli.directory import stopped_node
from kraft_trio.cli.directory.directory_info import describe_directory
from kraft_trio.cli.directory.stopped_node import directory_problem, with_directory
from kraft_trio.cli.quorum import explain_command
from kraft_trio.config.jaas import PLAIN_MODULE
from kraft_trio.diagnosis.quorum_situation import Claim, Situation
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import Endpoint
from kraft_trio.security.sasl_network import SaslNetwork
from kraft_trio.storage.checks.quarantine import note_damage
from kraft_trio.storage.directory.quorum_state import encode_quorum_state
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.wire.tcp_network import TcpNetwork

pytestmark = pytest.mark.rotating(2)


def formatted(directory: Path) -> tuple[str, NodeConfig]:
    """The configuration's file, and what it says."""
    [port] = free_ports(1)
    keys = {
        "node.id": "1",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{port}",
        "metadata.log.dir": str(directory / "node"),
    }
    file = directory / "node.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    config = NodeConfig.from_mapping(keys)
    format_node(config, cluster_id=random_uuid(), voters=VoterSet([first_voter(config)]))
    return str(file), config


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def leave(free_bytes: int) -> None:
        monkeypatch.setattr(RealDisk, "free_bytes", lambda self, path: free_bytes)

    leave(2**40)
    return leave


def problem_of(config: NodeConfig) -> str | None:
    disk = RealDisk()
    try:
        return directory_problem(disk, config)
    finally:
        disk.close()


def test_full_disk_is_named(tmp_path: Path, room: Callable[[int], None], capsys: pytest.CaptureFixture[str]) -> None:
    file, config = formatted(tmp_path)
    room(5000)
    assert run(["metadata-quorum", "explain", "-c", file]) == 1
    told = capsys.readouterr().out
    full = (
        f"{config.metadata_log_dir}: the disk has 4 KiB left. A node whose disk is full ends: make room, then start it."
    )
    assert f"Node {config.node_id} does not answer. Found on this machine: {full}\n" in told


def test_read_only_disk_is_named(
    tmp_path: Path, room: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever room it has: a medium that cannot be written has none."""
    file, config = formatted(tmp_path)
    room(0)
    monkeypatch.setattr(RealDisk, "is_read_only", lambda self, path: path == config.metadata_log_dir)
    assert run(["metadata-quorum", "explain", "-c", file]) == 1
    told = capsys.readouterr().out
    assert f"{config.metadata_log_dir}: its file system is read-only, as after an error of the disk." in told
    assert "make room" not in told


def test_file_in_the_advice_is_the_one_that_was_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, config = formatted(tmp_path)
    partition = Path(config.metadata_log_dir) / "__cluster_metadata-0"
    (partition / "quorum-state").write_bytes(encode_quorum_state(ElectionState(1), 1, VoterSet()))
    (partition / f"{0:020}.log").write_bytes(b"record")
    (partition / "quorum-state").unlink()
    assert run(["metadata-quorum", "explain", "-c", file]) == 1
    told = capsys.readouterr().out
    assert f"kraft storage recover -c {file} --unsafe-epoch" in told
    assert "FILE" not in told


@pytest.mark.parametrize("is_witness", [False, True])
def test_node_is_started_as_its_directory_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_witness: bool
) -> None:
    """By the command as it is to be copied: with the file that was given."""
    file, _ = formatted(tmp_path)
    with Path(file).open("a") as properties:
        properties.write(f"kraft.witness={is_witness}\n")
    (tmp_path / "node" / "bootstrap.checkpoint").touch()
    assert run(["metadata-quorum", "explain", "-c", file]) == 1
    kafkas, ours = f"    bin/kafka-server-start.sh {file}\n", f"    kraft server start -c {file}\n"
    assert (ours if is_witness else kafkas) in capsys.readouterr().out


def test_directory_of_an_observer_is_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no controller listener, and nobody names it while it is down."""
    asked, own = free_ports(2)
    file = tmp_path / "observer.properties"
    file.write_text(
        f"node.id=7\nprocess.roles=broker\nmetadata.log.dir={tmp_path}/node\nlisteners=CLIENT://127.0.0.1:{own}\n"
        f"controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=127.0.0.1:{asked}\n"
    )
    assert run(["metadata-quorum", "explain", "-c", str(file)]) == 1
    assert f"Found on this machine: {tmp_path}/node: there is no such directory." in capsys.readouterr().out


def test_list_of_a_kafka_broker_is_what_may_be_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its process may well run, and its keys are Kafka's: neither a command to start it nor a warning of them."""
    first, second, own = free_ports(3)
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "meta.properties").write_text(f"version=1\nnode.id=7\ncluster.id={random_uuid()}\n")
    file = tmp_path / "broker.properties"
    servers = f"127.0.0.1:{first},127.0.0.1:{second}"
    file.write_text(
        f"node.id=7\nprocess.roles=broker\nlog.dirs={tmp_path}/node\nlisteners=PLAINTEXT://127.0.0.1:{own}\n"
        f"controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers={servers}\n"
        "offsets.topic.replication.factor=1\nnum.io.threads=8\n"
    )
    assert run(["metadata-quorum", "explain", "-c", str(file)]) == 1
    told = capsys.readouterr()
    named = servers.replace(",", ", ")
    assert (
        f"`controller.quorum.bootstrap.servers` in {file} names {named}: if the controllers listen elsewhere, name "
        "them there, and restart node 7." in told.out
    )
    assert "start.sh" not in told.out
    assert "kraft server" not in told.out
    assert "warning" not in told.err


def test_directory_of_a_node_that_names_no_other_is_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, config = formatted(tmp_path)
    lines = Path(file).read_text().splitlines(keepends=True)
    Path(file).write_text("".join(line for line in lines if "bootstrap" not in line))
    Path(config.metadata_log_dir).rename(tmp_path / "elsewhere")
    assert run(["metadata-quorum", "explain", "-c", file]) == 1
    assert "Found on this machine: " in capsys.readouterr().out


def test_sound_directory_is_not_blamed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, config = formatted(tmp_path)
    assert problem_of(config) is None
    assert run(["metadata-quorum", "explain", "-c", file]) == 1
    assert "Found on this machine" not in capsys.readouterr().out


def test_what_a_directory_tells(tmp_path: Path) -> None:
    _, config = formatted(tmp_path)
    node, disk = Path(config.metadata_log_dir), RealDisk()
    note_damage(disk, str(node / "__cluster_metadata-0"), "wrong CRC")
    disk.close()
    assert problem_of(config) == (
        f"{node}/__cluster_metadata-0/damaged: a read found damage: wrong CRC. Replace the disk."
    )
    (node / "__cluster_metadata-0" / "damaged").unlink()
    log = node / "__cluster_metadata-0" / f"{0:020}.log"
    log.write_bytes(b"record")
    missing = f"{node}/__cluster_metadata-0/quorum-state: missing, expected next to {log}, which has 6 bytes: "
    assert str(problem_of(config)).startswith(missing)
    assert describe_directory(RealDisk(), config).problems == [str(problem_of(config)).removesuffix(".")]
    state = node / "__cluster_metadata-0" / "quorum-state"
    state.write_bytes(encode_quorum_state(ElectionState(1), 1, VoterSet()))
    assert problem_of(config) is None
    state.unlink()
    log.unlink()
    properties = node / "meta.properties"
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=2"))
    assert problem_of(config) == f"{node}: formatted for node 2, not for node.id=1."
    properties.write_text("broken")
    assert str(problem_of(config)).startswith(f"{properties}: ")
    properties.unlink()
    assert problem_of(config) == f"{node}: not formatted. Mount its disk."
    node.rename(tmp_path / "elsewhere")
    assert problem_of(config) == f"{node}: there is no such directory. Mount its disk."


async def test_node_that_answers_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own answer counts."""
    _, config = formatted(tmp_path)
    monkeypatch.setattr(stopped_node, "directory_problem", lambda disk, config: "looked at")
    for problem, node_id, expected in ((None, 1, None), ("refused", 1, "looked at"), ("refused", 2, None)):
        found = await with_directory(Situation((Claim("a:1", problem, node_id),)), config, "node.properties")
        assert found.claims[0].directory_problem == expected
    expired = "TLS handshake failed: certificate verify failed: certificate has expired"
    found = await with_directory(Situation((Claim("a:1", expired, 1),)), config, "node.properties")
    assert found.claims[0].directory_problem is None


async def test_disk_that_hangs_costs_its_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, config = formatted(tmp_path)
    monkeypatch.setattr(stopped_node, "DISK_TIMEOUT_S", 0.1)
    released = trio.Event()

    async def hang(*args: Any, **options: Any) -> None:
        await released.wait()

    monkeypatch.setattr(trio.to_thread, "run_sync", hang)
    found = await with_directory(Situation((Claim("a:1", "refused", 1),)), config, "node.properties")
    assert found.claims[0].directory_problem == (
        f"{config.metadata_log_dir}: the disk did not answer within 0.1 s. Check it."
    )


def test_quorum_is_asked_as_the_node_asks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, config = formatted(tmp_path)
    with Path(file).open("a") as more:
        more.write("listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT\nsasl.enabled.mechanisms=PLAIN\n")
        more.write("sasl.mechanism.controller.protocol=PLAIN\nadvertised.listeners=CONTROLLER://a:1\n")
        more.write(f'sasl.jaas.config={PLAIN_MODULE} required username="node" password="x" user_node="x";\n')
    asked: list[tuple[object, object]] = []

    async def ask_all(network: object, endpoints: object, **options: Any) -> Situation:
        asked.append((network, endpoints))
        return Situation((Claim("a:1", None, 1, "c", 5, None, (1,)),))

    monkeypatch.setattr(explain_command, "ask_all", ask_all)
    assert run(["metadata-quorum", "explain", "-c", file]) == 1
    [(network, endpoints)] = asked
    assert isinstance(network, SaslNetwork)
    assert endpoints == (Endpoint("a", 1), *config.quorum_bootstrap_servers)
    again = f"    kraft metadata-quorum --bootstrap-controller a:1 --command-config {file} explain\n"
    assert again in capsys.readouterr().out
    assert run(["metadata-quorum", "--bootstrap-controller", "b:2", "explain", "-c", file]) == 1
    assert asked[1][1] == (Endpoint("b", 2),)
    assert asked[2][1] == [Endpoint("b", 2), *config.quorum_bootstrap_servers], "and the servers in the file"
    client = tmp_path / "client.properties"
    client.write_text("")
    assert run(["metadata-quorum", "--command-config", str(client), "explain", "-c", file]) == 1
    assert (type(asked[3][0]), asked[3][1]) == (TcpNetwork, endpoints), "as the operator asks, but the same nodes"
