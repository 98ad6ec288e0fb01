"""Tests of the bank on a whole quorum in virtual time, with faults: pytest examples/test_bank.py"""

from __future__ import annotations

import pytest
import trio

from examples.bank import SERDE, Bank, Command, Deposit, NotEnoughMoney, Transfer
from kraft_trio.testing import VirtualCluster

pytestmark = pytest.mark.kraft_cluster(Bank, serde=SERDE, voters=3, observers=1, seeds=3)
BankCluster = VirtualCluster[Command, int]


async def test_money_moves_and_is_never_lost(kraft_cluster: BankCluster) -> None:
    assert await kraft_cluster.execute(Deposit("alice", 100)) == 100
    assert await kraft_cluster.execute(Transfer("alice", "bob", 30), on=4) == 70
    with pytest.raises(NotEnoughMoney):
        await kraft_cluster.execute(Transfer("bob", "carol", 31))
    await kraft_cluster.read_barrier(on=2)
    assert kraft_cluster.state_machine(2).balances == {"alice": 70, "bob": 30}


async def test_a_deposit_that_is_retried_is_made_once(kraft_cluster: BankCluster) -> None:
    request_id = kraft_cluster.new_request_id()
    leader = await kraft_cluster.wait_for_leader()
    kraft_cluster.isolate(leader)
    with pytest.raises(trio.TooSlowError):
        await kraft_cluster.execute(Deposit("alice", 1), request_id, on=leader, within_s=2)
    successor = await kraft_cluster.wait_for_leader(other_than=leader)
    assert await kraft_cluster.execute(Deposit("alice", 1), request_id, on=successor) == 1
    kraft_cluster.heal()
    await kraft_cluster.restart(leader)
    assert await kraft_cluster.execute(Deposit("alice", 1), request_id, on=leader.config.node_id) == 1
    await kraft_cluster.wait_until_alike()
    assert [kraft_cluster.state_machine(node).balances["alice"] for node in kraft_cluster.nodes] == [1, 1, 1, 1]
