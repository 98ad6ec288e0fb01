"""Changes of the voters as the commands make them, against whole nodes: refused, made, and made sure of."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from change_runs import run_on
from trio.testing import wait_all_tasks_blocked

from kraft_trio.cli.quorum.quorum_layout import status_fields
from kraft_trio.cli.quorum.voter_change_run import ChangeRefused, ChangeRun
from kraft_trio.cli.quorum.voter_plan import plan_add, plan_remove
from kraft_trio.client.admin import AdminClient, VoterChangeError
from kraft_trio.client.quorum_description import QuorumDescription
from kraft_trio.errors import NetworkError, OutcomeUnknownError
from kraft_trio.simulation import Cluster
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.on_cluster import on_cluster

pytestmark = pytest.mark.rotating(2)


async def add(run: ChangeRun, cluster: Cluster, node_id: int) -> None:
    await run.add(cluster.key_of(node_id), cluster.config_of(node_id).advertised_endpoints(), cluster.cluster_id)


def voters(quorum: QuorumDescription) -> list[int]:
    return [state.key.id for state in quorum.voters]


@on_cluster(observers=1)
async def test_a_voter_is_added_and_the_leader_removed(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    first = await cluster.wait_for_leader()
    run = run_on(cluster)
    await add(run, cluster, 4)
    assert voters(await run.describe()) == [1, 2, 3, 4]
    await run.remove(first.key, cluster.cluster_id)
    quorum = await run.describe()
    assert quorum.leader_id != first.key.id
    assert first.key.id not in voters(quorum)
    assert f"kraft: note: {first.key} leads: once its removal has committed" in capsys.readouterr().err


@on_cluster()
async def test_what_would_stop_the_quorum_is_not_asked_for(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    gone, left = cluster.others(leader)
    run = run_on(cluster)
    await run.describe()
    cluster.machines[gone.key.id].kill()
    await trio.sleep(10)
    with pytest.raises(ChangeRefused, match=r"refused: it would stop the quorum: .* \(--force sends"):
        await run.remove(left.key, None)
    assert voters(await run.describe()) == [1, 2, 3]
    await run.remove(gone.key, None)
    assert sorted(voters(await run.describe())) == sorted([leader.key.id, left.key.id])


CHANGES = ("add", "remove the leader", "remove a follower", "remove the other follower")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_other_down", [False, True])
def test_the_plan_is_what_happens(change: str, is_other_down: bool) -> None:
    """It objects to exactly what, forced, does not commit; and the voters after it are those that it has named."""

    @on_cluster(observers=1)
    async def compare(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        follower, other = cluster.others(leader)
        await cluster.wait_until_alike()
        if is_other_down:
            cluster.machines[other.key.id].kill()
            await trio.sleep(10)
        run = run_on(cluster, timeout_ms=8000, force=True)
        removed = {"remove the leader": leader, "remove a follower": follower}.get(change, other).key
        if change == "add":
            plan = plan_add(await run.describe(), cluster.key_of(4), run.fetch_timeout_ms)
        else:
            plan = plan_remove(await run.describe(), removed, run.fetch_timeout_ms)
        try:
            if change == "add":
                await add(run, cluster, 4)
            else:
                await run.remove(removed, cluster.cluster_id)
        except (OutcomeUnknownError, VoterChangeError):
            assert plan.objections
        else:
            assert not plan.objections
            assert [state.key for state in (await run.describe()).voters] == [voter.key for voter in plan.after]

    compare()


@on_cluster()
async def test_force_asks_nevertheless(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """The removal of the follower that is up is appended and cannot commit; what is said is that it is open."""
    leader = await cluster.wait_for_leader()
    gone, left = cluster.others(leader)
    cluster.machines[gone.key.id].kill()
    await trio.sleep(10)
    with pytest.raises(OutcomeUnknownError, match=r"(a change has not committed yet|could not find out)"):
        await run_on(cluster, force=True).remove(left.key, None)
    assert "kraft: warning: it would stop the quorum" in capsys.readouterr().err
    await cluster.machines[gone.key.id].start()
    await cluster.wait_until_alike(leader.key.id, gone.key.id)


@on_cluster()
async def test_after_an_election_the_followers_are_given_time_to_fetch(cluster: Cluster) -> None:
    first = await cluster.wait_for_leader()
    run = run_on(cluster)
    cluster.machines[first.key.id].kill()
    await cluster.wait_until(lambda: cluster.leader() not in (None, first))
    plan = await run.looked_at(lambda quorum: plan_remove(quorum, first.key, run.fetch_timeout_ms))
    assert plan.objections == ()


@on_cluster(observers=1, started=(1, 2, 3))
async def test_a_replica_that_is_down_is_awaited_and_then_given_up(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    with pytest.raises(OutcomeUnknownError, match=r"(?s)REQUEST_TIMED_OUT.*; it has not been done so far"):
        await add(run_on(cluster, timeout_ms=3000), cluster, 4)


@pytest.mark.parametrize("change", ["add", "remove"])
@on_cluster(observers=1)
async def test_a_leader_that_gave_up_early_is_asked_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """One of Kafka's does so if it cannot connect to a voter that has just started; the time limit is that of all."""
    made, limits = getattr(AdminClient, f"{change}_metadata_voter"), []

    async def asked(client: AdminClient, *arguments: Any, timeout_ms: int, **options: Any) -> None:
        limits.append(timeout_ms)
        if len(limits) <= 2:
            raise VoterChangeError(f"{change} voter", ErrorCode.request_timed_out, "API_VERSIONS: BROKER_NOT_AVAILABLE")
        await made(client, *arguments, timeout_ms=timeout_ms, **options)

    leader = await cluster.wait_for_leader()
    monkeypatch.setattr(AdminClient, f"{change}_metadata_voter", asked)
    run = run_on(cluster)
    if change == "add":
        await add(run, cluster, 4)
        assert voters(await run.describe()) == [1, 2, 3, 4]
    else:
        follower = cluster.others(leader)[0].key
        await run.remove(follower, cluster.cluster_id)
        assert follower.id not in voters(await run.describe())
    assert 30_000 >= limits[0] > limits[1] > limits[2] > 0


