"""Each public call is cancelled at each of its checkpoints: nothing leaks, and nobody else is disturbed.

A companion makes the same call on the same object next to it, and a client writes and reads through the quorum.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial

import attrs
import pytest
import trio
from trio._channel import MemoryChannelState

from kraft_trio.client.admin import AdminClient, VoterChangeError
from kraft_trio.client.log_client import LogClient
from kraft_trio.errors import NotLeaderError, UnsupportedVersionError
from kraft_trio.node import Node
from kraft_trio.running import run_node
from kraft_trio.simulation import Cluster, Setup
from tests.support.cancelling import is_cancelled_at
from tests.support.ledger import Ledgers
from tests.support.lone_node import lone_environment, lone_node
from tests.support.on_cluster import run_on_cluster
from tests.support.public_calls import public_calls

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


async def produce_and_close(stage: Stage) -> None:
    async with stage.cluster.client() as log:
        await log.produce([b"before the end"])


LOG_CLIENT: dict[str, Call] = {
    "aclose": produce_and_close,
    "produce": lambda stage: stage.log.produce([b"produced"]),
}


async def read(stage: Stage) -> None:
    async with aclosing(stage.log.read(0)) as reader:
        await anext(reader)


async def add_and_remove(stage: Stage) -> None:
    observer = stage.cluster.nodes[OBSERVER]
    with suppress(VoterChangeError):
        await stage.admin.add_metadata_voter(observer.key, observer.config.advertised_endpoints())
    with suppress(VoterChangeError):
        await stage.admin.remove_metadata_voter(observer.key)


async def refused_registration(stage: Stage) -> None:
    """Only Kafka's active controller has registrations."""
    with suppress(UnsupportedVersionError):
        await stage.admin.unregister_controller(3)


ADMIN_CLIENT: dict[str, Call] = {
    "add_metadata_voter": add_and_remove,
    "alter_partition_reassignments": lambda stage: stage.admin.alter_partition_reassignments((1, 2, 3)),
    "describe_features": lambda stage: stage.admin.describe_features(),
    "describe_metadata_quorum": lambda stage: stage.admin.describe_metadata_quorum(),
    "describe_snapshots": lambda stage: stage.admin.describe_snapshots(stage.cluster.endpoint_of(1)),
    "remove_metadata_voter": add_and_remove,
    "take_snapshot": lambda stage: stage.admin.take_snapshot(stage.cluster.endpoint_of(1)),
    "transfer_leadership": lambda stage: stage.admin.transfer_leadership(3),
    "unregister_controller": refused_registration,
    "update_features": lambda stage: stage.admin.update_features({"kraft.version": 1}, validate_only=True),
}

CALLS: dict[str, Call] = {
    **{f"Node.{name}": call for name, call in NODE.items()},
    **{f"LogClient.{name}": call for name, call in LOG_CLIENT.items()},
    "RecordReader.__anext__": read,
    **{f"AdminClient.{name}": call for name, call in ADMIN_CLIENT.items()},
}

ELSEWHERE = {
    "LogClient.__aenter__",  # never waits
    "LogClient.__aexit__",  # waits for aclose only
    "NodeMetrics.run",  # a part of the node
    "RecordReader.aclose",  # at the end of __anext__
    "ensure_formatted",  # tests/storage/test_ensure_formatted.py
    "open_node",  # below, as the next one
    "run_node",
}
"""Calls that are cancelled by other tests, or that nobody waits for."""


def test_every_public_call_is_cancelled() -> None:
    assert set(public_calls()) | {"open_node"} == {name.partition("(")[0] for name in CALLS} | ELSEWHERE


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
                    was_cancelled = await is_cancelled_at(number, partial(call, stage))
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


class Served(Exception):
    """Ends a node that would run until a signal."""


@asynccontextmanager
async def until_there_is_a_leader(node: Node) -> AsyncIterator[None]:
    await node.wait_for_leader()
    raise Served
    yield


async def open_and_close(cluster: Cluster) -> None:
    async with lone_node(cluster, 3) as node:
        await node.wait_for_leader()


async def run_until_there_is_a_leader(cluster: Cluster) -> None:
    environment = lone_environment(cluster, 3)
    try:
        await run_node(cluster.machines[3].config, environment=environment, serving=until_there_is_a_leader)
    except* Served:
        pass


@pytest.mark.parametrize("call", [open_and_close, run_until_there_is_a_leader])
def test_a_node_that_is_cancelled_while_it_opens_or_closes_can_be_opened_again(
    call: Callable[[Cluster], Awaitable[None]],
) -> None:
    async def run(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        await call(cluster)
        before = await Census.taken(cluster)
        number = 1
        while await is_cancelled_at(number, partial(call, cluster)):
            number += 1
        assert number > 5
        after = await Census.taken(cluster)
        assert after.tasks <= before.tasks
        assert after.channels <= before.channels

    run_on_cluster(run, Setup(started=(1, 2)))
