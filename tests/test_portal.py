"""The thread that runs Trio for `kraft_trio.aio` and `kraft_trio.sync`."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio

from kraft_trio.errors import NodeClosedError
from kraft_trio.portal import Call, TrioThread


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
