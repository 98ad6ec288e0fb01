"""`kraft metadata-quorum replace` against whole nodes: both steps, and what is left of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from change_runs import run_on, with_new_disk
from quorums import FETCH_TIMEOUT_MS, key, leading, quorum, silent, up

from kraft_trio.cli.quorum.controller_commands import told
from kraft_trio.cli.quorum.replace_controller import Replacement, Replacing, may_have_died, what_is_left
from kraft_trio.cli.quorum.voter_change_run import ChangeRefused
from kraft_trio.simulation import Cluster
from tests.support.new_disk import replace_disk_of_a_follower
from tests.support.on_cluster import on_cluster


@on_cluster()
async def test_the_leader_takes_both_steps(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = await with_new_disk(cluster)
    replacing = Replacing(run_on(cluster), old.id, None, None)
    await replacing.run()
    quorum = await replacing.changes.describe()
    assert quorum.voter(new) is not None
    assert quorum.voter(old) is None
    assert capsys.readouterr().out.splitlines() == [
        f"Replacing controller {old.id}; to resume after an interruption:",
        f"  kraft metadata-quorum … replace -i {old.id}",
        f"Removed KRaft {told(old)}",
        f"Added {told(new, cluster.config_of(old.id).advertised_endpoints())}",
    ]


@on_cluster()
async def test_the_leader_goes_on_after_an_interruption(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = await with_new_disk(cluster)
    leader = await cluster.wait_for_leader()
    await _interrupted(cluster, Replacing(run_on(cluster), old.id, None, None), lambda: bool(leader.log.voters.target))
    await cluster.wait_until(lambda: leader.log.voters.voters.is_voter(new) and not leader.log.voters.target)
    capsys.readouterr()
    await Replacing(run_on(cluster), old.id, None, None).run()
    assert capsys.readouterr().out.startswith(f"Nothing to replace: {told(new)} is a voter")


@on_cluster()
async def test_both_steps_without_the_leader(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = await with_new_disk(cluster)
    listeners = cluster.config_of(old.id).advertised_endpoints()
    await Replacing(run_on(cluster), old.id, None, listeners).run()
    assert capsys.readouterr().out.splitlines() == [
        f"Replacing controller {old.id}; to resume after an interruption:",
        f"  kraft metadata-quorum … replace -i {old.id} --listeners CONTROLLER://{cluster.endpoint_of(old.id)}",
        f"Removed KRaft {told(old)}",
        f"Added {told(new, listeners)}",
    ]


@on_cluster()
async def test_it_goes_on_with_the_second_step(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = await with_new_disk(cluster)
    listeners = cluster.config_of(old.id).advertised_endpoints()
    leader = await cluster.wait_for_leader()
    replacing = Replacing(run_on(cluster), old.id, None, listeners)
    await _interrupted(cluster, replacing, lambda: not leader.log.voters.voters.is_voter(old))
    capsys.readouterr()
    await Replacing(run_on(cluster), old.id, None, listeners).run()
    assert capsys.readouterr().out == f"Added {told(new, listeners)}\n"
    assert (await run_on(cluster).describe()).voter(new) is not None


async def _interrupted(cluster: Cluster, replacing: Replacing, when: Callable[[], bool]) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(replacing.run)
        await cluster.wait_until(when)
        nursery.cancel_scope.cancel()


@on_cluster()
async def test_a_voter_that_died_just_now_is_replaced(cluster: Cluster) -> None:
    """For the leader it keeps up until its fetch timeout is over."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    old, new = await replace_disk_of_a_follower(cluster, leader)
    replacing = Replacing(run_on(cluster), old.id, None, None)
    await replacing.run()
    quorum = await replacing.changes.describe()
    assert quorum.voter(new) is not None
    assert quorum.voter(old) is None


