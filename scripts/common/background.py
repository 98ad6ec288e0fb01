"""What runs beside a script in threads of its own: clients that write or look as long as something lasts."""

from __future__ import annotations

import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Self


class Background(ABC):
    """Runs in a thread from `start` until `stop`, or as long as a block lasts."""

    join_s = 60.0
    """How long `stop` waits for the thread."""

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)
        self.stopping = threading.Event()
        """Tells the thread that it is to end."""
        self.error: BaseException | None = None
        """What has ended it before."""

    @abstractmethod
    def run(self) -> None:
        """What the thread does, until `stopping` is set."""

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as error:
            traceback.print_exc()
            self.error = error

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> bool:
        """Returns whether the thread has ended."""
        self.stopping.set()
        self._thread.join(self.join_s)
        return not self.is_alive

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def at_once(functions: Sequence[Callable[[], object]]) -> None:
    """Run each in a thread of its own, and wait for all.  A thread that fails prints its traceback."""
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
