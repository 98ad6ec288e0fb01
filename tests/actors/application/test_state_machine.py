"""A state machine applies decoded values, in the order of the log, and snapshots carry its state over restarts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import attrs
import pytest

from kraft_trio import (
    Committed,
    EncodeError,
    MsgpackSerde,
    NewRecord,
    NotAppendedError,
    QuorumView,
    Record,
    open_node,
)
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.simulation.world import EPOCH_MS
from kraft_trio.wire.apis.fetch import FETCH
from kraft_trio.wire.connection import Connection
from tests.support.on_cluster import on_cluster, run_on_cluster


@attrs.frozen
class Deposit:
    account: str
    amount: int


class Bank:
    """Keeps balances, and what it was told."""

    def __init__(self) -> None:
        self.balances: dict[str, int] = {}
        self.applied: list[Committed[Deposit]] = []
        self.views: list[QuorumView] = []
        self.loads = 0

    def apply(self, record: Committed[Deposit]) -> int:
        self.applied.append(record)
        deposit = record.value
        self.balances[deposit.account] = balance = self.balances.get(deposit.account, 0) + deposit.amount
        return balance

    def save(self) -> Iterator[NewRecord]:
        balances = sorted(self.balances.items())
        return (NewRecord(b"%d" % balance, key=account.encode()) for account, balance in balances)

    async def load(self, records: AsyncIterator[Record]) -> None:
        self.balances = {(record.key or b"").decode(): int(record.value or b"") async for record in records}
        self.loads += 1

    def on_leader_change(self, view: QuorumView) -> None:
        self.views.append(view)


class Banks:
    """The bank of each process, in the order of their starts."""

    def __init__(self) -> None:
        self.of: dict[int, list[Bank]] = {}

    def __call__(self, node_id: int) -> Bank:
        bank = Bank()
        self.of.setdefault(node_id, []).append(bank)
        return bank


SERDE = MsgpackSerde(Deposit)


def test_values_come_decoded_with_their_record() -> None:
    banks = Banks()

    async def test(cluster: Cluster) -> None:
        node = await cluster.wait_for_leader()
        headers = (("source", b"test"), ("nothing", None))
        record = NewRecord(SERDE.encode(Deposit("bob", 5)), key=b"bob", headers=headers)
        offsets = await node.append([Deposit("alice", 100), record])
        await node.wait_until_applied(offsets[-1])
        first, second = banks.of[node.key.id][0].applied
        epoch, now_ms = node.view.epoch, EPOCH_MS + round(cluster.now_s * 1000)
        assert first == Committed(offsets[0], first.timestamp_ms, Deposit("alice", 100), None, (), epoch)
        assert second == Committed(offsets[1], first.timestamp_ms, Deposit("bob", 5), b"bob", headers, epoch)
        assert EPOCH_MS < first.timestamp_ms <= now_ms
        async for committed in node.committed():
            assert committed == first
            break

    run_on_cluster(test, Setup(serde=SERDE, state_machine=banks))


def test_every_replica_applies_the_same_values() -> None:
    banks = Banks()

    async def test(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        for node in cluster.nodes.values():
            offsets = await node.append([Deposit("alice", node.key.id), Deposit("bob", 1)])
        for node in cluster.nodes.values():
            await node.wait_until_applied(offsets[-1])
        assert [bank[0].balances for bank in banks.of.values()] == [{"alice": 10, "bob": 4}] * 4
        assert len({tuple(bank[0].applied) for bank in banks.of.values()}) == 1

    run_on_cluster(test, Setup(serde=SERDE, state_machine=banks, observers=1))


def test_a_snapshot_brings_the_state_back() -> None:
    banks = Banks()

    async def test(cluster: Cluster) -> None:
        node = await cluster.wait_for_leader()
        await node.wait_until_applied((await node.append([Deposit("alice", 100)]))[-1])
        await node.take_snapshot()
        [after] = await node.append([Deposit("alice", 1)])
        await cluster.machines[1].stop()
        await cluster.machines[1].start()
        await cluster.nodes[1].wait_until_applied(after)
        bank = banks.of[1][-1]
        assert (bank.loads, bank.balances, [record.value.amount for record in bank.applied]) == (1, {"alice": 101}, [1])

    run_on_cluster(test, Setup(voters=1, serde=SERDE, state_machine=banks))


def test_the_state_machine_is_told_who_leads() -> None:
    banks = Banks()

    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        other = cluster.others(leader)[0]
        await other.wait_for_leader()
        await cluster.machines[leader.key.id].stop()
        after = await cluster.wait_for_leader(other_than=leader)
        await other.wait_for_leader()
        told = [(view.epoch, view.leader_id) for view in banks.of[other.key.id][0].views]
        assert leader.key.id in [leader_id for _, leader_id in told]
        assert told[-1] == (after.view.epoch, after.key.id)
        assert len(set(told)) == len(told)

    run_on_cluster(test, Setup(serde=SERDE, state_machine=banks))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"bytes", "bytes is not registered with this serde"),
        (Deposit("alice", "100"), r"Deposit.amount: '100' given, but it would be read as 100"),  # type: ignore[arg-type]
        (Deposit("alice", None), r"cannot be encoded: .* expected int @ \$.amount"),  # type: ignore[arg-type]
        (Deposit("alice", 1 << 64), "this Deposit cannot be encoded: .*"),
        (NewRecord(b"bytes"), "not appended: 5 bytes are not a value"),
        (NewRecord(SERDE.encode(Deposit("bob", 1)), key="bob"), "key: str given, bytes or None expected"),  # type: ignore[arg-type]
        (NewRecord(b"", headers=(("a", "b"),)), "header 'a': str given, bytes or None expected"),  # type: ignore[arg-type]
        (NewRecord(b"", headers=("ab",)), "not appended: .*"),  # type: ignore[arg-type]
        (NewRecord(b"", headers=(("a", b""),) * 1001), "headers: 1001 given, 1000 at most expected"),
        (NewRecord(b"", timestamp_ms=1 << 63), "timestamp_ms: 9223372036854775808 given"),
    ],
)
@on_cluster(voters=1, serde=SERDE)
async def test_what_no_replica_could_apply_is_not_appended(cluster: Cluster, value: object, message: str) -> None:
    node = await cluster.wait_for_leader()
    end_offset = node.log.end_offset
    with pytest.raises(EncodeError, match=message) as caught:
        await node.append([Deposit("alice", 1), value])
    assert isinstance(caught.value, NotAppendedError)
    assert node.log.end_offset == end_offset


class NoLoad:
    def apply(self, record: Committed[bytes]) -> None: ...
    def save(self) -> Iterator[bytes]:
        return iter(())


class NotAsync(NoLoad):
    def load(self, records: AsyncIterator[Record]) -> None: ...


class Listening(Bank):
    async def on_leader_change(self, view: object) -> None: ...


class Async(Bank):
    async def apply(self, record: Committed[Deposit]) -> int:  # type: ignore[override]
        return 0


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (NoLoad(), "state_machine: NoLoad, which has no method load"),
        (NotAsync(), "state_machine: NotAsync, whose load must be async"),
        (Async(), "state_machine: Async, whose apply must not be async"),
        (Listening(), "state_machine: Listening, whose on_leader_change must not be async"),
        (Bank, "state_machine: type, which is the class Bank, not an instance of it"),
        (object(), "state_machine: object, which has no method apply, load, save"),
    ],
)
@on_cluster(voters=1)
async def test_what_is_no_state_machine_is_refused(cluster: Cluster, machine: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_node(cluster.nodes[1].config, state_machine=machine)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="given with on_commit or snapshots"):
        open_node(cluster.nodes[1].config, state_machine=Bank(), on_commit=Bank().apply)  # type: ignore[call-overload]


def test_a_commit_is_applied_in_the_leaders_step() -> None:
    """So nobody waits for a turn of the scheduler, and an append has been applied when it returns."""
    banks = Banks()

    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append([Deposit("alice", 1)])  # the first one needs a producer id
        for amount in range(2, 5):
            [offset] = await leader.append([Deposit("alice", amount)])
            assert banks.of[leader.key.id][0].applied[-1].offset == offset

    run_on_cluster(test, Setup(serde=SERDE, state_machine=banks))


def test_a_follower_asks_for_more_before_it_applies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader waits for that request, which tells what is synced; nobody waits for the follower's state."""
    begun: set[Connection] = set()
    asking: list[bool] = []

    class Watching(Bank):
        is_of_follower = False

        def apply(self, record: Committed[Deposit]) -> int:
            if self.is_of_follower:
                asking.append(bool(begun))
            return super().apply(record)

    begin, finish = Connection.begin, Connection.finish

    async def begin_and_tell(self: Connection, api: Any, request: Any) -> None:
        await begin(self, api, request)
        if api is FETCH:
            begun.add(self)

    async def finish_and_tell(self: Connection, api: Any) -> Any:
        response = await finish(self, api)
        begun.discard(self)
        return response

    monkeypatch.setattr(Connection, "begin", begin_and_tell)
    monkeypatch.setattr(Connection, "finish", finish_and_tell)

    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append([Deposit("alice", 0)])
        follower = next(node for node in cluster.nodes.values() if node is not leader)
        machines[follower.key.id].is_of_follower = True
        for amount in range(1, 5):
            [offset] = await leader.append([Deposit("alice", amount)])
            await follower.wait_until_applied(offset)

    machines = {node_id: Watching() for node_id in (1, 2)}
    run_on_cluster(test, Setup(serde=SERDE, state_machine=machines.__getitem__, voters=2))
    assert len(asking) >= 4
    assert all(asking)
