"""What a change of the voters would mean: who is counted on, what is survived, and what is objected to."""

from __future__ import annotations

import attrs
import pytest
from quorums import CLUSTER_ID, END, FETCH_TIMEOUT_MS, NOW_MS, key, lagging, leading, quorum, silent, unheard_of, up

from kraft_trio.cli.quorum.voter_plan import VoterPlan, plan_add, plan_remove
from kraft_trio.client.quorum_description import ReplicaState, health_of
from kraft_trio.protocol.replica_health import Health
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, Endpoints, ReplicaKey


def text_of(plan: VoterPlan) -> dict[str, str]:
    lines = [line.partition(":") for line in plan.lines()]
    return {label: text.strip() for label, _, text in lines}


def ids(voters: object) -> list[int]:
    return [voter.key.id for voter in voters]  # type: ignore[attr-defined]


class TestReplicaHealth:
    @pytest.mark.parametrize(
        ("state", "status", "reason"),
        [
            (up(2), Health.UP, ""),
            (ReplicaState(key(2), END - 9, NOW_MS - FETCH_TIMEOUT_MS, NOW_MS - FETCH_TIMEOUT_MS), Health.UP, ""),
            (unheard_of(2), Health.OFFLINE, "has not fetched in epoch 5"),
            (silent(2), Health.OFFLINE, "has not fetched for 12.3 s"),
            (silent(2, for_ms=FETCH_TIMEOUT_MS + 1), Health.OFFLINE, "has not fetched for 2.0 s"),
            (lagging(2), Health.LAGGING, "is 200 offsets behind, and was last caught up 9.0 s ago"),
            (
                ReplicaState(key(2), 3, NOW_MS - 10),
                Health.LAGGING,
                "is 497 offsets behind, and was never caught up in epoch 5",
            ),
        ],
    )
    def test_by_the_timestamps(self, state: ReplicaState, status: Health, reason: str) -> None:
        health = health_of(quorum(leading(), state), state, FETCH_TIMEOUT_MS)
        assert (health.status, health.reason) == (status, reason)

    def test_the_leader_keeps_up_with_itself(self) -> None:
        asked = quorum(unheard_of(1), up(2))
        assert health_of(asked, asked.voters[0], FETCH_TIMEOUT_MS).is_up

    def test_the_latest_fetch_is_now_if_the_leader_omits_itself(self) -> None:
        asked = attrs.evolve(quorum(up(2), silent(3)), leader_id=9)
        assert [health_of(asked, state, FETCH_TIMEOUT_MS).is_up for state in asked.voters] == [True, False]


class TestAdd:
    def test_what_it_would_mean(self) -> None:
        plan = plan_add(quorum(leading(), up(2), silent(3), observers=(up(4),)), key(4), FETCH_TIMEOUT_MS)
        assert (plan.objections, plan.notes) == ((), ())
        assert text_of(plan) == {
            "VotersBefore": f"{key(1)}, {key(2)}, {key(3)}",
            "MajorityBefore": "2 of 3, survives 1 failure; 2 up, survives 0 more now",
            "VotersAfter": f"{key(1)}, {key(2)}, {key(3)}, {key(4)}",
            "MajorityAfter": "3 of 4, survives 1 failure; 3 up, survives 0 more now",
            "Lagging": "none",
            "Offline": f"{key(3)} has not fetched for 12.3 s",
        }

    @pytest.mark.parametrize("new", [unheard_of(4), lagging(4), silent(4)])
    def test_a_new_voter_that_is_not_up_is_waited_for(self, new: ReplicaState) -> None:
        plan = plan_add(quorum(leading(), up(2), up(3), observers=(new,)), key(4), FETCH_TIMEOUT_MS)
        assert plan.objections == ()
        assert plan.notes == (f"the leader waits until {key(4)} has caught up; until then nothing changes",)

    def test_one_that_never_fetched(self) -> None:
        plan = plan_add(quorum(leading()), key(2), FETCH_TIMEOUT_MS)
        assert plan.objections == ()
        assert text_of(plan)["Offline"] == f"{key(2)} is unknown to the leader: it has not fetched yet"

    def test_an_id_is_a_voter_once(self) -> None:
        plan = plan_add(quorum(leading(), up(2)), key(2, 2), FETCH_TIMEOUT_MS)
        [found] = plan.objections
        assert found.startswith(f"controller 2 is a voter with another directory id, {key(2)}: remove that one first")
        assert not plan.may_pass

    def test_a_voter_needs_no_addition(self) -> None:
        plan = plan_add(quorum(leading(), up(2)), key(2), FETCH_TIMEOUT_MS)
        assert (plan.objections, plan.already) == ((), f"{key(2)} is a voter already")

    def test_it_would_never_commit_where_the_others_lag(self) -> None:
        plan = plan_add(quorum(leading(), lagging(2), silent(3), observers=(up(4),)), key(4), FETCH_TIMEOUT_MS)
        assert plan.objections == (
            "it would stop the quorum: of the 4 resulting voters, 3 must keep up but only 2 do: "
            f"{key(2)} is 200 offsets behind, and was last caught up 9.0 s ago; {key(3)} has not fetched for 12.3 s",
        )
        assert plan.may_pass

    @pytest.mark.parametrize(
        ("names", "cluster_id", "objection"),
        [
            (["CONTROLLER"], "another", f"{key(4)} is of cluster another, the quorum of cluster {CLUSTER_ID}"),
            (["OTHER"], CLUSTER_ID, "listeners OTHER: expected CONTROLLER, the quorum's own, among them"),
            ([], CLUSTER_ID, "listeners none: expected CONTROLLER, the quorum's own, among them"),
        ],
    )
    def test_one_that_does_not_fit_the_quorum(self, names: list[str], cluster_id: str, objection: str) -> None:
        asked = quorum(leading(), up(2), observers=(up(4),))
        listeners = Endpoints([(name, Endpoint("node-4", 9093)) for name in names])
        plan = plan_add(asked, key(4), FETCH_TIMEOUT_MS, listeners, cluster_id)
        assert (plan.objections, plan.may_pass) == ((objection,), False)

    def test_one_that_fits(self) -> None:
        asked = quorum(leading(), up(2), observers=(up(4),))
        listeners = Endpoints({"OTHER": Endpoint("node-4", 9094), "CONTROLLER": Endpoint("node-4", 9093)})
        assert plan_add(asked, key(4), FETCH_TIMEOUT_MS, listeners, CLUSTER_ID).objections == ()

    def test_the_voters_are_sorted(self) -> None:
        plan = plan_add(quorum(leading(), up(3), observers=(up(2),)), key(2), FETCH_TIMEOUT_MS)
        assert ids(plan.after) == [1, 2, 3]


