"""`kraft metadata-quorum describe`: the layouts, and the command line over a real socket."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import UUID

import attrs
import pytest

from kraft_trio.cli import run
from kraft_trio.cli.quorum.quorum_layout import replication_fields, replication_text, status_fields, status_text
from kraft_trio.client.admin import AdminClient
from kraft_trio.client.quorum_description import NodeView, NoLeader, QuorumDescription, ReplicaState
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey

ENDPOINTS = {1: Endpoints({"CONTROLLER": Endpoint("a", 9093)}), 2: Endpoints({"CONTROLLER": Endpoint("b", 9094)})}
QUORUM = QuorumDescription(
    cluster_id="fMCL8kv1SWm87L_Md-I2hg",
    leader_id=2,
    leader_epoch=15,
    high_watermark=234130,
    voters=(
        ReplicaState(ReplicaKey(1, UUID(int=1 << 120)), 234100, 1700000000000, 1700000000100),
        ReplicaState(ReplicaKey(2, UUID(int=2 << 120)), 234134, 1700000000200, 1700000000200),
    ),
    observers=(ReplicaState(ReplicaKey(7)),),
    endpoints=ENDPOINTS,
)
VOTER_1 = {
    "id": 1,
    "directoryId": "AQAAAAAAAAAAAAAAAAAAAA",
    "endpoints": ["CONTROLLER://a:9093"],
}


def test_the_status_has_the_lines_of_kip_853() -> None:
    lines = status_text(QUORUM).splitlines()
    assert lines[:6] == [
        "ClusterId:              fMCL8kv1SWm87L_Md-I2hg",
        "LeaderId:               2",
        "LeaderEpoch:            15",
        "HighWatermark:          234130",
        "MaxFollowerLag:         34",
        "MaxFollowerLagTimeMs:   100",
    ]
    label, _, voters = lines[6].partition(" ")
    assert label == "CurrentVoters:"
    assert json.loads(voters)[0] == VOTER_1
    assert lines[7:] == ['CurrentObservers:       [{"id": 7}]'], "as Kafka's tool shows an unknown directory id"


def test_the_status_as_json() -> None:
    fields = status_fields(QUORUM)
    assert (fields["leaderId"], fields["maxFollowerLag"], fields["currentVoters"][0]) == (2, 34, VOTER_1)


def test_the_status_during_a_reassignment() -> None:
    fields = status_fields(attrs.evolve(QUORUM, target_voters=QUORUM.voters[:1], reassignment_status="removing 2"))
    assert (fields["targetVoters"], fields["reassignmentStatus"]) == ([VOTER_1], "removing 2")


def test_only_the_voter_of_an_id_has_its_endpoints() -> None:
    """Not its incarnation on another disk, which observes, nor the voter that is on its way out."""
    other_disk = ReplicaState(ReplicaKey(1, UUID(int=9 << 120)))
    removed = ReplicaState(ReplicaKey(3, UUID(int=3 << 120)))
    quorum = attrs.evolve(QUORUM, observers=(other_disk,), committed_voters=(*QUORUM.voters, other_disk, removed))
    fields = status_fields(quorum)
    assert [voter["endpoints"] for voter in fields["currentVoters"]] == [
        ["CONTROLLER://a:9093"],
        ["CONTROLLER://b:9094"],
    ]
    assert fields["currentObservers"] == [{"id": 1, "directoryId": "CQAAAAAAAAAAAAAAAAAAAA"}]
    assert ["endpoints" in voter for voter in fields["committedVoters"]] == [True, True, False, False]


def test_the_replication_table_begins_with_the_leader() -> None:
    lines = [line.split() for line in replication_text(QUORUM).splitlines()]
    assert lines == [
        ["NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"],
        ["2", "AgAAAAAAAAAAAAAAAAAAAA", "234134", "0", "1700000000200", "1700000000200", "Leader"],
        ["1", "AQAAAAAAAAAAAAAAAAAAAA", "234100", "34", "1700000000000", "1700000000100", "Follower"],
        ["7", "AAAAAAAAAAAAAAAAAAAAAA", "-1", "-1", "-1", "-1", "Observer"],
    ]
    assert replication_fields(QUORUM)[1]["lag"] == 34


def test_the_columns_are_aligned() -> None:
    header, *rows = replication_text(QUORUM).splitlines()
    column = header.index("LogEndOffset")
    assert [row[column - 1] + row[column:].split()[0] for row in rows] == [" 234134", " 234100", " -1"]


def test_timestamps_for_people() -> None:
    """Of KIP-836.  The leader's clock may be ahead of this one."""
    lines = replication_text(QUORUM, now_ms=1700000000150).splitlines()
    ages = [re.split("  +", line)[-3:] for line in lines[1:]]
    assert ages == [
        ["-50 ms ago", "-50 ms ago", "Leader"],
        ["150 ms ago", "50 ms ago", "Follower"],
        ["-1", "-1", "Observer"],
    ]


