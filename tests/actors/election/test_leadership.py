"""What an application does only while its node leads: terms, appends that are fenced by an epoch, and views."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
import trio.testing

from kraft_trio.actors.election.leadership import Term
from kraft_trio.errors import NodeClosedError, NotLeaderError, OutcomeUnknownError
from kraft_trio.messages import LeadershipLost, QuorumView
from kraft_trio.node import Node
from kraft_trio.protocol.roles import Leader, Role
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.storage.batches.batch import Record
from tests.support.logs import values_in
from tests.support.on_cluster import on_cluster, run_on_cluster


async def depose(node: Node) -> None:
    """Let the leader resign, and wait until it has."""
    stamp = node.view.stamp
    await node.election.tell(LeadershipLost(stamp, "the test asks"))
    await node.election.view.wait_for(lambda view: view.stamp != stamp)


async def hold(node: Node, terms: list[Term], *, task_status: trio.TaskStatus[None]) -> None:
    async with node.leadership() as term:
        terms.append(term)
        task_status.started()
        await trio.sleep_forever()


def cut_off(cluster: Cluster, node: Node) -> None:
    cluster.partition({node.key.id}, set(cluster.voter_ids) - {node.key.id})


@on_cluster()
async def test_a_term_lasts_as_long_as_the_leadership(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    async with trio.open_nursery() as nursery:
        terms: list[Term] = []
        await nursery.start(hold, leader, terms)
        (term,) = terms
        assert (term.epoch, term.has_ended) == (leader.view.epoch, False)
        await depose(leader)
    assert term.has_ended
    assert term.was_interrupted


@on_cluster()
async def test_a_block_that_ends_by_itself_is_not_interrupted(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    async with leader.leadership() as term:
        pass
    assert not term.has_ended
    await depose(leader)
    assert term.has_ended
    assert not term.was_interrupted


@on_cluster()
async def test_errors_of_the_block_come_out_as_they_are(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    with pytest.raises(ZeroDivisionError):
        async with leader.leadership():
            raise ZeroDivisionError


@on_cluster()
async def test_the_end_cancels_a_fenced_append_instead_of_failing_it(cluster: Cluster) -> None:
    """The block hears of one thing: that its leadership is over."""
    leader = await cluster.wait_for_leader()
    cut_off(cluster, leader)
    async with leader.leadership() as term:
        await leader.append([b"value"], epoch=term.epoch)
    assert term.was_interrupted


@on_cluster()
async def test_the_end_does_not_wait_for_the_disk(cluster: Cluster) -> None:
    """The epoch's tasks end after the fsync under way; the application must stop before."""
    leader = await cluster.wait_for_leader()
    async with trio.open_nursery() as nursery:
        terms: list[Term] = []
        await nursery.start(hold, leader, terms)
        cluster.machines[leader.key.id].disk.sync_latency = lambda: 5.0
        nursery.start_soon(leader.append, [b"value"])
        await trio.testing.wait_all_tasks_blocked()
        await leader.election.tell(LeadershipLost(leader.view.stamp, "the test asks"))
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(leader.view.role, Leader), "the fsync must still be under way"
        assert terms[0].was_interrupted
        nursery.cancel_scope.cancel()


class SlowMachine:
    """Applies nothing until it is released."""

    def __init__(self) -> None:
        self.released = trio.Event()
        self.applied: list[bytes | None] = []

    async def on_commit(self, records: Sequence[Record]) -> None:
        await self.released.wait()
        self.applied += [record.value for record in records]


def test_a_term_begins_with_what_earlier_leaders_committed() -> None:
    machines: dict[int, SlowMachine] = {}

    def make(node_id: int) -> SlowMachine:
        return machines.setdefault(node_id, SlowMachine())

    async def run(cluster: Cluster) -> None:
        first = await cluster.wait_for_leader()
        await first.append([b"of the first leader"])
        await cluster.wait_until_alike()
        await cluster.machines[first.key.id].stop()
        second = await cluster.wait_for_leader(other_than=first)
        machine = machines[second.key.id]
        async with trio.open_nursery() as nursery:
            terms: list[Term] = []
            nursery.start_soon(nursery.start, hold, second, terms)
            await trio.sleep(30)
            assert isinstance(second.view.role, Leader)
            assert not terms, "it leads, and the application does not know yet what it leads"
            machine.released.set()
            await trio.testing.wait_all_tasks_blocked()
            assert terms
            assert machine.applied == [b"of the first leader"]
            nursery.cancel_scope.cancel()

    run_on_cluster(run, Setup(on_commit=lambda node_id: make(node_id).on_commit))


