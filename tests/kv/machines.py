"""Helpers for tests of the store's state machine without a node."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kraft_trio.application.state_machine import Committed
from kraft_trio.kv import CommandSerde, KvMachine
from kraft_trio.kv.requests import Command
from kraft_trio.kv.responses import Result
from kraft_trio.storage.batches.batch import Record

_SERDE = CommandSerde()


def execute(machine: KvMachine, command: Command) -> Result:
    """Apply a command as it comes out of the log."""
    return machine.apply(Committed(0, 0, _SERDE.decode(_SERDE.encode(command))))


def saved(machine: KvMachine) -> list[bytes]:
    return [record.value or b"" for record in machine.save()]


async def reloaded(machine: KvMachine) -> KvMachine:
    """Another machine with the state of this one's snapshot."""

    async def records() -> AsyncIterator[Record]:
        for offset, value in enumerate(saved(machine)):
            yield Record(offset, 0, None, value, (), 0)

    other = KvMachine()
    await other.load(records())
    return other


def apply_bytes(machine: KvMachine, value: bytes) -> Result:
    """Apply a record as it is in the log."""
    return machine.apply(Committed(0, 0, _SERDE.decode(value)))
