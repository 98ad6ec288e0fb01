"""A stranger writes with the id of another client's producer, which anybody finds in the log's batches.

The owner hears of it: nothing is acknowledged that is not in the log.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraft_trio.protocol.producer_owners import ProducerOwners
from kraft_trio.simulation import Cluster
from kraft_trio.wire.api import PRODUCE
from kraft_trio.wire.apis.produce import ProducePartition, ProduceRequest
from kraft_trio.wire.codec import RequestHeader
from kraft_trio.wire.error_codes import ErrorCode
from tests.simulation.mutants.snapshots import SETTINGS
from tests.support.ledger import Ledgers
from tests.support.logs import values_in
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import TOPIC, TOPIC_ID, RawClient, batch_of

OWNER = 7


async def _change(cluster: Cluster, how: str) -> int:
    """Let the leader change or not.  Returns the id of the one that leads then."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    if how == "leader change":
        cluster.machines[leader.key.id].kill()
    elif how == "restart of all":
        for node_id in cluster.voter_ids:
            cluster.machines[node_id].crash("all")
        for node_id in cluster.voter_ids:
            await cluster.machines[node_id].start()
    return (await cluster.wait_for_leader()).key.id


@pytest.mark.parametrize("after", ["the same leader", "leader change", "restart of all"])
@on_cluster()
async def test_a_batch_in_anothers_place_is_no_duplicate(cluster: Cluster, after: str) -> None:
    """By the same leader, by the next one, and by one that has only read its log."""
    leader = await cluster.wait_for_leader()
    async with RawClient.connected(cluster, leader.key.id) as client:
        first = await client.produce(batch_of(b"first", producer_id=OWNER, base_sequence=0))
        stolen = await client.produce(batch_of(b"other", producer_id=OWNER, base_sequence=1))
    async with RawClient.connected(cluster, await _change(cluster, after)) as client:
        refused = await client.produce(batch_of(b"owner", producer_id=OWNER, base_sequence=1))
        assert refused.error == ErrorCode.out_of_order_sequence_number
        assert refused.base_offset == stolen.base_offset
        assert f"producer {OWNER}" in (refused.error_message or "")
        again = [
            await client.produce(batch_of(value, producer_id=OWNER, base_sequence=at))
            for at, value in enumerate([b"first", b"other"])
        ]
        assert [answer.error for answer in again] == [ErrorCode.none] * 2
        assert [answer.base_offset for answer in again] == [first.base_offset, stolen.base_offset]
    assert values_in(await cluster.wait_for_leader()) == [b"first", b"other"]


@pytest.mark.parametrize(
    "other",
    [
        batch_of(b"owner", producer_id=OWNER, base_sequence=0, timestamp_ms=1),
        batch_of(b"owner!", producer_id=OWNER, base_sequence=0),
        batch_of(b"owne", producer_id=OWNER, base_sequence=0),
    ],
    ids=["another time", "a longer value", "a shorter value"],
)
@on_cluster(voters=1)
async def test_every_byte_counts(cluster: Cluster, other: bytes) -> None:
    leader = await cluster.wait_for_leader()
    async with RawClient.connected(cluster, leader.key.id) as client:
        await client.produce(other)
        await client.produce(batch_of(b"next", producer_id=OWNER, base_sequence=1))
        refused = await client.produce(batch_of(b"owner", producer_id=OWNER, base_sequence=0))
    assert refused.error == ErrorCode.out_of_order_sequence_number


@pytest.mark.parametrize("stolen", [5, 6, 20])
@on_cluster()
async def test_many_batches_of_a_stranger_make_no_success_either(cluster: Cluster, stolen: int) -> None:
    """Clients take DUPLICATE_SEQUENCE_NUMBER for success, because a batch of theirs is then in the log."""
    leader = await cluster.wait_for_leader()
    async with RawClient.connected(cluster, leader.key.id) as client:
        for at in range(stolen):
            await client.produce(batch_of(b"other %d" % at, producer_id=OWNER, base_sequence=at))
        refused = await client.produce(batch_of(b"owner", producer_id=OWNER, base_sequence=0))
    assert refused.error == ErrorCode.out_of_order_sequence_number
    assert b"owner" not in values_in(leader)


