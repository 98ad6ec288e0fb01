"""A committed record that the serde cannot decode stops the state machine, and not the node, or is skipped."""

from __future__ import annotations

import pytest
import structlog.testing
import trio

from kraft_trio import BadRecordError, CorruptLogError, MsgpackSerde, open_node
from kraft_trio.simulation import Cluster
from tests.actors.application.test_state_machine import Bank, Deposit
from tests.support.lone_node import lone_node
from tests.support.on_cluster import on_cluster
from tests.support.poison import poison

SERDE = MsgpackSerde(Deposit)
BAD = b"\x93\xa7Deposit\x01\x81\xa6amount\xa1x"
MESSAGE = rf"the record at offset 4 cannot be decoded: 'Deposit' version 1: .*; its {len(BAD)} bytes: {BAD.hex()}$"


@on_cluster(voters=1)
async def test_the_state_machine_stops_before_it(cluster: Cluster) -> None:
    await cluster.machines[1].stop()
    bank = Bank()
    async with lone_node(cluster, 1, serde=SERDE, state_machine=bank) as node:
        assert await node.execute(Deposit("alice", 1)) == 1
        taken = await node.take_snapshot()
        offset = await poison(node, BAD)
        assert offset == 4
        with pytest.raises(BadRecordError, match=MESSAGE):
            await node.execute(Deposit("alice", 2))
        with pytest.raises(BadRecordError, match=MESSAGE):
            await node.wait_until_applied(offset)
        with pytest.raises(BadRecordError, match=MESSAGE):
            await anext(node.committed(offset))
        assert bank.balances == {"alice": 1}
        [last] = await node.append([Deposit("alice", 3)])
        assert node.high_watermark == last + 1, "the node goes on replicating"
        assert await node.take_snapshot() == taken
        assert not isinstance(BadRecordError(), CorruptLogError)


@on_cluster(voters=1)
async def test_it_is_skipped_counted_and_logged(cluster: Cluster) -> None:
    await cluster.machines[1].stop()
    bank = Bank()
    with structlog.testing.capture_logs() as lines:
        options = {"serde": SERDE, "state_machine": bank, "on_bad_record": "skip"}
        async with lone_node(cluster, 1, **options) as node, cluster.client() as client:
            assert await node.execute(Deposit("alice", 1)) == 1
            assert await client.produce([BAD]) == (4,)
            assert await node.execute(Deposit("alice", 2)) == 3
            values = []
            with trio.move_on_after(1):
                async for committed in node.committed():
                    values.append(committed.value.amount)
            assert values == [1, 2]
            assert node.skipped_records == 1
    skipped = [line for line in lines if line["event"] == "record skipped"]
    assert [(line["offset"], line["size"], line["value"]) for line in skipped] == [(4, len(BAD), BAD.hex())] * 2


@on_cluster(voters=1)
async def test_an_unknown_policy_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="on_bad_record: 'ignore' given, expected stop or skip"):
        open_node(cluster.nodes[1].config, state_machine=Bank(), on_bad_record="ignore")  # type: ignore[call-overload]