@on_cluster(observers=1)
async def test_a_change_that_came_late_is_not_called_that_of_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader gave up, and made it after the command had looked: the next request finds a voter."""
    made = AdminClient.add_metadata_voter
    asked = 0

    async def late(client: AdminClient, *arguments: Any, **options: Any) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise VoterChangeError("add voter", ErrorCode.request_timed_out, None)
        await made(client, *arguments, **options)
        raise VoterChangeError("add voter", ErrorCode.duplicate_voter, None)

    await cluster.wait_for_leader()
    monkeypatch.setattr(AdminClient, "add_metadata_voter", late)
    listeners = cluster.config_of(4).advertised_endpoints()
    assert await run_on(cluster).add(cluster.key_of(4), listeners, cluster.cluster_id) is None
    assert asked == 2


@on_cluster(observers=1)
async def test_what_the_leader_refuses_is_what_is_said(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    run = run_on(cluster, force=True)
    await run.looked_at(lambda quorum: plan_add(quorum, cluster.key_of(4), run.fetch_timeout_ms))
    with pytest.raises(VoterChangeError, match="INCONSISTENT_CLUSTER_ID") as refused:
        await run.add(cluster.key_of(4), cluster.config_of(4).advertised_endpoints(), "another")
    assert refused.value.error == ErrorCode.inconsistent_cluster_id


@on_cluster(started=())
async def test_without_a_leader_each_node_says_what_it_knows(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    await cluster.machines[1].start()
    with pytest.raises(NetworkError, match="no leader: 1 of the 3 nodes asked could be reached"):
        await run_on(cluster).remove(cluster.key_of(2), None)
    assert "node-1:9093: knows no leader" in capsys.readouterr().out


class _LosesAnswers(AdminClient):
    """Answers to changes are lost on the way."""

    async def remove_metadata_voter(self, *arguments: object, **fields: object) -> None:
        await super().remove_metadata_voter(*arguments, **fields)  # type: ignore[arg-type]
        raise OutcomeUnknownError("remove voter: sent to the leader, which did not answer")


@on_cluster()
async def test_a_lost_answer_is_made_up_for_by_looking(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    gone = cluster.others(leader)[0]
    client = _LosesAnswers([cluster.endpoint_of(leader.key.id)], network=cluster.network.seen_from("client-admin"))
    await ChangeRun(client, 5000, 30_000, 2000).remove(gone.key, None)
    assert gone.key.id not in leader.view.voters.ids


@on_cluster(observers=2)
async def test_the_status_shows_committed_voters_during_a_change(cluster: Cluster) -> None:
    """Growing to four with one follower cut off, and then another: the record is in the leader's log alone."""
    leader = await cluster.wait_for_leader()
    run = run_on(cluster)
    fields = status_fields(await run.describe())
    assert "committedVoters" not in fields
    near, far = cluster.others(leader)
    added = cluster.key_of(4)
    async with trio.open_nursery() as nursery:
        for other in (near, far):
            cluster.network.clog(f"node-{leader.key.id}", f"node-{other.key.id}")
        nursery.start_soon(_add_quietly, run, cluster)
        await cluster.wait_until(lambda: 4 in leader.view.voters.ids)
        client = AdminClient([cluster.endpoint_of(leader.key.id)], network=cluster.network.seen_from("client-x"))
        quorum = await client.describe_metadata_quorum()
        assert isinstance(quorum, QuorumDescription)
        fields = status_fields(quorum)
        assert [voter["id"] for voter in fields["currentVoters"]] == [1, 2, 3, 4]
        assert [voter["id"] for voter in fields["committedVoters"]] == [1, 2, 3]
        assert fields["uncommittedVoterChange"] == f"add {added}"
        cluster.heal()
    await cluster.wait_until_alike()


async def _add_quietly(run: ChangeRun, cluster: Cluster) -> None:
    try:
        await add(run, cluster, 4)
    except (OutcomeUnknownError, ChangeRefused, VoterChangeError):
        pass
    await wait_all_tasks_blocked()
