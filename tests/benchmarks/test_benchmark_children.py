"""A benchmark leaves no process behind, however it ends."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
import trio

from benchmarks.children import Child, start_child, stopping, until_sigterm

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


async def test_sigterm_stops_the_children(tmp_path: Path) -> None:
    children: dict[int, Child] = {}

    async def work() -> None:
        async with stopping(children):
            children[0] = await start_child("sleeper", SLEEPER, tmp_path / "log")
            os.kill(os.getpid(), signal.SIGTERM)
            await trio.sleep_forever()

    with pytest.raises(SystemExit) as ended:
        await until_sigterm(work)
    assert ended.value.code == 143
    assert not children[0].running


async def test_the_result_of_the_work_is_handed_on() -> None:
    async def work() -> int:
        return 7

    assert await until_sigterm(work) == 7
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
