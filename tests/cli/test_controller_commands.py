"""`kraft metadata-quorum add-controller` and `remove-controller`: the command lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from fake_quorum import FakeQuorum
from new_node import DIRECTORY_ID, NEW, NEW_UP
from quorums import CLUSTER_ID, key, leading, listeners, quorum, silent, up

from kraft_trio.cli import run
from kraft_trio.client.admin import AdminClient, VoterChangeError
from kraft_trio.client.quorum_description import NodeView, NoLeader
from kraft_trio.errors import OutcomeUnknownError, UnsupportedVersionError
from kraft_trio.protocol.types import Endpoint, ReplicaKey, directory_id_to_text
from kraft_trio.wire.error_codes import ErrorCode

pytestmark = pytest.mark.rotating(2)

QUORUM = ["metadata-quorum", "--bootstrap-controller", "a:1"]
REMOVE_3 = ["remove-controller", "-i", "3"]


class TestAdd:
    def test_it_says_what_kafka_says(
        self, fake: FakeQuorum, new_node: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.description = quorum(leading(), up(2), observers=(NEW_UP,))
        assert run([*QUORUM, "add-controller", "-c", new_node()]) == 0
        assert fake.asked == [("add", NEW, listeners(4), {"cluster_id": CLUSTER_ID, "timeout_ms": 30_000})]
        assert capsys.readouterr().out == (
            f"Added controller 4 with directory id {DIRECTORY_ID} and endpoints: CONTROLLER://node-4:9093\n"
        )

    @pytest.mark.parametrize("flag", ["--timeout", "--timeout-ms"])
    def test_the_time_for_it(self, flag: str, fake: FakeQuorum, new_node: Callable[..., str]) -> None:
        assert run([*QUORUM, "add-controller", "-c", new_node(), flag, "1234"]) == 0
        assert fake.asked[0][-1]["timeout_ms"] == 1234

    def test_the_file_says_where_the_quorum_is(self, fake: FakeQuorum, new_node: Callable[..., str]) -> None:
        assert run(["metadata-quorum", "add-controller", "-c", new_node()]) == 0
        assert fake.bootstrap[0] == (Endpoint("b", 2), Endpoint("c", 3))

    def test_the_file_where_kafka_has_it(self, fake: FakeQuorum, new_node: Callable[..., str]) -> None:
        assert run([*QUORUM, "--command-config", new_node(), "add-controller"]) == 0
        assert fake.asked[0][1] == NEW

    def test_the_dry_run_changes_nothing(
        self, fake: FakeQuorum, new_node: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.description = quorum(leading(), up(2), observers=(NEW_UP,))
        assert run([*QUORUM, "add-controller", "-c", new_node(), "--dry-run"]) == 0
        assert fake.asked == []
        assert capsys.readouterr().out.splitlines() == [
            f"DRY RUN of adding controller 4 with directory id {DIRECTORY_ID} and endpoints: CONTROLLER://node-4:9093",
            f"VotersBefore:           {key(1)}, {key(2)}",
            "MajorityBefore:         2 of 2, survives 0 failures; 2 up, survives 0 more now",
            f"VotersAfter:            {key(1)}, {key(2)}, {NEW}",
            "MajorityAfter:          2 of 3, survives 1 failure; 3 up, survives 1 more now",
            "Lagging:                none",
            "Offline:                none",
        ]

    @pytest.mark.parametrize("option", [[], ["--dry-run"], ["--force"]])
    def test_a_repeated_addition_changes_nothing_and_succeeds(
        self,
        option: list[str],
        fake: FakeQuorum,
        new_node: Callable[..., str],
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        fake.description = quorum(leading(), NEW_UP)
        assert run([*QUORUM, "add-controller", "-c", new_node(), *option]) == 0
        assert fake.asked == []
        captured = capsys.readouterr()
        assert (captured.out, captured.err) == (f"Nothing to do: {NEW} is a voter already\n", "")

    def test_an_addition_that_has_not_committed_is_not_done(
        self, fake: FakeQuorum, new_node: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.description = quorum(leading(), NEW_UP, committed_voters=(leading(),))
        options = ["metadata-quorum", "--bootstrap-controller", "a:1", "--timeout-ms", "1"]
        assert run([*options, "add-controller", "-c", new_node()]) == 1
        assert capsys.readouterr().err.endswith("kraft: error: a change of the voters has not committed yet\n")

    def test_a_node_that_somebody_else_added_meanwhile(
        self, fake: FakeQuorum, new_node: Callable[..., str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def too_late(self: AdminClient, voter: ReplicaKey, *arguments: Any, **options: Any) -> None:
            fake.description = quorum(leading(), up(2), NEW_UP)
            raise VoterChangeError(f"add voter {NEW}", ErrorCode.duplicate_voter, None)

        monkeypatch.setattr(AdminClient, "add_metadata_voter", too_late)
        assert run([*QUORUM, "add-controller", "-c", new_node()]) == 0

    def test_force_asks_the_leader(
        self, fake: FakeQuorum, new_node: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.description = quorum(leading(), up(4, 2))
        fake.errors = [VoterChangeError(f"add voter {NEW}", ErrorCode.duplicate_voter, "another disk is")]
        assert run([*QUORUM, "add-controller", "-c", new_node(), "--force"]) == 1
        assert len(fake.asked) == 1
        warning, error = capsys.readouterr().err.splitlines()
        assert warning.startswith(f"kraft: warning: controller 4 is a voter with another directory id, {key(4, 2)}")
        assert error == f"kraft: error: add voter {NEW}: DUPLICATE_VOTER: another disk is"

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"formatted_as": "5"}, "formatted for node 5, not for node.id=4"),
            ({"directory_id": None}, "no directory id yet; the node gets one at its next start"),
            ({"process.roles": "broker"}, "process.roles=broker: expected controller for a voter"),
        ],
    )
    def test_a_node_that_cannot_be_a_voter(
        self,
        fields: dict[str, str],
        message: str,
        fake: FakeQuorum,
        new_node: Callable[..., str],
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        assert run([*QUORUM, "add-controller", "-c", new_node(**fields)]) == 1
        assert message in capsys.readouterr().err
        assert fake.asked == []

    def test_a_directory_that_is_not_formatted(
        self, fake: FakeQuorum, new_node: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        path = new_node()
        (tmp_path / "data" / "meta.properties").unlink()
        assert run([*QUORUM, "add-controller", "-c", path]) == 1
        assert "not formatted; format it first (kraft storage format)" in capsys.readouterr().err


class TestAddById:
    """KIP-1141, from what observers tell the leader."""

    def test_the_directory_and_listeners_are_what_the_leader_knows(
        self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.description = quorum(
            leading(), up(2), observers=(silent(4, 7), attrs.evolve(NEW_UP, listeners=listeners(4)))
        )
        assert run([*QUORUM, "add-controller", "--controller-id", "4", "--dry-run"]) == 0
        told = f"controller 4 with directory id {DIRECTORY_ID} and endpoints: CONTROLLER://node-4:9093\n"
        assert capsys.readouterr().out.startswith(f"DRY RUN of adding {told}")
        assert run([*QUORUM, "add-controller", "--controller-id", "4"]) == 0
        assert fake.asked == [("add", NEW, listeners(4), {"cluster_id": CLUSTER_ID, "timeout_ms": 30_000})]
        assert capsys.readouterr().out == f"Added {told}"

    def test_two_disks_that_follow_are_told_apart(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        two = [attrs.evolve(state, listeners=listeners(4)) for state in (NEW_UP, up(4, 7))]
        fake.description = quorum(leading(), up(2), observers=tuple(two))
        assert run([*QUORUM, "add-controller", "-i", "4"]) == 1
        names = f"{NEW} and {key(4, 7)} follow the leader: name one with -d"
        assert capsys.readouterr().err.startswith(f"kraft: error: controller 4: {names}; the observers are {NEW}, ")
        assert run([*QUORUM, "add-controller", "-i", "4", "-d", DIRECTORY_ID]) == 0
        assert [voter for _, voter, *_ in fake.asked] == [NEW]

    @pytest.mark.parametrize(
        ("node_id", "reason"),
        [
            (4, f"controller {NEW} has told the leader no listener: a broker never does, nor do Apache Kafka's"),
            (5, f"controller 5: no such controller follows the leader; the observers are {NEW}"),
        ],
    )
    def test_who_cannot_be_added_so(
        self, node_id: int, reason: str, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.description = quorum(leading(), up(2), observers=(NEW_UP,))
        assert run([*QUORUM, "add-controller", "-i", str(node_id)]) == 1
        assert capsys.readouterr().err.startswith(f"kraft: error: {reason}")
        assert fake.asked == []

    def test_a_voter_is_one_already(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*QUORUM, "add-controller", "-i", "3"]) == 0
        assert capsys.readouterr().out == f"Nothing to do: {key(3)} is a voter already\n"


class TestRemove:
    def test_by_its_id_alone(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*QUORUM, "remove-controller", "-i", "3"]) == 0
        assert fake.asked == [("remove", key(3), {"cluster_id": CLUSTER_ID, "timeout_ms": 30_000})]
        directory_id = directory_id_to_text(key(3).directory_id)
        assert capsys.readouterr().out == f"Removed KRaft controller 3 with directory id {directory_id}\n"

    def test_by_both_ids(self, fake: FakeQuorum) -> None:
        directory_id = directory_id_to_text(key(2).directory_id)
        arguments = ["--controller-id", "2", "--controller-directory-id", directory_id]
        assert run([*QUORUM, "remove-controller", *arguments]) == 0
        assert fake.asked[0][1] == key(2)

    def test_the_dry_run_changes_nothing(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*QUORUM, "remove-controller", "-i", "1", "--dry-run"]) == 0
        assert fake.asked == []
        directory_id = directory_id_to_text(key(1).directory_id)
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == f"DRY RUN of removing KRaft controller 1 with directory id {directory_id}"
        assert lines[-1].startswith(f"Note:                   {key(1)} leads: ")

    @pytest.mark.parametrize("dry_run", [[], ["--dry-run"]])
    def test_what_would_stop_the_quorum_is_refused(
        self, dry_run: list[str], fake: FakeQuorum, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.description = quorum(leading(), up(2), silent(3))
        assert run([*QUORUM, "remove-controller", "-i", "2", *dry_run]) == 1
        assert "refused: it would stop the quorum" in capsys.readouterr().err
        assert fake.asked == []

    def test_unless_it_is_forced(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        fake.description = quorum(leading(), up(2), silent(3))
        assert run([*QUORUM, "remove-controller", "-i", "2", "--force"]) == 0
        assert "kraft: warning: it would stop the quorum" in capsys.readouterr().err
        assert fake.asked[0][1] == key(2)

    @pytest.mark.parametrize("dry_run", [[], ["--dry-run"]])
    @pytest.mark.parametrize(
        ("arguments", "line"),
        [
            (["-i", "9"], f"no voter has id 9: the voters are {key(1)}, {key(2)}, {key(3)}"),
            (
                ["-i", "3", "-d", DIRECTORY_ID],
                f"3-{DIRECTORY_ID} is not among the voters {key(1)}, {key(2)}, {key(3)}",
            ),
        ],
    )
    def test_an_unknown_voter_is_an_error_as_in_kafka_unless_it_may_be_missing(
        self,
        arguments: list[str],
        line: str,
        dry_run: list[str],
        fake: FakeQuorum,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        assert run([*QUORUM, "remove-controller", *arguments, *dry_run]) == 1
        error = f"kraft: error: VOTER_NOT_FOUND: {line} (--if-exists makes that no error)\n"
        assert capsys.readouterr() == ("", error)
        assert run([*QUORUM, "remove-controller", *arguments, *dry_run, "--if-exists"]) == 0
        assert fake.asked == []
        assert capsys.readouterr() == (f"Nothing to do: {line}\n", "")

    def test_by_the_id_alone_the_incarnation_that_goes_is_named_first(
        self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """After a disk was replaced, the old incarnation is the voter, and the new one observes."""
        fake.description = quorum(leading(), up(2), up(3), observers=(up(3, 2),))
        fake.errors = [OutcomeUnknownError("no answer")]
        assert run([*QUORUM, *REMOVE_3]) == 1
        voter_id = directory_id_to_text(key(3).directory_id)
        assert capsys.readouterr().err.splitlines()[0] == (
            f"kraft: note: removing controller 3 with directory id {voter_id}, which is the voter; "
            f"{key(3, 2)} observes and stays"
        )
        assert run([*QUORUM, *REMOVE_3, "-d", voter_id]) == 0
        assert capsys.readouterr().err == ""

    def test_a_retired_controller_is_unregistered_with_kafkas_words(
        self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """KIP-1312.  A dry run asks for nothing, and a removal that has happened is no obstacle."""
        assert run([*QUORUM, *REMOVE_3, "--unregister", "--dry-run"]) == 0
        assert capsys.readouterr().out.endswith("DRY RUN of unregistering KRaft controller 3\n")
        assert fake.asked == []
        assert run([*QUORUM, *REMOVE_3, "--unregister"]) == 0
        assert capsys.readouterr().out.endswith("\nUnregistered KRaft controller 3\n")
        assert [what for what, *_ in fake.asked] == ["remove", "unregister"]
        assert run([*QUORUM, *REMOVE_3, "--unregister", "--if-exists"]) == 0
        assert fake.asked[-1][:2] == ("unregister", 3)
        fake.errors = [UnsupportedVersionError("a:1 does not serve UnregisterController (94)")]
        assert run([*QUORUM, *REMOVE_3, "--unregister", "--if-exists"]) == 1
        assert capsys.readouterr().err == (
            "kraft: error: Failed to unregister controller 3: a:1 does not serve UnregisterController (94)\n"
        )

    def test_a_removal_that_has_not_committed_is_not_done(
        self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.description = quorum(leading(), up(2), committed_voters=(leading(), up(2), up(3)))
        assert run(["metadata-quorum", "--bootstrap-controller", "a:1", "--timeout-ms", "1", *REMOVE_3]) == 1
        assert capsys.readouterr().err.endswith("kraft: error: a change of the voters has not committed yet\n")

    def test_a_lost_answer_is_told_where_it_was_not_done(
        self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.errors = [OutcomeUnknownError("no answer")]
        assert run([*QUORUM, "remove-controller", "-i", "3"]) == 1
        assert capsys.readouterr().err.endswith("\nkraft: error: no answer; it has not been done so far\n")

    @pytest.mark.parametrize(
        ("arguments", "exit_code", "message"),
        [
            (["-i", "3", "-d", "short"], 1, "--controller-directory-id 'short' is not a UUID"),
            (["-i", "3", "-d", "A" * 22], 1, f"--controller-directory-id {'A' * 22}: reserved"),
            (["-i", "-3"], 2, "'-3' is not a whole number from 0 to 2147483647."),
            (["-i", "2147483648"], 2, "'2147483648' is not a whole number from"),
            (["-i", "3", "--timeout", "2147483648"], 2, "'2147483648' is not a whole number from"),
            ([], 2, "Missing option '-i' / '--controller-id'"),
        ],
    )
    def test_nobody_is_meant(
        self,
        arguments: list[str],
        exit_code: int,
        message: str,
        fake: FakeQuorum,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        assert run([*QUORUM, "remove-controller", *arguments]) == exit_code
        assert message in capsys.readouterr().err
        assert fake.asked == []


@pytest.mark.parametrize("command", [["remove-controller", "-i", "3"], ["replace", "-i", "3"]])
def test_without_a_leader_nothing_is_asked_for(
    command: list[str], fake: FakeQuorum, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.description = NoLeader("cid", (NodeView(Endpoint("a", 1), None, None, 5),))
    assert run([*QUORUM, *command]) == 1
    captured = capsys.readouterr()
    assert "Node:                   a:1: knows no leader in epoch 5" in captured.out
    assert captured.err == "kraft: error: no leader: 1 of the 1 nodes asked could be reached\n"
    assert fake.asked == []


@pytest.mark.parametrize(
    "command",
    [
        ["metadata-quorum", "remove-controller", "-i", "3"],
        ["metadata-quorum", "replace", "-i", "3"],
        ["features", "describe"],
        ["features", "upgrade", "--feature", "kraft.version=1"],
    ],
)
def test_the_quorum_has_to_be_named(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command) == 2
    assert "give one of --bootstrap-controller and --bootstrap-server" in capsys.readouterr().err


def test_add_controller_needs_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*QUORUM, "add-controller"]) == 2
    assert "give the new controller's file with -c, or its id with -i" in capsys.readouterr().err
    assert run([*QUORUM, "add-controller", "-i", "4", "-c", "file"]) == 2
    assert "give one of -c and -i" in capsys.readouterr().err