class TestRemove:
    def test_what_it_would_mean(self) -> None:
        plan = plan_remove(quorum(leading(), up(2), up(3)), key(3), FETCH_TIMEOUT_MS)
        assert (plan.objections, plan.notes) == ((), ())
        assert (ids(plan.before), ids(plan.after)) == ([1, 2, 3], [1, 2])
        assert text_of(plan)["MajorityAfter"] == "2 of 2, survives 0 failures; 2 up, survives 0 more now"

    def test_who_is_down_may_go(self) -> None:
        assert plan_remove(quorum(leading(), up(2), silent(3)), key(3), FETCH_TIMEOUT_MS).objections == ()

    @pytest.mark.parametrize("other", [silent(3), lagging(3), unheard_of(3)])
    def test_who_is_up_must_not_leave_a_set_that_cannot_commit(self, other: ReplicaState) -> None:
        plan = plan_remove(quorum(leading(), up(2), other), key(2), FETCH_TIMEOUT_MS)
        [objection] = plan.objections
        assert objection.startswith(
            f"it would stop the quorum: of the 2 resulting voters, 2 must keep up but only 1 does: {key(3)} "
        )
        assert text_of(plan)["MajorityAfter"] == (
            "2 of 2, survives 0 failures; 1 up, survives none now: too few are up"
        )

    def test_a_leader_hands_over(self) -> None:
        plan = plan_remove(quorum(leading(), up(2)), key(1), FETCH_TIMEOUT_MS)
        assert plan.objections == ()
        assert plan.notes == (
            f"{key(1)} leads: once its removal has committed, it hands over and another leader is elected",
        )

    def test_a_leader_must_leave_somebody_who_is_up(self) -> None:
        assert plan_remove(quorum(leading(), lagging(2)), key(1), FETCH_TIMEOUT_MS).may_pass

    @pytest.mark.parametrize(
        ("removed", "voters", "objection"),
        [
            (key(1), (leading(),), f"{key(1)} is the only voter: a quorum without voters could never continue"),
        ],
    )
    def test_what_the_leader_would_refuse(
        self, removed: object, voters: tuple[ReplicaState, ...], objection: str
    ) -> None:
        plan = plan_remove(quorum(*voters), removed, FETCH_TIMEOUT_MS)  # type: ignore[arg-type]
        assert (plan.objections, plan.may_pass) == ((objection,), False)


@pytest.mark.parametrize("removed", [key(4), key(2, 2)])
def test_one_that_is_no_voter_needs_no_removal(removed: ReplicaKey) -> None:
    plan = plan_remove(quorum(leading(), up(2)), removed, FETCH_TIMEOUT_MS)
    assert (plan.objections, plan.already) == ((), f"{removed} is not among the voters {key(1)}, {key(2)}")


def test_an_earlier_change_is_waited_for() -> None:
    asked = quorum(leading(), up(2), up(3), committed_voters=(leading(), up(2)))
    for plan in (plan_remove(asked, key(2), FETCH_TIMEOUT_MS), plan_add(asked, key(4), FETCH_TIMEOUT_MS)):
        assert "an earlier voter change has not committed yet: this one waits for it" in plan.notes


def test_static_voters_are_not_changed() -> None:
    static = attrs.evolve(up(2), key=attrs.evolve(up(2).key, directory_id=NO_DIRECTORY_ID))
    asked = quorum(leading(), static, observers=(up(4),))
    for plan in (plan_remove(asked, key(2), FETCH_TIMEOUT_MS), plan_add(asked, key(4), FETCH_TIMEOUT_MS)):
        [objection] = plan.objections
        assert objection.startswith("kraft.version is 0: the voters are those of controller.quorum.voters")