@on_cluster()
async def test_a_voter_that_lives_is_not_waited_for(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    voter = cluster.others(leader)[0].key
    run = run_on(cluster)
    began = trio.current_time()
    await Replacing(run, voter.id, None, None).run()
    assert trio.current_time() - began < run.fetch_timeout_ms / 1000
    assert capsys.readouterr().out.startswith(f"Nothing to replace: {told(voter)} is a voter")


@on_cluster()
async def test_it_goes_on_after_the_first_step(cluster: Cluster) -> None:
    old, new = await with_new_disk(cluster)
    run = run_on(cluster)
    await run.remove(old, None)
    await Replacing(run, old.id, None, None).run()
    assert (await run.describe()).voter(new) is not None


@on_cluster()
async def test_a_second_time_there_is_nothing_to_do(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = await with_new_disk(cluster)
    run = run_on(cluster)
    await Replacing(run, old.id, None, None).run()
    capsys.readouterr()
    await trio.sleep(1)
    await Replacing(run, old.id, None, None).run()
    assert capsys.readouterr().out == (
        f"Nothing to replace: {told(new)} is a voter, and no other incarnation is waiting\n"
    )


@on_cluster()
async def test_nothing_changes_while_nobody_waits_for_the_place(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    leader = await cluster.wait_for_leader()
    gone = cluster.others(leader)[0].key
    cluster.machines[gone.id].kill()
    await trio.sleep(10)
    with pytest.raises(ChangeRefused, match=f"no other incarnation of controller {gone.id} follows the leader"):
        await Replacing(run_on(cluster, timeout_ms=3000), gone.id, None, None).run()
    assert gone.id in leader.view.voters.ids
    # Said once, and at once: who waits wants to know what for.
    assert capsys.readouterr().err == (
        f"kraft: note: waiting until another incarnation of controller {gone.id} follows the leader; "
        "until then nothing changes\n"
    )


@on_cluster()
async def test_the_dry_run_shows_both_steps(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = await with_new_disk(cluster)
    run = run_on(cluster)
    await Replacing(run, old.id, None, None).show()
    out = capsys.readouterr().out
    assert f"1. removing KRaft {told(old)}\n" in out
    assert f"2. adding {told(new, cluster.config_of(old.id).advertised_endpoints())}\n" in out
    assert "   MajorityAfter:          2 of 2, survives 0 failures; 2 up, survives 0 more now\n" in out
    assert "   MajorityAfter:          2 of 3, survives 1 failure; 3 up, survives 1 more now\n" in out
    assert (await run.describe()).voter(old) is not None


class TestWhatIsLeft:
    def test_both_steps(self) -> None:
        asked = quorum(leading(), up(2), silent(3), observers=(up(3, 2),))
        assert what_is_left(asked, 3, FETCH_TIMEOUT_MS) == Replacement(asked.voters[2], asked.observers[0], True)

    def test_the_second_step(self) -> None:
        asked = quorum(leading(), up(2), observers=(up(3, 2),))
        assert what_is_left(asked, 3, FETCH_TIMEOUT_MS) == Replacement(None, asked.observers[0], True)

    def test_the_new_one_has_not_caught_up(self) -> None:
        asked = quorum(leading(), up(2), silent(3), observers=(silent(3, 2),))
        assert what_is_left(asked, 3, FETCH_TIMEOUT_MS) == Replacement(asked.voters[2], asked.observers[0], False)

    def test_nobody_for_the_place(self) -> None:
        asked = quorum(leading(), up(2), silent(3))
        assert what_is_left(asked, 3, FETCH_TIMEOUT_MS) == Replacement(asked.voters[2])
        assert what_is_left(quorum(leading(), up(2)), 3, FETCH_TIMEOUT_MS) == Replacement()

    def test_nothing(self) -> None:
        asked = quorum(leading(), up(2), up(3, 2))
        assert what_is_left(asked, 3, FETCH_TIMEOUT_MS).is_done
        assert what_is_left(asked, 3, FETCH_TIMEOUT_MS, key(3, 2)).is_done

    def test_an_incarnation_of_long_ago_is_not_the_new_one(self) -> None:
        asked = quorum(leading(), up(2), silent(3, 2), observers=(silent(3, 1), up(3, 3)))
        assert what_is_left(asked, 3, FETCH_TIMEOUT_MS).new == up(3, 3)

    def test_the_old_one_that_observes_still_takes_no_place(self) -> None:
        """A leader remembers observers for minutes; the voter of that id keeps up."""
        asked = quorum(leading(), up(2), up(3, 2), observers=(silent(3, 1),))
        assert what_is_left(asked, 3, FETCH_TIMEOUT_MS).is_done

    def test_two_for_one_place(self) -> None:
        asked = quorum(leading(), up(2), silent(3), observers=(up(3, 2), up(3, 3)))
        with pytest.raises(ChangeRefused, match="all follow the leader: name the new one by its file with -c"):
            what_is_left(asked, 3, FETCH_TIMEOUT_MS)
        assert what_is_left(asked, 3, FETCH_TIMEOUT_MS, key(3, 3)).new == up(3, 3)


class TestMayHaveDied:
    def test_until_it_fetches_again(self) -> None:
        first = quorum(leading(), up(2), up(3))
        assert may_have_died(first, first, 3, FETCH_TIMEOUT_MS)
        fetched = quorum(leading(), up(2), silent(3, for_ms=100))
        assert not may_have_died(first, fetched, 3, FETCH_TIMEOUT_MS)

    def test_until_its_fetch_timeout_is_over(self) -> None:
        asked = quorum(leading(), up(2), silent(3))
        assert not may_have_died(asked, asked, 3, FETCH_TIMEOUT_MS)

    def test_neither_the_leader_nor_who_is_no_voter(self) -> None:
        asked = quorum(leading(), up(2), observers=(up(3),))
        assert not may_have_died(asked, asked, 1, FETCH_TIMEOUT_MS)
        assert not may_have_died(asked, asked, 3, FETCH_TIMEOUT_MS)
