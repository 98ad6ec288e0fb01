"""SIGTERM and SIGHUP as interrupts, for commands that have something to do before they end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from kraft_trio.system.signals import HANGUP


@contextmanager
def terminations_as_interrupts() -> Iterator[None]:
    """Within the block, SIGTERM and the end of the terminal raise KeyboardInterrupt, as Ctrl-C does.

    A process that ignores the signal (nohup) keeps ignoring it.  For the main thread.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with ExitStack() as stack:
        for number in (signal.SIGTERM, HANGUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                stack.callback(signal.signal, number, signal.signal(number, interrupt))
        yield
