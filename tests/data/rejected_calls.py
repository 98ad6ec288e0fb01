"""Calls that mypy and pyright must reject: the lines that end with `# rejected`, and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import attrs

from kraft_trio import Committed, MsgpackSerde, NewRecord, Node, NodeConfig, Record, aio, open_node, sync


@attrs.frozen
class Deposit:
    account: str
    amount: int


@attrs.frozen
class Withdrawal:
    account: str


class Bank:
    def apply(self, record: Committed[Deposit]) -> int:
        return record.value.amount

    def save(self) -> list[NewRecord]:
        return []

    async def load(self, records: AsyncIterator[Record]) -> None: ...


class SavingsBank(Bank):
    """For the wrong calls: after one, pyright 1.1 takes the class for no state machine in right calls too."""


class Forgetful:
    def apply(self, record: Committed[Deposit]) -> int:
        return record.value.amount


async def open_wrongly(config: NodeConfig) -> None:
    open_node(config, state_machine=SavingsBank())  # rejected
    open_node(config, serde=MsgpackSerde(Withdrawal), state_machine=SavingsBank())  # rejected
    open_node(config, serde="msgpack")  # rejected
    open_node(config, serde=MsgpackSerde(Deposit), state_machine=Forgetful())  # rejected
    open_node("server.properties")  # rejected
    open_node(config, state_machine=SavingsBank)  # rejected


async def use_wrongly(config: NodeConfig) -> None:
    async with open_node(config, serde=MsgpackSerde(Deposit), state_machine=Bank()) as node:
        balance: int = await node.execute(Deposit("alice", 1))
        text: str = await node.execute(Deposit("alice", 1))  # rejected
        await node.execute(Withdrawal("alice"))  # rejected
        await node.execute(Deposit("alice", balance), request_id=text)  # rejected
        await node.append(Deposit("alice", 1))  # rejected
        await node.append([Deposit("alice", 1), NewRecord(b"", key=b"alice")])
        await node.append([Withdrawal("bob")])  # rejected
        async for committed in node.committed():
            print(committed.value.amount + 1, committed.epoch)
            print(committed.value.balance)  # rejected
        same: Node[Deposit, int] = node
        other: Node[Withdrawal, int] = node  # rejected
        print(same, other)


async def use_bytes_wrongly(config: NodeConfig) -> None:
    async with open_node(config) as node:
        await node.append([b"bytes"])
        await node.append(["text"])  # rejected
        await node.append(b"bytes")  # rejected


async def use_two_classes(config: NodeConfig) -> None:
    async with open_node(config, serde=MsgpackSerde(Deposit, Withdrawal)) as node:
        await node.append([Deposit("alice", 1), Withdrawal("alice")])
        await node.append([b"bytes"])  # rejected
        async for committed in node.committed():
            print(committed.value.account)
            print(committed.value.amount)  # rejected


async def use_in_asyncio_wrongly(config: NodeConfig) -> None:
    aio.open_node(config, serde="msgpack")  # rejected
    async with aio.open_node(config, serde=MsgpackSerde(Deposit), state_machine=Bank()) as node:
        balance: int = await node.execute(Deposit("alice", 1))
        text: str = await node.execute(Deposit("alice", balance))  # rejected
        await node.append([Withdrawal(text)])  # rejected
        async for committed in node.committed():
            print(committed.value.balance)  # rejected


def use_in_threads_wrongly(config: NodeConfig) -> None:
    sync.open_node(config, serde="msgpack")  # rejected
    with sync.open_node(config, serde=MsgpackSerde(Deposit), state_machine=Bank()) as node:
        balance: int = node.execute(Deposit("alice", 1))
        text: str = node.execute(Deposit("alice", balance))  # rejected
        node.append([Withdrawal(text)])  # rejected
        for committed in node.committed():
            print(committed.value.balance)  # rejected


def configure_wrongly() -> None:
    NodeConfig(node_id=1, listeners="CONTROLLER://a:9093", metadata_log_dir=Path("data"), quorum_voters=["1@a:9093"])
    NodeConfig(node_id="1", metadata_log_dir="data")  # rejected
    NodeConfig(metadata_log_dir="data")  # rejected
    NodeConfig(node_id=1, metadata_log_dir="data", listener="CONTROLLER://a:9093")  # rejected
    NodeConfig(node_id=1, metadata_log_dir="data", quorum_bootstrap_servers=["a:9093", 9094])  # rejected
