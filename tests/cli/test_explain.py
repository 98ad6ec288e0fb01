"""`kraft metadata-quorum explain`: its layout and exit codes."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import attrs
import pytest

from kraft_trio.cli import run
from kraft_trio.cli.quorum import explain_command
from kraft_trio.diagnosis.quorum_situation import Claim, LeaderReport, Situation, VoterReport
from kraft_trio.protocol.replica_health import Health, ReplicaHealth
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.security.tls_network import TlsNetwork
from kraft_trio.wire import tcp_network
from kraft_trio.wire.name_resolution import NameResolver

UP = ReplicaHealth(Health.UP)
HEALTHY = (
    Claim("a:1", None, 1, "c", 5, 1, (1, 2, 3), OffsetAndEpoch(10, 5), 10),
    Claim("b:1", None, 2, "c", 5, 1, (1, 2, 3), OffsetAndEpoch(10, 5), 9),
)
STALE = Claim("c:1", None, 3, "c", 4, 2, (1, 2), OffsetAndEpoch(8, 4), 8)
REPORT = LeaderReport(1, 5, 10, tuple(VoterReport(node_id, UP) for node_id in (1, 2, 3)))
COMMAND = ["metadata-quorum", "--bootstrap-controller", "a:1", "explain"]


def answering(monkeypatch: pytest.MonkeyPatch, situation: Situation) -> None:
    async def ask_all(*args: Any, **kwargs: Any) -> Situation:
        return situation

    monkeypatch.setattr(explain_command, "ask_all", ask_all)


def test_claims_stand_side_by_side(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answering(monkeypatch, Situation((*HEALTHY, STALE), REPORT))
    assert run(COMMAND) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[:4]] == [
        ["NodeId", "Endpoint", "Epoch", "Leader", "Voters", "LogEnd", "HighWatermark"],
        ["1", "a:1", "5", "1", "1,2,3", "10@5", "10"],
        ["2", "b:1", "5", "1", "1,2,3", "10@5", "9"],
        ["3", "c:1", "4!", "2!", "1,2!", "8@4", "8"],
    ]


def test_witnesses_and_brokers_are_marked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    witness, broker = attrs.evolve(HEALTHY[1], is_witness=True), Claim("d:1", None, 9, "c", 5, 1, is_broker=True)
    answering(monkeypatch, Situation((HEALTHY[0], witness, broker), REPORT))
    assert run(COMMAND) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[:4]]
    assert [(row[0], row[-1]) for row in rows] == [("NodeId", "Kind"), ("1", "-"), ("2", "witness"), ("9", "broker")]


def test_what_the_leader_reports_of_others(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    of_kafka = Claim("b:1", None, 2, "c", 5, 1, (1, 2, 3), reported_end=95)
    leader = Claim("a:1", None, 1, "c", 5, 1, (1, 2, 3), reported_end=100, reported_high_watermark=90)
    answering(monkeypatch, Situation((leader, of_kafka), REPORT))
    assert run(COMMAND) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:3]]
    assert [row[-2:] for row in rows] == [["100", "90"], ["95", "-"]]


def test_node_that_denies(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One of several is worth a warning, and all of them leave nothing to say about the quorum."""
    denying = Claim("c:1", None, 3, "c", denial="User:alice")
    answering(monkeypatch, Situation((*HEALTHY, denying), REPORT))
    assert run(COMMAND) == 0
    told = "warning: Node 3 runs, but denies DESCRIBE to User:alice. Allow it on the cluster"
    assert told in capsys.readouterr().out
    answering(monkeypatch, Situation((denying, Claim("d:1", None, None, denial="User:alice"))))
    assert run(COMMAND) == 1
    shown = capsys.readouterr()
    assert "critical: Node 3 and the node at d:1 run, but deny DESCRIBE to User:alice." in shown.out
    assert "critical: denied\n" in shown.err
    assert "Start" not in shown.out


def test_commands_to_copy_connect_as_this_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=PLAINTEXT\n")
    answering(monkeypatch, Situation(tuple(attrs.evolve(claim, leader_id=None) for claim in HEALTHY)))
    assert run([*COMMAND[:-1], "--command-config", str(file), COMMAND[-1]]) == 1
    asked = f"    kraft metadata-quorum --bootstrap-controller a:1,b:1 --command-config {file} explain\n"
    assert asked in capsys.readouterr().out


def test_denial_does_not_hide_a_lost_majority(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = (Claim("a:1", "refused", 1), Claim("b:1", "refused", 2))
    told = Claim("e:1", None, 5, "c", 5, None, (1, 2, 3), OffsetAndEpoch(10, 5), 10)
    answering(monkeypatch, Situation((*silent, Claim("c:1", None, 3, denial="User:alice"), told)))
    assert run(COMMAND) == 1
    shown = capsys.readouterr().out
    assert "two of the voters 1, 2, 3 are needed, and one can be reached. Silent: 1 (refused), 2 (refused)." in shown
    assert "denies DESCRIBE to User:alice" in shown


def test_without_a_leader_the_exit_code_is_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, Situation((Claim("a:1", "refused\x1b[2J", 1), Claim("b:1", None, 2, voter_ids=(1, 2, 3)))))
    assert run(COMMAND) == 1
    told = capsys.readouterr()
    assert "critical: No leader: two of the voters 1, 2, 3 are needed" in told.out
    assert (
        "\n    bin/kafka-server-start.sh FILE  # or, for a node of kraft-trio: kraft server start -c FILE\n" in told.out
    )
    assert "\x1b" not in told.out
    assert "critical: no-majority" in told.err


def test_the_same_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answering(monkeypatch, Situation((*HEALTHY, STALE), REPORT))
    assert run([*COMMAND, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [claim["contradicts"] for claim in told["claims"]] == [[], [], ["epoch", "leader", "voters"]]
    assert [finding["code"] for finding in told["findings"]] == ["other-epoch", "survival"]


def test_it_connects_as_the_command_config_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    networks = []

    async def ask_all(network: object, *args: Any, **kwargs: Any) -> Situation:
        networks.append(network)
        return Situation(HEALTHY, REPORT)

    monkeypatch.setattr(explain_command, "ask_all", ask_all)
    for protocol, expected in (("PLAINTEXT", False), ("SSL", True)):
        config = tmp_path / "client.properties"
        config.write_text(f"security.protocol={protocol}\n")
        command = ["metadata-quorum", "--command-config", str(config), "--bootstrap-controller", "a:1", "explain"]
        assert run(command) == 0
        assert isinstance(networks.pop(), TlsNetwork) == expected


def test_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metadata-quorum", "--bootstrap-controller", "127.0.0.1:1", "explain"]) == 1
    assert "critical: None of the nodes asked answers (127.0.0.1:1: " in capsys.readouterr().out


def test_a_name_that_is_not_resolved(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def look_up(*_: Any, **__: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(tcp_network, "NameResolver", lambda: NameResolver(look_up))
    assert run(["metadata-quorum", "--bootstrap-controller", "gone:9093", "explain"]) == 1
    told = capsys.readouterr().out
    assert "critical: None of the nodes asked answers (gone:9093: " in told
    assert "warning: The name gone is not resolved on this machine. Correct the name service" in told
