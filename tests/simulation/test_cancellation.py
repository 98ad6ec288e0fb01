"""Each public call is cancelled at each of its checkpoints: nothing leaks, and nobody else is disturbed.

A companion makes the same call on the same object beside it, and a client writes and reads through the quorum.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any

import attrs
import pytest
import trio
from trio._channel import MemoryChannelState

from kraft_trio.client.admin import AdminClient, VoterChangeError
from kraft_trio.client.log_client import LogClient
from kraft_trio.errors import NotLeaderError
from kraft_trio.node import Node
from kraft_trio.simulation import Cluster, Setup
from tests.support.ledger import Ledgers
from tests.support.lone_node import lone_node
from tests.support.on_cluster import run_on_cluster

MOST_CHECKPOINTS = 400
OBSERVER = 4


@attrs.define
class Stage:
    """What the calls are made on."""

    cluster: Cluster
    leader: Node
    follower: Node
    log: LogClient
    admin: AdminClient

    @property
    def newest(self) -> Node:
        """The node that leads now, or the one that led first."""
        return self.cluster.leader() or self.leader


Call = Callable[[Stage], Awaitable[object]]


async def append_in_epoch(stage: Stage) -> None:
    node = stage.newest
    with suppress(NotLeaderError):
        await node.append([b"fenced"], epoch=node.view.epoch)


async def read_committed(stage: Stage) -> None:
    async with aclosing(stage.follower.committed(0)) as committed:
        await anext(committed)


async def await_change(stage: Stage) -> None:
    async with aclosing(stage.follower.changes()) as changes:
        await anext(changes)


async def lead(stage: Stage) -> None:
    async with stage.leader.leadership() as term:
        await stage.leader.append([b"in a term"], epoch=term.epoch)


async def wait_until_applied(stage: Stage) -> None:
    (offset,) = await stage.follower.append([b"applied"])
    await stage.follower.wait_until_applied(offset)


NODE: dict[str, Call] = {
    "append": lambda stage: stage.follower.append([b"a", b"b"]),
    "append(epoch=)": append_in_epoch,
    "changes": await_change,
    "committed": read_committed,
    "execute": lambda stage: stage.follower.execute(b"command"),
    "execute(request_id=)": lambda stage: stage.follower.execute(b"command", stage.follower.new_request_id()),
    "leadership": lead,
    "read_barrier": lambda stage: stage.follower.read_barrier(),
    "read_barrier(leader)": lambda stage: stage.newest.read_barrier(),
    "resign": lambda stage: stage.newest.resign(),
    "take_snapshot": lambda stage: stage.follower.take_snapshot(),
    "transfer_leadership": lambda stage: stage.follower.transfer_leadership(3),
    "wait_for_leader": lambda stage: stage.follower.wait_for_leader(),
    "wait_until_applied": wait_until_applied,
}


async def read(stage: Stage) -> None:
    async with aclosing(stage.log.read(0)) as reader:
        await anext(reader)


LOG_CLIENT: dict[str, Call] = {
    "aclose": lambda stage: stage.log.aclose(),
    "produce": lambda stage: stage.log.produce([b"produced"]),
    "read": read,
}


async def add_and_remove(stage: Stage) -> None:
    observer = stage.cluster.nodes[OBSERVER]
    with suppress(VoterChangeError):
        await stage.admin.add_metadata_voter(observer.key, observer.config.advertised_endpoints())
    with suppress(VoterChangeError):
        await stage.admin.remove_metadata_voter(observer.key)


ADMIN_CLIENT: dict[str, Call] = {
    "add_metadata_voter": add_and_remove,
    "alter_partition_reassignments": lambda stage: stage.admin.alter_partition_reassignments((1, 2, 3)),
    "describe_features": lambda stage: stage.admin.describe_features(),
    "describe_metadata_quorum": lambda stage: stage.admin.describe_metadata_quorum(),
    "describe_snapshots": lambda stage: stage.admin.describe_snapshots(stage.cluster.endpoint_of(1)),
    "remove_metadata_voter": add_and_remove,
    "take_snapshot": lambda stage: stage.admin.take_snapshot(stage.cluster.endpoint_of(1)),
    "transfer_leadership": lambda stage: stage.admin.transfer_leadership(3),
    "update_features": lambda stage: stage.admin.update_features({"kraft.version": 1}, validate_only=True),
}

CALLS: dict[str, Call] = {
    **{f"Node.{name}": call for name, call in NODE.items()},
    **{f"LogClient.{name}": call for name, call in LOG_CLIENT.items()},
    **{f"AdminClient.{name}": call for name, call in ADMIN_CLIENT.items()},
}

NO_CALLS = {"observer_supports", "new_request_id"}
"""Methods that are not for applications, or do not wait."""


@pytest.mark.parametrize(("type_", "calls"), [(Node, NODE), (LogClient, LOG_CLIENT), (AdminClient, ADMIN_CLIENT)])
def test_every_public_call_is_cancelled(type_: type[Any], calls: dict[str, Call]) -> None:
    methods = {name for name, value in vars(type_).items() if inspect.isfunction(value) and not name.startswith("_")}
    assert methods - NO_CALLS == {name.partition("(")[0] for name in calls}


class CancelAt(trio.abc.Instrument):
    """Cancels a scope when its task has come to its n-th checkpoint."""

    def __init__(self, scope: trio.CancelScope, number: int) -> None:
        self._scope = scope
        self._task = trio.lowlevel.current_task()
        self._left = number

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()


async def is_cancelled_at(number: int, call: Call, stage: Stage) -> bool:
    """Make the call, and cancel it at that checkpoint.  Returns whether it has so many."""
    with trio.CancelScope() as scope:
        instrument = CancelAt(scope, number)
        trio.lowlevel.add_instrument(instrument)
        try:
            await call(stage)
        finally:
            trio.lowlevel.remove_instrument(instrument)
    return scope.cancel_called


@attrs.frozen(order=True)
class Census:
    """What may leak."""

    tasks: int
    connections: int
    channels: int

    @classmethod
    async def taken(cls, cluster: Cluster, *, leaders: Sequence[int] = ()) -> Census:
        """`leaders` lead one after the other before, so that all their connections are there."""
        for node_id in leaders:
            await cluster.nodes[node_id].transfer_leadership(node_id)
            for node in cluster.nodes.values():
                await node.append([b"to each leader"])
        await trio.sleep(5)
        gc.collect()
        channels = sum(
            isinstance(one, MemoryChannelState) and bool(one.open_send_channels or one.open_receive_channels)
            for one in gc.get_objects()
        )
        tasks = trio.lowlevel.current_statistics().tasks_living
        return cls(tasks, cluster.network.connection_count, channels)


async def accompany(call: Call, stage: Stage) -> None:
    """The same call at the same time, which nobody cancels."""
    with trio.fail_after(20):
        await call(stage)


async def write_and_read(stage: Stage, number: int) -> None:
    """Another client of the same nodes."""
    with trio.fail_after(20):
        (offset,) = await stage.follower.append([b"%d" % number])
        async with aclosing(stage.follower.committed(offset)) as committed:
            assert (await anext(committed)).value == b"%d" % number


@pytest.mark.rotating(4)
@pytest.mark.parametrize("name", CALLS)
def test_a_cancelled_call_leaves_nothing_and_disturbs_nobody(name: str) -> None:
    call = CALLS[name]

    async def run(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        follower = cluster.others(leader)[0]
        admin = AdminClient(cluster.bootstrap_servers, network=cluster.network.seen_from("admin"))
        async with cluster.client() as log:
            stage = Stage(cluster, leader, follower, log, admin)
            await log.produce([b"first"])
            await cluster.wait_until_alike()
            await accompany(call, stage)
            await write_and_read(stage, 0)
            await log.produce([b"second"])
            leaders = cluster.voter_ids if name.endswith(("resign", "transfer_leadership")) else ()
            before = await Census.taken(cluster, leaders=leaders)
            for number in range(1, MOST_CHECKPOINTS):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(accompany, call, stage)
                    nursery.start_soon(write_and_read, stage, number)
                    was_cancelled = await is_cancelled_at(number, call, stage)
                if not was_cancelled:
                    break
            else:
                pytest.fail(f"more than {MOST_CHECKPOINTS} checkpoints")
            assert number > 1, "it has a checkpoint"
            await log.produce([b"last"])
            after = await Census.taken(cluster, leaders=leaders)
            assert after.tasks <= before.tasks
            assert after.connections <= before.connections
            assert after.channels <= before.channels

    run_on_cluster(run, Setup(observers=1, state_machine=Ledgers()))


def test_a_node_that_is_cancelled_while_it_opens_or_closes_can_be_opened_again() -> None:
    async def run(cluster: Cluster) -> None:
        async def open_and_close(_stage: Stage) -> None:
            async with lone_node(cluster, 3) as node:
                await node.wait_for_leader()

        leader = await cluster.wait_for_leader()
        stage = Stage(cluster, leader, leader, cluster.client(), AdminClient(cluster.bootstrap_servers))
        await open_and_close(stage)
        before = await Census.taken(cluster)
        number = 1
        while await is_cancelled_at(number, open_and_close, stage):
            number += 1
        assert number > 5
        after = await Census.taken(cluster)
        assert after.tasks <= before.tasks
        assert after.channels <= before.channels

    run_on_cluster(run, Setup(started=(1, 2)))
