"""`kraft metadata-quorum transfer-leadership`: the command line."""

from __future__ import annotations

import pytest
from fake_quorum import FakeQuorum
from quorums import CLUSTER_ID

from kraft_trio.cli import run
from kraft_trio.client.quorum_description import NoLeader
from kraft_trio.errors import ApiNotServedError, RefusedError

TRANSFER = ["metadata-quorum", "--bootstrap-controller", "a:1", "transfer-leadership"]


def test_a_voter_is_made_leader(fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*TRANSFER, "--to", "2", "--timeout-ms", "7000"]) == 0
    assert fake.asked == [("transfer", 2, {"cluster_id": CLUSTER_ID, "timeout_ms": 7000})]
    assert capsys.readouterr().out == "Node 2 leads epoch 6; node 1 has handed over\n"


def test_a_voter_that_leads_is_left_alone(fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*TRANSFER, "--to", "1"]) == 0
    assert fake.asked == []
    assert capsys.readouterr().out == "Nothing to do: node 1 leads epoch 5\n"


def test_a_refusal_is_told(fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    fake.errors = [RefusedError("transfer leadership to node 9: VOTER_NOT_FOUND: node 9 is no voter")]
    assert run([*TRANSFER, "--to", "9"]) == 1
    assert "node 9 is no voter" in capsys.readouterr().err


def test_leader_of_kafka_is_named(fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    fake.errors = [ApiNotServedError("TransferLeadership: the node does not serve it")]
    assert run([*TRANSFER, "--to", "2"]) == 1
    assert capsys.readouterr().err == (
        "kraft: error: node 1 leads, and is a controller of Apache Kafka, which cannot be asked to hand over: stop it "
        "with SIGTERM, and another voter leads\n"
    )


def test_without_a_leader_nothing_is_asked(fake: FakeQuorum) -> None:
    fake.description = NoLeader(None, ())
    assert run([*TRANSFER, "--to", "2"]) == 1
    assert fake.asked == []
