"""`kraft metadata-quorum replace`: the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from fake_quorum import FakeQuorum
from new_node import NEW, NEW_UP
from quorums import key, leading, listeners, quorum, silent, telling, up

from kraft_trio.cli import run
from kraft_trio.cli.quorum import leader_reassignment
from kraft_trio.cli.quorum.controller_commands import told
from kraft_trio.client.admin import AdminClient, VoterChangeError
from kraft_trio.client.quorum_description import QuorumDescription
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.wire.error_codes import ErrorCode

pytestmark = pytest.mark.rotating(2)

QUORUM = ["metadata-quorum", "--bootstrap-controller", "a:1"]


class TestByTheLeader:
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

    @pytest.mark.parametrize("is_of_another_node", [False, True])
    def test_the_file_that_tells_how_to_connect_is_not_the_new_disks(
        self,
        is_of_another_node: bool,
        fake: FakeQuorum,
        new_node: Callable[..., str],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """An operator has a client's file, or uses that of a node that runs."""
        path = tmp_path / "client.properties"
        path.write_text("security.protocol=PLAINTEXT\n")
        file = new_node() if is_of_another_node else str(path)
        fake.description = self.BEFORE
        fake.becomes = [
            attrs.evolve(self.BEFORE, target_voters=self.BETWEEN.target_voters),
            self.BETWEEN,
            attrs.evolve(self.AFTER, committed_voters=self.BETWEEN.voters),
            self.AFTER,
        ]
        assert run([*QUORUM, "--command-config", file, "replace", "-i", "3"]) == 0
        assert fake.asked == [("reassign", self.TARGET, {"timeout_ms": 30_000})]
        resuming = f"  kraft metadata-quorum --bootstrap-controller a:1 --command-config {file} replace -i 3"
        assert capsys.readouterr().out.splitlines()[1] == resuming

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
            return next(described, TestByTheLeader.AFTER)

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
        assert "not within 0.001 s: waiting for something; the leader continues" in capsys.readouterr().err


class TestByTheCommand:
    """The command makes both changes: Kafka's controllers do not reassign voters."""

    @pytest.fixture(autouse=True)
    def of_kafka(self, fake: FakeQuorum) -> None:
        fake.reassigns = False

    def test_from_the_id(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        fake.description = quorum(leading(), up(2), silent(3), observers=(up(3, 2),))
        assert run([*QUORUM, "replace", "-i", "3"]) == 0
        assert [asked[:2] for asked in fake.asked] == [("remove", key(3)), ("add", key(3, 2))]
        assert fake.asked[1][2] == listeners(3)
        # The command that continues from anywhere, before anything is changed.
        assert capsys.readouterr().out.splitlines()[:2] == [
            "Replacing controller 3; to resume after an interruption:",
            "  kraft metadata-quorum --bootstrap-controller a:1 replace -i 3 --listeners CONTROLLER://node-3:9093",
        ]

    def test_listeners_that_are_given_count(self, fake: FakeQuorum) -> None:
        """The leader would use those that the node has told."""
        fake.reassigns = True
        fake.description = TestByTheLeader.BEFORE
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
