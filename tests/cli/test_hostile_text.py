"""The words of peers and of records command no terminal and forge no line, whichever command prints them."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from fake_quorum import FakeQuorum

from kraft_trio.cli import run
from kraft_trio.client.admin import AdminClient
from kraft_trio.client.quorum_description import FeatureLevels, FeatureMetadata, NodeView, NoLeader, QuorumDescription
from kraft_trio.errors import KraftError
from kraft_trio.protocol.types import Endpoint, Endpoints, VersionRange
from kraft_trio.storage.batches.batch import NewRecord, encode_batch

HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\nLeaderId: 666\u202e\u200b\x9b31m"
COMMAND = ["metadata-quorum", "--bootstrap-controller", "127.0.0.1:9", "describe"]


def printed(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> list[str]:
    run(arguments)
    captured = capsys.readouterr()
    lines = [*captured.out.split("\n"), *captured.err.split("\n")]
    assert all(line.replace("\t", "").isprintable() for line in lines), lines
    assert not any(line.startswith("LeaderId: 666") for line in lines)
    return lines


@pytest.mark.parametrize("layout", [["--status"], ["--replication"], ["--status", "--json"]])
def test_a_quorum(layout: list[str], fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(fake.description, QuorumDescription)
    endpoints = Endpoints({HOSTILE: Endpoint(HOSTILE, 1)})
    fake.description = attrs.evolve(
        fake.description, cluster_id=HOSTILE, endpoints={voter.key.id: endpoints for voter in fake.description.voters}
    )
    lines = printed(capsys, [*COMMAND, *layout])
    assert any(str(fake.description.leader_id) in line for line in lines)


def test_nodes_without_a_leader(fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    fake.description = NoLeader(HOSTILE, (NodeView(Endpoint(HOSTILE, 1), problem=HOSTILE),))
    printed(capsys, [*COMMAND, "--status"])


def test_an_error_of_a_peer(fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    fake.errors = [KraftError(HOSTILE + "x" * 1_000_000)]
    lines = printed(capsys, [*COMMAND[:-1], "remove-controller", "-i", "2"])
    assert sum(map(len, lines)) < 30_000
    assert "kraft: error:" in "".join(lines)


def test_names_of_features(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def describe(*_: object) -> FeatureMetadata:
        return FeatureMetadata((FeatureLevels(HOSTILE, VersionRange(0, 1), 0),), 5)

    monkeypatch.setattr(AdminClient, "describe_features", describe)
    lines = printed(capsys, ["features", "--bootstrap-controller", "127.0.0.1:9", "describe"])
    assert lines[0].startswith("Feature: \\x1b[2J")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_records(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "00000000000000000000.log"
    records = [
        NewRecord(HOSTILE.encode(), key=HOSTILE.encode(), headers=((HOSTILE, b"x"),)),
        NewRecord(b"y" * 1_000_000, key=bytes(range(256))),
    ]
    path.write_bytes(encode_batch(records, timestamp_ms=1))
    lines = printed(capsys, ["dump-log", *options, str(path)])
    if not options:
        assert max(map(len, lines)) < 30_000
        assert "… (990000 more characters)" in lines[-3]
