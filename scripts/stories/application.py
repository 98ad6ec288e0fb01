"""An application that writes while a story continues, and afterwards reads its records back."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import trio

from kraft_trio.client.log_client import LogClient
from kraft_trio.protocol.types import Endpoint
from scripts.common.background import Background
from scripts.stories.node import StoryError
from scripts.stories.service import Append, Service, service_during

PAUSE_S = 0.02
ACKNOWLEDGED_WITHIN_MS = 60_000
READ_WITHIN_S = 120


class Application(Background):
    """Writes records one at a time in its own thread; each follows the acknowledgement of the one before."""

    join_s = ACKNOWLEDGED_WITHIN_MS / 1000 + 5

    def __init__(self, bootstrap: Sequence[Endpoint]) -> None:
        super().__init__("application")
        self._bootstrap = tuple(bootstrap)
        self.values: list[bytes] = []
        """The acknowledged records, in order."""
        self.first_offset = 0
        self.last_offset = -1
        self._appends: list[Append] = []
        self._measured: dict[str, tuple[float, float]] = {}

    @property
    def services(self) -> dict[str, Service]:
        """The service during each part that was measured, by its name, once the application has stopped."""
        return {name: service_during(self._appends, *times) for name, times in self._measured.items()}

    @property
    def longest_wait_s(self) -> float:
        return max((append.latency_s for append in self._appends), default=0.0)

    def until_written(self, count: int) -> None:
        """Wait until this many records are acknowledged.  If the writer fails, return; `check` reports it."""
        while len(self.values) < count and self.is_alive:
            time.sleep(PAUSE_S)

    @contextmanager
    def measured(self, name: str) -> Iterator[None]:
        """Measure the service during the block."""
        began_s = time.monotonic()
        yield
        self._measured[name] = (began_s, time.monotonic())

    def check(self) -> None:
        """After it has stopped, read the log from its first record.

        Raises StoryError if a record was not acknowledged, or the log has not each record once and in order.
        """
        if self.error is not None:
            raise StoryError(f"the application failed at record {len(self.values)}: {self.error!r}") from self.error
        found = trio.run(self._read)
        if found != self.values:
            missing, others = set(self.values) - set(found), [value for value in found if value not in self.values]
            raise StoryError(f"written {len(self.values)}, read {len(found)}: missing {missing}, not written {others}")

    def run(self) -> None:
        trio.run(self._write)

    async def _write(self) -> None:
        async with LogClient(self._bootstrap) as client:
            while not self.stopping.is_set():
                value = f"record {len(self.values)}".encode()
                began = time.monotonic()
                [self.last_offset] = await client.produce([value], ACKNOWLEDGED_WITHIN_MS)
                if not self.values:
                    self.first_offset = self.last_offset
                self._appends.append(Append(began, time.monotonic()))
                self.values.append(value)
                await trio.sleep(PAUSE_S)

    async def _read(self) -> list[bytes]:
        with trio.fail_after(READ_WITHIN_S):
            async with LogClient(self._bootstrap) as client:
                return [
                    record.value or b"" async for record in client.read(self.first_offset, until=self.last_offset + 1)
                ]
