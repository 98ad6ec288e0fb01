"""What a snapshot that is being written and one that is being fetched have in common: how they end without one."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from kraft_trio.errors import StorageFailure
from kraft_trio.storage.failures import storage_failure
from kraft_trio.storage.part_file import PartFile


class UnfinishedSnapshot:
    """A snapshot's `.part`; left without having been finished, as `async with` or by `abandon`, there is none."""

    _part: PartFile

    def __init__(self, path: str) -> None:
        self.path = path
        self._ended = False

    async def abandon(self) -> None:
        """Give it up, leaving no snapshot.  Does nothing after `finish`, or twice."""
        if not self._ended:
            self._ended = True
            await self._part.abandon()

    async def __aenter__(self) -> Self:
        await self._part.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.abandon()
        await self._part.__aexit__(kind, error, traceback)

    def _failure(self, error: OSError) -> StorageFailure:
        return storage_failure(f"{self.path}: the snapshot cannot be written", error)
