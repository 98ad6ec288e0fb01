"""Mutants of `Node.execute`: what a replica remembers of requests, so that a retry is not applied again."""

from __future__ import annotations

from collections.abc import Iterable

from kraft_trio.application import machine_adapter
from kraft_trio.node import Node
from kraft_trio.protocol.request_table import RequestTable, Standing
from kraft_trio.simulation import Cluster
from tests.support.ledger import Ledgers, restart_from_snapshots

from .mutant import Change, mutant, without_assertions
from .runs import custom
from .snapshots import SETTINGS


async def _retry(cluster: Cluster) -> None:
    """A command is executed again with its id: on another node, and after all nodes have begun with their snapshots."""
    leader = await cluster.wait_for_leader()
    request_id = leader.new_request_id()
    await leader.execute(b"before")
    given = await leader.execute(b"once", request_id)

    async def retry_at(node: Node[bytes, int]) -> None:
        again = await node.execute(b"once", request_id)
        if again != given:
            facts = (f"node {node.key.id} gave {again} for a command", f"it had been given {given} before")
            cluster.violate("a command is applied once, and its caller gets the result", facts, (node.key.id,))

    await retry_at(cluster.others(leader)[0])
    await restart_from_snapshots(cluster)
    for node in cluster.nodes.values():
        await retry_at(node)


RETRIED = custom("a command is retried", _retry, settings=SETTINGS, state_machine=Ledgers())


@mutant(breaks="a request that was applied is not applied again", found_by=(0,), run=RETRIED)
def a_retry_is_applied_again() -> Iterable[Change]:
    def standing(self: RequestTable, request_id: object, timestamp_ms: int) -> Standing:
        return Standing.NEW

    yield RequestTable, "standing", standing
    yield RequestTable, "add", without_assertions(RequestTable.add)


@mutant(breaks="a snapshot has the requests that were applied", found_by=(0,), run=RETRIED)
def the_requests_are_not_in_the_snapshot() -> Iterable[Change]:
    yield machine_adapter, "request_records", lambda table, own: own
