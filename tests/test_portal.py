"""The thread that runs Trio for `kraft_trio.aio` and `kraft_trio.sync`."""

from __future__ import annotations

import errno
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from kraft_trio.errors import NodeClosedError
from kraft_trio.portal import Call, HostedBlock, TrioThread


def test_a_call_while_the_thread_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The nursery of the calls has closed, and the event loop still runs."""
    calls: list[Call[None]] = []
    failures: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    thread = TrioThread("test")
    thread.start()

    async def call_late() -> None:
        try:
            await trio.sleep_forever()
        finally:
            calls.append(thread.begin(trio.lowlevel.checkpoint))

    thread.read(lambda: trio.lowlevel.spawn_system_task(call_late))
    thread.stop()
    [call] = calls
    with pytest.raises(NodeClosedError):
        call.future.result(0)
    assert failures == []


def test_what_keeps_trio_from_starting_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a lack of descriptors, of which it needs a few."""

    def fail(_main: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(trio, "run", fail)
    with pytest.raises(OSError, match="Too many open files"):
        TrioThread("test").start()


def test_a_thread_ends_with_a_block_that_nobody_has_left() -> None:
    """Ctrl-C may come between the two."""

    @asynccontextmanager
    async def manager() -> AsyncIterator[int]:
        yield 1

    thread = TrioThread("test")
    thread.start()
    block = HostedBlock(thread, manager)
    assert block.entered.result(60) == 1
    stopping = threading.Thread(target=thread.stop, daemon=True)
    stopping.start()
    stopping.join(60)
    assert not stopping.is_alive()
