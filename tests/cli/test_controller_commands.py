"""`kraft metadata-quorum add-controller`, `remove-controller` and `replace`: the command lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from fake_quorum import FakeQuorum, faked
from quorums import CLUSTER_ID, key, leading, listeners, quorum, silent, telling, up

from kraft_trio.cli import leader_reassignment, run
from kraft_trio.cli.controller_commands import told
from kraft_trio.client.admin import AdminClient, VoterChangeError
from kraft_trio.client.quorum_description import NodeView, NoLeader, QuorumDescription
from kraft_trio.errors import OutcomeUnknownError
from kraft_trio.protocol.types import Endpoint, ReplicaKey, directory_id_from_text, directory_id_to_text
from kraft_trio.wire.error_codes import ErrorCode

QUORUM = ["metadata-quorum", "--bootstrap-controller", "a:1"]
DIRECTORY_ID = "b8tRS7h4TJ2Vt43Dp85v2A"
NEW = ReplicaKey(4, directory_id_from_text(DIRECTORY_ID))
NEW_UP = attrs.evolve(up(4), key=NEW)
REMOVE_3 = ["remove-controller", "-i", "3"]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeQuorum:
    return faked(monkeypatch)


@pytest.fixture
def new_node(tmp_path: Path) -> Callable[..., str]:
    """Write the file of node 4 and the identity in its directory; the file's path."""

    def make(*, formatted_as: str = "4", directory_id: str | None = DIRECTORY_ID, **changes: str) -> str:
        directory = tmp_path / "data"
        properties = {
            "node.id": "4",
            "listeners": "CONTROLLER://node-4:9093",
            "controller.quorum.bootstrap.servers": "b:2,c:3",
            "metadata.log.dir": str(directory),
            **changes,
        }
        path = tmp_path / "node-4.properties"
        path.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
        directory.mkdir()
        meta = f"version=1\ncluster.id={CLUSTER_ID}\nnode.id={formatted_as}\n"
        if directory_id is not None:
            meta += f"directory.id={directory_id}\n"
        (directory / "meta.properties").write_text(meta)
        return str(path)

    return make


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
    def test_a_repeated_removal_changes_nothing_and_succeeds(
        self,
        arguments: list[str],
        line: str,
        dry_run: list[str],
        fake: FakeQuorum,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        assert run([*QUORUM, "remove-controller", *arguments, *dry_run]) == 0
        assert fake.asked == []
        assert capsys.readouterr().out == f"Nothing to do: {line}\n"

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
        assert capsys.readouterr().err == "kraft: error: no answer; it has not been done so far\n"

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


class TestReplace:
    """The leader makes both changes."""

    @pytest.fixture(autouse=True)
    def without_pauses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(leader_reassignment, "LOOK_AGAIN_S", 0)

    TARGET = (key(1), key(2), key(3, 2))
    BEFORE = quorum(leading(), up(2), silent(3), observers=(telling(up(3, 2)),))
    BETWEEN = quorum(leading(), up(2), observers=(telling(up(3, 2)),), target_voters=(leading(), up(2), up(3, 2)))
    AFTER = quorum(leading(), up(2), up(3, 2))

    def test_the_leader_gets_the_target(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        fake.description = self.BEFORE
        fake.becomes = [
            attrs.evolve(self.BEFORE, target_voters=self.BETWEEN.target_voters),
            self.BETWEEN,
            attrs.evolve(self.AFTER, committed_voters=self.BETWEEN.voters),
            self.AFTER,
        ]
        assert run([*QUORUM, "replace", "-i", "3", "--timeout", "1234"]) == 0
        assert fake.asked == [("reassign", self.TARGET, {"timeout_ms": 1234})]
        assert capsys.readouterr().out.splitlines() == [
            "Replacing controller 3; to resume after an interruption:",
            "  kraft metadata-quorum --bootstrap-controller a:1 replace -i 3",
            f"Removed KRaft {told(key(3))}",
            f"Added {told(key(3, 2), listeners(3))}",
        ]

    def test_the_file_names_the_new_disk(
        self, fake: FakeQuorum, new_node: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        new = attrs.evolve(NEW_UP, listeners=listeners(4))
        fake.description = quorum(leading(), up(2), silent(4), observers=(up(4, 7), new))
        fake.becomes = [quorum(leading(), up(2), new)]
        path = new_node()
        assert run(["metadata-quorum", "replace", "-c", path]) == 0
        assert fake.asked == [("reassign", (key(1), key(2), NEW), {"timeout_ms": 30_000})]
        assert capsys.readouterr().out.splitlines()[1] == (
            f"  kraft metadata-quorum --bootstrap-controller b:2,c:3 replace -c {path}"
        )

    @pytest.mark.parametrize("between", [BETWEEN, attrs.evolve(BEFORE, target_voters=BETWEEN.target_voters)])
    def test_a_second_run_follows(
        self,
        between: QuorumDescription,
        fake: FakeQuorum,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        fake.description = between
        described = iter([between, between])

        async def describe(self: AdminClient, timeout_ms: int = 5000) -> QuorumDescription:
            return next(described, TestReplace.AFTER)

        monkeypatch.setattr(AdminClient, "describe_metadata_quorum", describe)
        assert run([*QUORUM, "replace", "-i", "3"]) == 0
        assert fake.asked == []
        assert capsys.readouterr().out.splitlines()[-1] == f"Added {told(key(3, 2), listeners(3))}"

    def test_another_reassignment_comes_first(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        fake.description = attrs.evolve(self.BEFORE, target_voters=(leading(), up(2)))
        assert run([*QUORUM, "replace", "-i", "3"]) == 1
        assert f"refused: the voters are being reassigned to {key(1)}, {key(2)}: wait" in capsys.readouterr().err
        assert fake.asked == []

    def test_a_removal_that_would_stop_the_quorum(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        fake.description = quorum(leading(), silent(2), silent(3), observers=(telling(up(3, 2)),))
        assert run([*QUORUM, "replace", "-i", "3"]) == 1
        assert "refused: it would stop the quorum" in capsys.readouterr().err
        assert fake.asked == []

    def test_a_leader_that_makes_no_step_is_given_up(
        self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.description = self.BEFORE
        fake.becomes = [attrs.evolve(self.BETWEEN, reassignment_status="waiting for something")]
        assert run([*QUORUM, "replace", "-i", "3", "--timeout", "1"]) == 1
        assert "not within 0.001 s: waiting for something; the leader goes on" in capsys.readouterr().err


class TestReplaceWithoutTheLeader:
    """The command makes both changes: Kafka's controllers do not reassign voters."""

    @pytest.fixture(autouse=True)
    def of_kafka(self, fake: FakeQuorum) -> None:
        fake.reassigns = False

    def test_from_the_id(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        fake.description = quorum(leading(), up(2), silent(3), observers=(up(3, 2),))
        assert run([*QUORUM, "replace", "-i", "3"]) == 0
        assert [asked[:2] for asked in fake.asked] == [("remove", key(3)), ("add", key(3, 2))]
        assert fake.asked[1][2] == listeners(3)
        # The command that goes on from anywhere, before anything is changed.
        assert capsys.readouterr().out.splitlines()[:2] == [
            "Replacing controller 3; to resume after an interruption:",
            "  kraft metadata-quorum --bootstrap-controller a:1 replace -i 3 --listeners CONTROLLER://node-3:9093",
        ]

    def test_listeners_that_are_given_count(self, fake: FakeQuorum) -> None:
        """The leader would use those that the node has told."""
        fake.reassigns = True
        fake.description = TestReplace.BEFORE
        arguments = ["replace", "-i", "3", "--listeners", "CONTROLLER://elsewhere:9093"]
        assert run([*QUORUM, *arguments]) == 0
        assert [asked[0] for asked in fake.asked] == ["remove", "add"]
        assert str(fake.asked[1][2].get("CONTROLLER")) == "elsewhere:9093"

    def test_listeners_that_nobody_tells(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        fake.description = quorum(leading(), up(2), observers=(up(3, 2),))
        assert run([*QUORUM, "replace", "-i", "3"]) == 1
        assert "so its listeners are unknown: give --listeners, or its file" in capsys.readouterr().err
        assert fake.asked == []

    def test_what_is_left_of_it(self, fake: FakeQuorum) -> None:
        fake.description = quorum(leading(), up(2), observers=(up(3, 2),))
        arguments = ["replace", "-i", "3", "--listeners", "CONTROLLER://node-3:9093"]
        assert run([*QUORUM, *arguments]) == 0
        assert [asked[:3] for asked in fake.asked] == [("add", key(3, 2), listeners(3))]

    def test_from_the_file(
        self, fake: FakeQuorum, new_node: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.description = quorum(leading(), up(2), silent(4), observers=(NEW_UP,))
        path = new_node()
        assert run(["metadata-quorum", "replace", "-c", path]) == 0
        assert [asked[:2] for asked in fake.asked] == [("remove", key(4)), ("add", NEW)]
        assert capsys.readouterr().out.splitlines()[1] == (
            f"  kraft metadata-quorum --bootstrap-controller b:2,c:3 replace -c {path}"
        )

    def test_somebody_else_has_made_the_step(self, fake: FakeQuorum, monkeypatch: pytest.MonkeyPatch) -> None:
        """As the node itself does where it joins by itself."""
        fake.description = quorum(leading(), up(2), silent(3), observers=(up(3, 2),))

        async def too_late(self: AdminClient, voter: ReplicaKey, **options: Any) -> None:
            fake.description = quorum(leading(), up(2), up(3, 2))
            raise VoterChangeError("remove", ErrorCode.voter_not_found, None)

        monkeypatch.setattr(AdminClient, "remove_metadata_voter", too_late)
        assert run([*QUORUM, "replace", "-i", "3"]) == 0
        assert fake.asked == []

    def test_two_processes_with_one_id(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        fake.description = quorum(leading(), up(2), up(3), observers=(up(3, 2),))
        assert run([*QUORUM, "replace", "-i", "3"]) == 1
        assert f"{key(3)} keeps up with the leader: two processes have id 3" in capsys.readouterr().err
        assert fake.asked == []
        assert run([*QUORUM, "replace", "-i", "3", "--force"]) == 0

    def test_the_dry_run_is_refused_by_the_same(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        fake.description = quorum(leading(), up(2), up(3), observers=(up(3, 2),))
        assert run([*QUORUM, "replace", "-i", "3", "--dry-run"]) == 1
        assert "two processes have id 3" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "exit_code", "message"),
        [
            ([], 2, "give the controller's id with -i, or its file with -c"),
            (["-i", "3", "--listeners", "x"], 1, "--listeners x: 'x' is not NAME://host:port"),
            (["-i", "3", "--timeout", "1"], 1, "refused: no other incarnation of controller 3 follows the leader"),
            (["-i", "9", "--timeout", "1"], 1, "refused: controller 9 is not a voter, and no other incarnation"),
        ],
    )
    def test_what_makes_no_sense(
        self,
        arguments: list[str],
        exit_code: int,
        message: str,
        fake: FakeQuorum,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        fake.description = quorum(leading(), up(2), silent(3))
        assert run([*QUORUM, "replace", *arguments]) == exit_code
        assert message in capsys.readouterr().err
        assert fake.asked == []

    @pytest.mark.parametrize("dry_run", [[], ["--dry-run"]])
    def test_one_that_could_not_be_added_costs_no_voter(
        self, dry_run: list[str], fake: FakeQuorum, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.description = quorum(leading(), up(2), silent(3), observers=(up(3, 2),))
        arguments = ["replace", "-i", "3", "--listeners", "OTHER://node-3:9093", *dry_run]
        assert run([*QUORUM, *arguments]) == 1
        assert "refused: listeners OTHER: expected CONTROLLER" in capsys.readouterr().err
        assert fake.asked == []

    def test_the_file_of_another_node(
        self, fake: FakeQuorum, new_node: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = new_node()
        assert run([*QUORUM, "replace", "-i", "3", "-c", path]) == 1
        assert f"-i 3: {path} is of node 4" in capsys.readouterr().err


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
    assert "give the new controller's file with -c" in capsys.readouterr().err