@on_cluster()
async def test_own_clients_write_with_another_id(cluster: Cluster) -> None:
    """A LogClient, and the appender of a node, whose sequences a stranger has used."""
    leader = await cluster.wait_for_leader()
    node = cluster.others(leader)[0]
    async with cluster.client("owner") as owner:
        await owner.produce([b"client 1"])
        await node.append([b"node 1"])
        batches = [header for header, _ in leader.log.iter_batches(0, leader.log.end_offset) if header.producer_id >= 0]
        async with RawClient.connected(cluster, leader.key.id) as stranger:
            for header in batches:
                answer = await stranger.produce(
                    batch_of(b"stranger", producer_id=header.producer_id, base_sequence=header.base_sequence + 1)
                )
                assert answer.error == ErrorCode.none
        [offset] = await owner.produce([b"client 2"])
        offsets = await node.append([b"node 2"])
    stored = {header.base_offset: batch for header, batch in leader.log.iter_batches(0, leader.log.end_offset)}
    assert b"client 2" in stored[offset]
    assert b"node 2" in stored[offsets[0]]
    assert sorted(values_in(leader)) == [b"client 1", b"client 2", b"node 1", b"node 2", b"stranger", b"stranger"]


@on_cluster(state_machine=Ledgers(), settings=SETTINGS)
async def test_what_was_trimmed_is_known_by_its_sequences(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    batch = batch_of(b"owner", producer_id=OWNER, base_sequence=0)
    async with RawClient.connected(cluster, leader.key.id) as client:
        first = await client.produce(batch)
        for number in range(200):
            await leader.append([b"%d" % number])
            if leader.log.log_start_offset > first.base_offset:
                break
            await leader.take_snapshot()
        assert leader.log.log_start_offset > first.base_offset
        again = await client.produce(batch)
    assert (again.error, again.base_offset) == (ErrorCode.none, first.base_offset)


def test_the_first_principal_owns_an_id() -> None:
    owners = ProducerOwners(2)
    assert owners.may_use(1, "User:a")
    owners.used(1, "User:a")
    owners.used(1, "User:b")
    assert owners.may_use(1, "User:a")
    assert not owners.may_use(1, "User:b")
    owners.used(2, "User:b")
    owners.used(1, "User:a")
    owners.used(3, "User:c")
    assert [owners.may_use(one, "User:x") for one in (1, 2, 3)] == [False, True, False]


@on_cluster(voters=1)
async def test_an_authorizer_keeps_strangers_from_an_id(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    router: Any = leader.tree.server._router
    router._access = SimpleNamespace(refusal=lambda *_: None)

    async def produce(name: str, value: bytes, at: int) -> ErrorCode:
        asker: Any = SimpleNamespace(software="", principal=f"User:{name}", peer_host="client")
        partition = ProducePartition(TOPIC, TOPIC_ID, 0, batch_of(value, producer_id=OWNER, base_sequence=at))
        request = ProduceRequest(-1, 30_000, (partition,))
        answer = await router.route(RequestHeader(PRODUCE, 9, 1), "CONTROLLER", request, asker=asker)
        await cluster.wait_until(lambda: answer.is_ready)
        error: ErrorCode = answer.response().partitions[0].error
        return error

    assert await produce("owner", b"early", 5) == ErrorCode.unknown_producer_id
    assert await produce("owner", b"a", 0) == ErrorCode.none
    assert await produce("stranger", b"x", 1) == ErrorCode.invalid_producer_id_mapping
    assert await produce("owner", b"b", 1) == ErrorCode.none
    assert values_in(leader) == [b"a", b"b"]