@on_cluster()
async def test_a_term_begins_after_a_commit_in_its_epoch(cluster: Cluster) -> None:
    """A leader that cannot commit may not know what the log's state is."""
    leader = await cluster.wait_for_leader()
    (new, other), terms = cluster.others(leader), list[Term]()
    for node in (new, other):
        node.election.view.subscribe(
            lambda view, node=node: cut_off(cluster, node) if isinstance(view.role, Leader) else None
        )
    async with trio.open_nursery() as nursery:
        for node in (new, other):
            nursery.start_soon(nursery.start, hold, node, terms)
        await cluster.machines[leader.key.id].stop()
        await cluster.wait_until(lambda: cluster.leader() is not None)
        await trio.sleep(1)
        assert cluster.leader() is not None
        assert not terms
        cluster.heal()
        await trio.sleep(1)
        assert terms
        nursery.cancel_scope.cancel()


def test_a_leadership_that_ends_too_early_is_waited_for_again() -> None:
    machine = SlowMachine()

    async def run(cluster: Cluster) -> None:
        node = await cluster.wait_for_leader()
        await node.append([b"value"])
        terms: list[Term] = []
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                await depose(node)
                await cluster.wait_for_leader()
                nursery.start_soon(nursery.start, hold, node, terms)
                await trio.testing.wait_all_tasks_blocked()
            machine.released.set()
            await trio.testing.wait_all_tasks_blocked()
            assert [term.epoch for term in terms] == [node.view.epoch] * 2
            nursery.cancel_scope.cancel()

    run_on_cluster(run, Setup(voters=1, on_commit=lambda _: machine.on_commit))


@on_cluster()
async def test_those_who_wait_to_lead_hear_that_the_node_stopped(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    follower, _ = cluster.others(leader)
    outcomes: list[type[Exception]] = []

    async def wait() -> None:
        with pytest.raises(NodeClosedError):
            async with follower.leadership():
                pass
        outcomes.append(NodeClosedError)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await cluster.machines[follower.key.id].stop()
    assert outcomes


@on_cluster()
async def test_a_term_ends_when_its_node_stops_or_is_killed(cluster: Cluster) -> None:
    for end in ("stop", "kill"):
        leader = await cluster.wait_for_leader()
        terms: list[Term] = []
        async with trio.open_nursery() as nursery:
            await nursery.start(hold, leader, terms)
            machine = cluster.machines[leader.key.id]
            if end == "stop":
                await machine.stop()
            else:
                machine.kill()
        assert terms[0].was_interrupted
        await machine.start()


@on_cluster()
async def test_an_append_of_another_epoch_is_refused(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    follower, _ = cluster.others(leader)
    epoch = leader.view.epoch
    for node, wrong in ((leader, epoch - 1), (leader, epoch + 1), (follower, epoch)):
        with pytest.raises(NotLeaderError, match=f"epoch {wrong}"):
            await node.append([b"value"], epoch=wrong)
    assert list(await leader.append([b"one", b"two"], epoch=epoch)) == [
        leader.log.end_offset - 2,
        leader.log.end_offset - 1,
    ]
    assert values_in(leader) == [b"one", b"two"]


@on_cluster()
async def test_the_outcome_is_unknown_if_the_epoch_ends_before_the_commit(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    cut_off(cluster, leader)
    with pytest.raises(OutcomeUnknownError, match=f"offset {leader.log.end_offset}"):
        await leader.append([b"value"], epoch=leader.view.epoch)


@on_cluster()
async def test_an_append_that_the_leader_has_not_read_took_no_effect(cluster: Cluster) -> None:
    """It is in the mailbox when the epoch ends."""
    leader = await cluster.wait_for_leader()
    outcomes: list[type[Exception]] = []

    async def append() -> None:
        with pytest.raises(NotLeaderError):
            await leader.append([b"value"], epoch=leader.view.epoch)
        outcomes.append(NotLeaderError)

    async with trio.open_nursery() as nursery:
        leader.election._epoch_nursery.cancel_scope.cancel()
        nursery.start_soon(append)
    assert outcomes
    assert values_in(leader) == []


@on_cluster()
async def test_a_cancelled_append_leaves_nothing_behind(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    cut_off(cluster, leader)
    with trio.move_on_after(0.1):
        await leader.append([b"value"], epoch=leader.view.epoch)
    leading = leader.election.leading
    assert leading is not None
    assert len(leading._appends) == 0


async def roles_of(node: Node, roles: list[Role]) -> None:
    try:
        async for view in node.changes():
            roles.append(view.role)
    except NodeClosedError:
        pass


@on_cluster()
async def test_changes_yields_each_view_until_the_node_stops(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    roles: list[Role] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(roles_of, leader, roles)
        await depose(leader)
        await cluster.wait_for_leader(other_than=leader)
        await cluster.wait_until_alike()
        await cluster.machines[leader.key.id].stop()
    assert [type(role).__name__ for role in roles][:2] == ["Leader", "Resigned"]
    assert type(roles[-1]).__name__ == "Follower"


@on_cluster()
async def test_a_slow_reader_of_changes_gets_the_newest_view(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    changes = leader.changes()
    first: QuorumView = await anext(changes)
    assert first == leader.view
    await depose(leader)
    await cluster.wait_for_leader(other_than=leader)
    await cluster.wait_until_alike()
    assert await anext(changes) == leader.view
    await changes.aclose()