@pytest.fixture
def answer_with(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make the admin client answer as the test says; what it was asked is in the list."""
    asked: list[tuple[Any, int]] = []

    def install(answer: QuorumDescription | NoLeader) -> list[tuple[Any, int]]:
        async def describe_metadata_quorum(self: AdminClient, timeout_ms: int) -> QuorumDescription | NoLeader:
            asked.append((self._finder.bootstrap, timeout_ms))
            return answer

        monkeypatch.setattr(AdminClient, "describe_metadata_quorum", describe_metadata_quorum)
        return asked

    return install


@pytest.mark.parametrize("flag", ["--bootstrap-controller", "--bootstrap-server"])
def test_the_command_prints_what_was_asked_for(flag: str, answer_with: Any, capsys: pytest.CaptureFixture[str]) -> None:
    asked = answer_with(QUORUM)
    command = ["metadata-quorum", flag, "a:1,[::1]:2", "describe"]
    outputs = []
    for options in (["--status"], ["--replication"], ["--status", "--json"], ["--replication", "--json"]):
        assert run([*command, *options]) == 0
        outputs.append(capsys.readouterr().out.rstrip("\n"))
    assert outputs[:2] == [status_text(QUORUM), replication_text(QUORUM)]
    assert [json.loads(output) for output in outputs[2:]] == [status_fields(QUORUM), replication_fields(QUORUM)]
    assert asked[0] == ((Endpoint("a", 1), Endpoint("::1", 2)), 5000)


def test_no_leader_is_told_in_the_nodes_words_and_exits_with_1(
    answer_with: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    views = (NodeView(Endpoint("a", 1), None, None, 5), NodeView(Endpoint("b", 2), "Connection refused"))
    answer_with(NoLeader("cid", views))
    command = ["metadata-quorum", "--bootstrap-controller", "a:1", "describe", "--status"]
    assert run(command) == 1
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "ClusterId:              cid",
        "LeaderId:               none",
        "Node:                   a:1: knows no leader in epoch 5",
        "Node:                   b:2: Connection refused",
    ]
    assert captured.err == "kraft: error: no leader: 1 of the 2 nodes asked could be reached\n"
    assert run([*command, "--json"]) == 1
    fields = json.loads(capsys.readouterr().out)
    assert (fields["leaderId"], fields["nodes"][0]["leaderEpoch"], fields["nodes"][1]["reachable"]) == (-1, 5, False)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (
            ["describe", "--status"],
            2,
            "give one of --bootstrap-controller and --bootstrap-server before `describe` "
            "(see kraft metadata-quorum --help)",
        ),
        (["--bootstrap-controller", "a", "describe", "--status"], 1, "--bootstrap-controller a: 'a' has no port"),
        (["--bootstrap-server", ",", "describe", "--status"], 1, "an entry between two commas is empty"),
        (["--bootstrap-server", "", "describe", "--status"], 1, "--bootstrap-server: expected host:port"),
        (["--bootstrap-controller", "a:1", "describe"], 2, "give one of --status, --replication"),
        (["--bootstrap-controller", "a:1", "describe", "--status", "--replication"], 2, "give one of --status"),
    ],
)
def test_a_wrong_command_line(
    arguments: list[str], exit_code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["metadata-quorum", *arguments]) == exit_code
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
