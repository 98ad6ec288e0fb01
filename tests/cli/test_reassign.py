"""`kraft metadata-quorum reassign`: the plan, the command line, and the progress."""

from __future__ import annotations

import attrs
import pytest
from fake_quorum import FakeQuorum, faked
from quorums import FETCH_TIMEOUT_MS, key, lagging, leading, listeners, quorum, silent, telling, up

from kraft_trio.cli import run
from kraft_trio.cli.quorum import client_reassignment, leader_reassignment
from kraft_trio.cli.quorum.controller_commands import told
from kraft_trio.cli.quorum.reassignment_plan import ReassignmentPlan, plan_reassignment
from kraft_trio.client.admin import VoterChangeError
from kraft_trio.client.quorum_description import QuorumDescription, ReplicaState
from kraft_trio.errors import OutcomeUnknownError
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, Endpoints, ReplicaKey
from kraft_trio.protocol.voter_changes import Refused
from kraft_trio.wire.error_codes import ErrorCode

REASSIGN = ["metadata-quorum", "--bootstrap-controller", "a:1", "reassign"]
TO_1_2_4 = [*REASSIGN, "--to", "1,2,4"]
THREE = (leading(), up(2), up(3))
BEFORE = quorum(*THREE, observers=(telling(up(4)),))
AFTER = quorum(leading(), up(2), up(4), observers=(up(3),))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeQuorum:
    for module in (leader_reassignment, client_reassignment):
        monkeypatch.setattr(module, "LOOK_AGAIN_S", 0)
    fake = faked(monkeypatch)
    fake.description = BEFORE
    return fake


def on_the_way(
    *voters: ReplicaState, target: tuple[int, ...] = (1, 2, 4), status: str = "working", **fields: object
) -> QuorumDescription:
    return quorum(*voters, target_voters=tuple(map(up, target)), reassignment_status=status, **fields)


def planned(description: QuorumDescription, *ids: int) -> ReassignmentPlan:
    plan = plan_reassignment(description, ids, FETCH_TIMEOUT_MS)
    assert isinstance(plan, ReassignmentPlan), plan
    return plan


class TestPlan:
    def test_three_voters_for_three_others(self) -> None:
        plan = planned(quorum(*THREE, observers=tuple(telling(up(id)) for id in (4, 5, 6))), 4, 5, 6)
        verbs = [step.what.split()[0] for step in plan.steps]
        assert verbs == ["add", "remove", "add", "remove", "add", "the", "remove"]
        assert [voter.key.id for voter in plan.steps[-1].voters] == [4, 5, 6]
        assert plan.obstacle is None

    def test_each_step_says_what_its_voters_survive(self) -> None:
        lines = list(planned(BEFORE, 1, 2, 4).lines())
        assert lines[1] == "Majority:               2 of 3, survives 1 failure; 3 up, survives 1 more now"
        assert lines[3:] == [
            f"Step1:                  add {key(4)}: 3 of 4, survives 1 failure; 4 up, survives 1 more now",
            f"Step2:                  remove {key(3)}: 2 of 3, survives 1 failure; 3 up, survives 1 more now",
        ]

    def test_a_newcomer_that_lags_is_waited_for(self) -> None:
        plan = planned(quorum(*THREE, observers=(telling(lagging(4)),)), 1, 2, 3, 4)
        assert [step.what.split()[0] for step in plan.steps] == ["waiting", "add"]
        assert "is 200 offsets behind" in plan.steps[0].what

    def test_too_few_voters_are_up(self) -> None:
        plan = planned(quorum(leading(), up(2), silent(3)), 1, 3)
        assert plan.steps == ()
        assert plan.obstacle is not None
        assert plan.obstacle.startswith("only 2 of 3 voters are up")

    def test_the_target_under_way_is_named_by_its_ids(self) -> None:
        gone = on_the_way(*THREE)
        assert planned(gone, 1, 2, 4).target == (key(1), key(2), key(4))

    @pytest.mark.parametrize(
        ("ids", "reason"),
        [
            ((1, 2, 9), "replica 9 is unknown to the leader"),
            ((1, 1), "expected each id once"),
            ((1, 2, 5), "replica 5 has 2 incarnations that fetch"),
            ((1, 2, 6), f"replica {key(6)} has told the leader no listener"),
            ((1, 2, 7), f"replica {key(7)} has told the leader no listener that voters could use"),
        ],
    )
    def test_what_the_leader_would_refuse(self, ids: tuple[int, ...], reason: str) -> None:
        elsewhere = attrs.evolve(up(7), listeners=Endpoints({"OTHER": Endpoint("node-7", 9093)}))
        observers = (up(5), up(5, 2), up(6), elsewhere)
        refused = plan_reassignment(quorum(*THREE, observers=observers), ids, FETCH_TIMEOUT_MS)
        assert isinstance(refused, Refused)
        assert reason in refused.reason

    def test_static_voters_have_no_target(self) -> None:
        static = attrs.evolve(leading(), key=ReplicaKey(1, NO_DIRECTORY_ID))
        refused = plan_reassignment(quorum(static), (1,), FETCH_TIMEOUT_MS)
        assert isinstance(refused, Refused)
        assert refused.reason.startswith("kraft.version is 0")


