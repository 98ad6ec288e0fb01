"""`kraft metadata-quorum describe --snapshots` and `kraft snapshot take`: what is printed, and which exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import pytest

from kraft_trio.cli import run
from kraft_trio.cli.quorum.snapshot_layout import snapshot_fields, snapshot_text
from kraft_trio.cli.snapshots.snapshot_take import nodes_of
from kraft_trio.cli.terminal.each_node import Told
from kraft_trio.client.admin import AdminClient
from kraft_trio.client.quorum_description import NodeView, NoLeader, QuorumDescription, ReplicaState
from kraft_trio.client.replica_snapshots import ReplicaSnapshot, ReplicaSnapshots
from kraft_trio.errors import NetworkError, RefusedError, UnsupportedVersionError
from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey

ONE, TWO, THREE = (Endpoint(host, 9093) for host in ("a", "b", "c"))
EMPTY = ReplicaSnapshots(
    endpoint=ONE,
    key=ReplicaKey(1, UUID(int=1 << 120)),
    has_state_machine=False,
    log_start_offset=0,
    log_end=OffsetAndEpoch(12, 3),
    log_size_in_bytes=400,
    high_watermark=-1,
    snapshots=(),
)
WITH_TWO = ReplicaSnapshots(
    endpoint=TWO,
    key=ReplicaKey(2, UUID(int=2 << 120)),
    has_state_machine=True,
    log_start_offset=7,
    log_end=OffsetAndEpoch(120, 4),
    log_size_in_bytes=1,
    high_watermark=119,
    snapshots=(
        ReplicaSnapshot(OffsetAndEpoch(9, 3), 344, 1_700_000_000_000),
        ReplicaSnapshot(OffsetAndEpoch(100, 4), 2000, 1_700_000_000_500),
    ),
    took_ms=1500,
)
QUORUM = QuorumDescription(
    cluster_id="fMCL8kv1SWm87L_Md-I2hg",
    leader_id=2,
    leader_epoch=4,
    high_watermark=119,
    voters=(ReplicaState(EMPTY.key), ReplicaState(WITH_TWO.key)),
    endpoints={1: Endpoints({"CONTROLLER": ONE}), 2: Endpoints({"CONTROLLER": TWO, "OTHER": THREE})},
)


def test_the_table_has_a_line_a_node_and_names_the_silent_ones() -> None:
    told: Told = {THREE: NetworkError(f"{THREE}: Connection refused"), TWO: WITH_TWO, ONE: EMPTY}
    names, first, second, silent = snapshot_text(told).splitlines()
    assert " ".join(names.split()) == (
        "NodeId Endpoint LogStartOffset LogEnd LogBytes Snapshots Newest NewestBytes NewestCovers StateMachine"
    )
    assert first.split() == ["1", "a:9093", "0", "12@3", "400", "0", "-", "-", "-", "no"]
    assert second.split() == ["2", "b:9093", "7", "120@4", "1", "2", "100@4", "2000", "1700000000500", "yes"]
    assert silent == "c:9093: Connection refused"
    assert "2023-11-14 22:13:20.500+00:00" in snapshot_text(told, human_readable=True)
    silent_alone: Told = {THREE: NetworkError("c:9093: no answer")}
    assert snapshot_text(silent_alone) == "c:9093: no answer"


def test_as_json() -> None:
    first, second = snapshot_fields({ONE: UnsupportedVersionError(f"{ONE}: Kafka's"), TWO: WITH_TWO})
    assert (first["nodeId"], first["logStartOffset"], first["logBytes"], first["stateMachine"]) == (2, 7, 1, True)
    assert first["snapshots"][1] == {
        "snapshotId": {"offset": 100, "epoch": 4},
        "bytes": 2000,
        "lastContainedLogTimestamp": 1_700_000_000_500,
    }
    assert second == {"endpoint": "a:9093", "problem": "Kafka's"}


class Scripted:
    """Stands in for AdminClient: what the quorum and each node answer."""

    def __init__(self, quorum: QuorumDescription | NoLeader, nodes: dict[Endpoint, Any]) -> None:
        self.quorum = quorum
        self.nodes = nodes
        self.asked: list[Endpoint] = []
        self.cluster_ids: list[str | None] = []

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def describe_quorum(_client: AdminClient, _timeout_ms: int = 0) -> QuorumDescription | NoLeader:
            return self.quorum

        async def describe(_client: AdminClient, node: Endpoint, _timeout_ms: int = 0) -> ReplicaSnapshots:
            return self.answer(node)

        async def take(
            _client: AdminClient, node: Endpoint, *, cluster_id: str | None, timeout_ms: int
        ) -> ReplicaSnapshots:
            self.cluster_ids.append(cluster_id)
            return self.answer(node)

        monkeypatch.setattr(AdminClient, "describe_metadata_quorum", describe_quorum)
        monkeypatch.setattr(AdminClient, "describe_snapshots", describe)
        monkeypatch.setattr(AdminClient, "take_snapshot", take)

    def answer(self, node: Endpoint) -> ReplicaSnapshots:
        self.asked.append(node)
        answer = self.nodes[node]
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, ReplicaSnapshots)
        return answer


def test_the_voters_that_the_leader_knows_are_asked_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted = Scripted(QUORUM, {ONE: EMPTY, TWO: WITH_TWO})
    scripted.use(monkeypatch)
    command = ["metadata-quorum", "--bootstrap-controller", str(ONE), "describe", "--snapshots"]
    assert run(command) == 0
    assert sorted(scripted.asked) == [ONE, TWO]
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert run([*command, "--json"]) == 0
    assert [node["nodeId"] for node in json.loads(capsys.readouterr().out)] == [1, 2]


def test_without_a_leader_those_named_are_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    no_leader = NoLeader(None, (NodeView(ONE, "no answer"),))
    Scripted(no_leader, {ONE: NetworkError(f"{ONE}: no answer"), TWO: WITH_TWO}).use(monkeypatch)
    assert run(["metadata-quorum", "--bootstrap-controller", f"{ONE},{TWO}", "describe", "--snapshots"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == "a:9093: no answer"
    assert err == "kraft: error: 1 of the 2 nodes asked did not answer\n"


@pytest.mark.parametrize("flags", [[], ["--status", "--snapshots"], ["--replication", "--snapshots"]])
def test_one_view_at_a_time(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metadata-quorum", "--bootstrap-controller", str(ONE), "describe", *flags]) == 2
    assert "give one of --status, --replication and --snapshots" in capsys.readouterr().err


class TestTake:
    def test_each_node_that_is_named(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        as_new = ReplicaSnapshots(ONE, EMPTY.key, True, 3, OffsetAndEpoch(5, 1), 0, 5, WITH_TWO.snapshots[:1])
        scripted = Scripted(QUORUM, {ONE: as_new, TWO: WITH_TWO})
        scripted.use(monkeypatch)
        assert run(["snapshot", "take", "--bootstrap-controller", f"{ONE},{TWO},{ONE}"]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "Node 1 at a:9093: snapshot 9@3, 344 bytes, already up to date, nothing written; its log begins at "
            "offset 3",
            "Node 2 at b:9093: snapshot 100@4, 2000 bytes, taken in 1.500 s; its log begins at offset 7",
        ]
        assert sorted(scripted.asked) == [ONE, TWO]
        assert scripted.cluster_ids == [None, None]

    def test_all_voters_of_the_cluster(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        scripted = Scripted(QUORUM, {ONE: RefusedError(f"{ONE}: INVALID_REQUEST: no state machine"), TWO: WITH_TWO})
        scripted.use(monkeypatch)
        assert run(["snapshot", "take", "--bootstrap-controller", str(THREE), "--all"]) == 1
        out, err = capsys.readouterr()
        assert out.startswith("Node 2 at b:9093: snapshot 100@4")
        assert err == "kraft: error: a:9093: INVALID_REQUEST: no state machine\n"
        assert scripted.cluster_ids == [QUORUM.cluster_id] * 2

    def test_voters_whose_place_nobody_knows(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """As at kraft.version 0."""
        static = QuorumDescription("c", 2, 4, 1, QUORUM.voters)
        Scripted(static, {}).use(monkeypatch)
        assert run(["snapshot", "take", "--bootstrap-controller", str(ONE), "--all"]) == 1
        assert "name each of them with --bootstrap-controller" in capsys.readouterr().err

    def test_the_node_of_a_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "node.properties"
        text = (
            "node.id=2\nlisteners=CONTROLLER://{}\nmetadata.log.dir=data\ncontroller.quorum.bootstrap.servers=b:9093\n"
        )
        path.write_text(text.format(TWO))
        Scripted(QUORUM, {TWO: WITH_TWO}).use(monkeypatch)
        assert run(["snapshot", "take", "-c", str(path)]) == 0
        assert capsys.readouterr().out.startswith("Node 2 at b:9093: ")

    @pytest.mark.parametrize(
        ("arguments", "exit_code", "reason"),
        [
            ([], 2, "give one of --bootstrap-controller and -c"),
            (["--bootstrap-controller", "h:1", "-c", "f"], 2, "give one of --bootstrap-controller and -c"),
            (["--bootstrap-controller", "h"], 1, "--bootstrap-controller h: 'h' has no port"),
            (["--bootstrap-controller", ""], 1, "--bootstrap-controller: expected host:port"),
            (["--bootstrap-controller", "h:1", "--timeout", "0"], 2, "--timeout"),
        ],
    )
    def test_a_command_line_that_makes_no_sense(
        self, arguments: list[str], exit_code: int, reason: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for command in ("take", "save"):
            file = ["file"] if command == "save" else []
            assert run(["snapshot", command, *arguments, *file]) == exit_code
            assert reason in capsys.readouterr().err


def test_a_file_names_the_rest_of_its_quorum(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(
        f"node.id=2\nlisteners=CONTROLLER://{TWO}\nmetadata.log.dir=d\ncontroller.quorum.bootstrap.servers={ONE},{TWO}\n"
    )
    context = click.Context(click.Command("save"))
    assert nodes_of(context, None, str(path), and_its_quorum=True) == (TWO, ONE)
    assert nodes_of(context, None, str(path)) == (TWO,)
