"""`kraft metadata-quorum explain`: its layout and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kraft_trio.cli import explain_command, run
from kraft_trio.protocol.quorum_findings import Claim, LeaderReport, Situation, VoterReport
from kraft_trio.protocol.replica_health import Health, ReplicaHealth
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.security.tls_network import TlsNetwork

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


def test_without_a_leader_the_exit_code_is_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, Situation((Claim("a:1", "refused\x1b[2J", 1), Claim("b:1", None, 2, voter_ids=(1, 2, 3)))))
    assert run(COMMAND) == 1
    told = capsys.readouterr()
    assert "critical: No leader: 2 of the voters 1, 2, 3 are needed" in told.out
    assert "\n    kraft server start -c FILE\n" in told.out
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
