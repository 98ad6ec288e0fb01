"""A stranger has recorded what the replicas have said to each other, and says it again, byte for byte."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio

from kraft_trio.simulation import Cluster
from kraft_trio.simulation.network.message import Message
from kraft_trio.wire.api import (
    ADD_RAFT_VOTER,
    BEGIN_QUORUM_EPOCH,
    END_QUORUM_EPOCH,
    FETCH,
    UPDATE_RAFT_VOTER,
    VOTE,
)
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import CLIENT, FORGED
from tests.support.voter_change_requests import add_voter

REPLAYED = (VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH, UPDATE_RAFT_VOTER, ADD_RAFT_VOTER)
MOST = 400
"""Frames of one API that are kept; they are alike."""


class Recorder:
    """Keeps each different request of the APIs in REPLAYED, in the order in which they were sent."""

    def __init__(self, cluster: Cluster) -> None:
        self.frames: dict[bytes, int] = {}
        cluster.message_listeners.append(self.sent)

    def sent(self, message: Message) -> None:
        kinds = [api.key for api in REPLAYED]
        is_wanted = message.is_request and not message.delivered and message.api_key in kinds
        if is_wanted and list(self.frames.values()).count(message.api_key) < MOST:
            self.frames.setdefault(message.raw, message.api_key)

    @property
    def kinds(self) -> set[int]:
        return set(self.frames.values())


async def say_again(cluster: Cluster, node_id: int, frames: list[bytes]) -> None:
    """All of them to one node, on as many connections as it takes."""
    sent = 0
    while sent < len(frames):
        stream = await cluster.network.seen_from(CLIENT).connect(cluster.endpoint_of(node_id))
        with suppress(trio.BrokenResourceError):
            for frame in frames[sent:]:
                sent += 1
                await stream.send_all(frame)
                with trio.move_on_after(1):
                    await stream.receive_some(2**16)
        await trio.aclose_forcefully(stream)


async def one_leader_after_another(cluster: Cluster) -> None:
    """One is stopped, so that it resigns; the next is killed; each comes back.  Then the observer becomes a voter."""
    for is_stopped in (True, False):
        leader = await cluster.wait_for_leader()
        await leader.append([b"x"])
        machine = cluster.machines[leader.key.id]
        if is_stopped:
            await machine.stop()
        else:
            machine.kill()
        await cluster.wait_for_leader(other_than=leader)
        await machine.start()
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    assert (await add_voter(cluster, leader, cluster.key_of(4))).error == ErrorCode.none


@pytest.mark.parametrize("is_reversed", [False, True], ids=["in order", "the newest first"])
@on_cluster(observers=1, invariants=FORGED)
async def test_nothing_moves(cluster: Cluster, is_reversed: bool) -> None:
    recorder = Recorder(cluster)
    await one_leader_after_another(cluster)
    leader = await cluster.wait_for_leader()
    await leader.append([b"before"])
    await cluster.wait_until_alike()
    assert recorder.kinds >= {VOTE.key, BEGIN_QUORUM_EPOCH.key, END_QUORUM_EPOCH.key, FETCH.key, ADD_RAFT_VOTER.key}
    epoch, voters = leader.view.epoch, leader.log.voters
    frames = list(recorder.frames)
    cluster.message_listeners.remove(recorder.sent)
    async with trio.open_nursery() as nursery:
        for node_id in cluster.node_ids:
            nursery.start_soon(say_again, cluster, node_id, frames[::-1] if is_reversed else frames)
        for number in range(20):
            await leader.append([b"beside %d" % number])
    await leader.append([b"after"])
    await cluster.wait_until_alike()
    assert [node.view.epoch for node in cluster.nodes.values()] == [epoch] * 4
    assert await cluster.wait_for_leader() is leader
    assert leader.log.voters == voters
