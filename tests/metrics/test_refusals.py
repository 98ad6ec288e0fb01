"""What is refused or slowed at a limit is in the metrics, so that an operator sees an attack; all in virtual time."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from uuid import UUID

import pytest
import trio

from kraft_trio.config.sasl_fields import Login
from kraft_trio.config.secret import Secret
from kraft_trio.config.values import STANDARD_AUTHORIZER
from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint, Endpoints
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import LISTENER
from kraft_trio.wire.api import ADD_RAFT_VOTER, VOTE
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest
from kraft_trio.wire.error_codes import ErrorCode
from tests.actors.network.test_connection_places import closes_after_s, is_served
from tests.actors.network.test_listener_admission import at_clients, with_client_listeners
from tests.actors.test_rules import vote_request
from tests.security.test_sasl_cluster import PASSWORD, SCRAM_SHA_256, log_in, on_sasl_cluster
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import FORGED, STRANGER, RawClient, batch_of


def metric(cluster: Cluster, name: str) -> float | str:
    return cluster.nodes[1].metrics.values()[name]


@on_cluster(voters=1, started=(), settings={"max.connections.per.ip": "2"})
async def test_connections_and_those_without_a_place(cluster: Cluster) -> None:
    await with_client_listeners(cluster)
    before = metric(cluster, "number-of-connections")
    async with AsyncExitStack() as stack:
        assert [await is_served(stack, cluster, at_clients(1)) for _ in range(4)] == [True, True, False, False]
        assert metric(cluster, "number-of-connections") == before + 2
    assert metric(cluster, "number-of-refused-connections") == 2


@on_cluster(voters=1)
async def test_connections_that_were_cut(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    await closes_after_s(cluster, b"")
    assert metric(cluster, "number-of-cut-connections") == 1


@on_cluster(voters=1)
async def test_malformed_requests(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    await closes_after_s(cluster, b"\x7f\xff\xff\xff")
    assert metric(cluster, "number-of-malformed-requests") == 1
    assert metric(cluster, "number-of-cut-connections") == 0


def test_failed_authentications(tmp_path: Path) -> None:
    async def guess(cluster: Cluster) -> None:
        for user in ("node", "nobody"):
            with pytest.raises(NetworkError):
                await log_in(cluster, Login(SCRAM_SHA_256, user, Secret("guessed")))
        assert metric(cluster, "number-of-failed-authentications") == 2
        await (await log_in(cluster, Login(SCRAM_SHA_256, "node", PASSWORD))).aclose()
        assert metric(cluster, "number-of-failed-authentications") == 2

    on_sasl_cluster(guess, tmp_path)


@on_cluster(voters=1, settings={"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:operator"})
async def test_denied_requests(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    async with RawClient.connected(cluster, 1) as client:
        answer = await client.ask(VOTE, vote_request(STRANGER, leader.view.epoch + 1, 0, 0))
    assert answer.error is ErrorCode.cluster_authorization_failed
    assert metric(cluster, "number-of-denied-requests") == 1


@on_cluster(voters=1, invariants=FORGED)
async def test_epochs_too_far_ahead(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    async with RawClient.connected(cluster, 1) as client:
        await client.ask(VOTE, vote_request(STRANGER, 10**6, 0, 0))
    assert metric(cluster, "number-of-refused-epochs") == 1


@on_cluster(voters=1, settings={"kraft.voter.changes.max.waiting": "2"})
async def test_voter_changes_beyond_those_that_may_wait(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    nowhere = Endpoints({LISTENER: Endpoint("nowhere", 1)})
    timed_out = []

    async def add(client: RawClient, voter_id: int) -> None:
        request = AddRaftVoterRequest(cluster.cluster_id, 10_000, voter_id, UUID(int=voter_id), nowhere)
        timed_out.append((await client.ask(ADD_RAFT_VOTER, request)).error)

    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        for number in range(5):
            client = await stack.enter_async_context(RawClient.connected(cluster, 1))
            nursery.start_soon(add, client, 100 + number)
    assert timed_out == [ErrorCode.request_timed_out] * 5
    assert metric(cluster, "number-of-refused-voter-changes") == 3


@on_cluster(voters=1)
async def test_producer_ids(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    assert metric(cluster, "number-of-producer-ids") == 0
    async with RawClient.connected(cluster, 1) as client:
        for producer_id in (5, 6, 5):
            await client.produce(batch_of(b"value", producer_id=producer_id, base_sequence=0))
    assert metric(cluster, "number-of-producer-ids") == 2


@on_cluster(voters=1, settings={"queued.max.request.bytes": str(8 * 2**20)})
async def test_memory_of_requests_and_those_that_waited_for_it(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    memory = cluster.nodes[1].tree._memory
    before = memory.taken
    taken = 6 * 2**20 - before
    assert memory.take_now(taken, for_replica=False)
    assert metric(cluster, "request-memory-bytes") == before + taken
    with trio.move_on_after(1):
        await memory.take(1, for_replica=False)
    memory.give_back(taken)
    assert metric(cluster, "number-of-slowed-requests") == 1