class TestTarget:
    def test_it_returns_at_once_and_says_how_to_follow(
        self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run([*TO_1_2_4, "--timeout", "1234"]) == 0
        assert fake.asked == [("reassign", (1, 2, 4), {"timeout_ms": 1234})]
        assert capsys.readouterr().out.splitlines()[-3:] == [
            "Reassigning the voters to 1, 2, 4.  To follow it, or to cancel it:",
            "  kraft metadata-quorum --bootstrap-controller a:1 reassign --to 1,2,4 --wait",
            "  kraft metadata-quorum --bootstrap-controller a:1 reassign --cancel",
        ]

    def test_a_dry_run_sends_nothing(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*TO_1_2_4, "--dry-run"]) == 0
        assert fake.asked == []
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "DRY RUN of reassigning the voters to 1, 2, 4"
        assert lines[-1].startswith(f"Step2:                  remove {key(3)}: ")

    def test_a_dry_run_that_would_be_refused(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*REASSIGN, "--to", "9", "--dry-run"]) == 1
        assert "would be refused: target: replica 9 is unknown to the leader" in capsys.readouterr().err

    def test_the_leader_judges_what_the_plan_refuses(self, fake: FakeQuorum) -> None:
        assert run([*REASSIGN, "--to", "1,2,9"]) == 0
        assert fake.asked[0][1] == (1, 2, 9)

    def test_voters_that_it_has_already(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        fake.becomes = [AFTER]
        assert run(TO_1_2_4) == 0
        assert capsys.readouterr().out.splitlines()[-1] == f"The voters are {key(1)}, {key(2)}, {key(4)}"

    @pytest.mark.parametrize(
        ("error", "reason", "said"),
        [
            ("invalid_replica_assignment", "target: no voters", "refused: target: no voters"),
            ("unsupported_version", "kraft.version is 0", "refused: the voters cannot be reassigned: kraft.version"),
            ("not_controller", "node 2 leads", "refused: no leader accepted the target in time: node 2 leads"),
            ("request_timed_out", "appended at offset 7", "appended at offset 7; run the command again to find out"),
            ("cluster_authorization_failed", None, "reassign: CLUSTER_AUTHORIZATION_FAILED"),
        ],
    )
    def test_errors_of_the_leader(
        self, error: str, reason: str | None, said: str, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.errors = [VoterChangeError("reassign", ErrorCode[error], reason)]
        assert run(TO_1_2_4) == 1
        assert said in capsys.readouterr().err

    def test_an_answer_that_is_lost(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        fake.errors = [OutcomeUnknownError("reassign: sent to the leader, which did not answer")]
        assert run(TO_1_2_4) == 1
        assert "did not answer" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "flags",
        [
            [],
            ["--to", "1", "--cancel"],
            ["--to", "1", "--wait", "--dry-run"],
            ["--cancel", "--wait"],
            ["--to", ""],
            ["--to", "1,x"],
            ["--to", "-1"],
        ],
    )
    def test_flags_that_make_no_sense(self, flags: list[str], fake: FakeQuorum) -> None:
        assert run([*REASSIGN, *flags]) == 2
        assert fake.asked == []


class TestWait:
    def test_steps_lag_and_what_the_voters_survive(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        fake.becomes = [
            on_the_way(*THREE, observers=(lagging(4),), status=f"waiting for {key(4)}, which has not caught up"),
            on_the_way(*THREE, up(4), status=f"removing {key(3)}"),
            attrs.evolve(AFTER, committed_voters=(*THREE, up(4))),
            AFTER,
        ]
        assert run([*TO_1_2_4, "--wait"]) == 0
        output = capsys.readouterr().out
        progress = [line.split(maxsplit=1) for line in output.splitlines()[5:]]
        three, four = f"{key(1)}, {key(2)}, {key(3)}", f"{key(1)}, {key(2)}, {key(3)}, {key(4)}"
        assert progress[:5] == [
            ["Voters:", f"{three}: 2 of 3, survives 1 failure; 3 up, survives 1 more now"],
            ["ReassignmentStatus:", f"waiting for {key(4)}, which has not caught up"],
            ["Lag:", f"{key(4)} is 200 offsets behind, and was last caught up 9.0 s ago"],
            ["Voters:", f"{four}: 3 of 4, survives 1 failure; 4 up, survives 1 more now"],
            ["ReassignmentStatus:", f"removing {key(3)}"],
        ]
        assert output.splitlines()[-1] == f"The voters are {key(1)}, {key(2)}, {key(4)}"

    def test_progress_is_told_once(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        fake.becomes = [*[on_the_way(*THREE)] * 5, AFTER]
        assert run([*TO_1_2_4, "--wait"]) == 0
        assert capsys.readouterr().out.count("ReassignmentStatus:") == 1

    @pytest.mark.parametrize(
        ("outcome", "said"),
        [
            (BEFORE, "the reassignment to 1, 2, 4 was cancelled, or a leader of Kafka has dropped its target"),
            (on_the_way(*THREE, target=(1, 2)), f"another target, {key(1)}, {key(2)}"),
        ],
    )
    def test_a_target_that_is_given_up(
        self, outcome: QuorumDescription, said: str, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.becomes = [on_the_way(*THREE), outcome]
        assert run([*TO_1_2_4, "--wait"]) == 1
        assert said in capsys.readouterr().err

    def test_a_new_leader_may_not_know_yet(self, fake: FakeQuorum) -> None:
        fake.becomes = [on_the_way(*THREE), attrs.evolve(BEFORE, high_watermark=-1), AFTER]
        assert run([*TO_1_2_4, "--wait"]) == 0


class TestWithoutTheLeader:
    """The command takes the steps: Kafka's controllers do not reassign voters."""

    @pytest.fixture(autouse=True)
    def of_kafka(self, fake: FakeQuorum) -> None:
        fake.reassigns = False

    @pytest.mark.parametrize("flags", [[], ["--wait"]])
    def test_each_step_is_a_change(
        self, flags: list[str], fake: FakeQuorum, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run([*TO_1_2_4, *flags]) == 0
        assert [asked[:2] for asked in fake.asked] == [("add", key(4)), ("remove", key(3))]
        assert fake.asked[0][2] == listeners(4)
        captured = capsys.readouterr()
        assert captured.out.splitlines()[-3:] == [
            f"Added {told(key(4), listeners(4))}",
            f"Removed KRaft {told(key(3))}",
            f"The voters are {key(1)}, {key(2)}, {key(4)}",
        ]
        assert "the leader does not reassign voters, so this command takes the steps" in captured.err

    def test_the_leader_is_removed_last(self, fake: FakeQuorum) -> None:
        fake.description = quorum(*THREE, observers=tuple(telling(up(id)) for id in (4, 5, 6)))
        assert run([*REASSIGN, "--to", "4,5,6"]) == 0
        assert [(what, key.id) for what, key, *_ in fake.asked] == [
            ("add", 4),
            ("remove", 2),
            ("add", 5),
            ("remove", 3),
            ("add", 6),
            ("remove", 1),
        ]

    def test_nothing_is_left_to_do(self, fake: FakeQuorum) -> None:
        assert run([*REASSIGN, "--to", "1,2,3"]) == 0
        assert fake.asked == []

    def test_a_wait_is_bounded_and_told(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        fake.description = quorum(*THREE, observers=(telling(lagging(4)),))
        assert run([*TO_1_2_4, "--timeout", "1"]) == 1
        said = capsys.readouterr().err
        assert f"kraft: note: waiting for {key(4)}, which is 200 offsets behind" in said
        assert "(run the command again to continue)" in said
        assert fake.asked == []

    def test_a_target_of_no_use_is_refused(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*REASSIGN, "--to", "1,2,9"]) == 1
        assert "refused: target: replica 9 is unknown to the leader" in capsys.readouterr().err
        assert fake.asked == []

    def test_there_is_nothing_to_cancel(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*REASSIGN, "--cancel"]) == 0
        assert capsys.readouterr().out == "Nothing to do: there is no reassignment to cancel\n"


class TestCancel:
    def test_the_voters_stay(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*REASSIGN, "--cancel"]) == 0
        assert fake.asked == [("reassign", None, {"timeout_ms": 30_000})]
        assert capsys.readouterr().out == f"Cancelled the reassignment: the voters are {key(1)}, {key(2)}, {key(3)}\n"

    @pytest.mark.parametrize("flags", [[], ["--dry-run"]])
    def test_nothing_to_cancel(self, flags: list[str], fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        fake.errors = [VoterChangeError("cancel", ErrorCode.no_reassignment_in_progress, None)]
        assert run([*REASSIGN, "--cancel", *flags]) == 0
        assert capsys.readouterr().out == "Nothing to do: there is no reassignment to cancel\n"

    def test_a_dry_run(self, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
        fake.description = on_the_way(*THREE)
        assert run([*REASSIGN, "--cancel", "--dry-run"]) == 0
        assert fake.asked == []
        assert capsys.readouterr().out.startswith("DRY RUN of cancelling the reassignment to 1-")
