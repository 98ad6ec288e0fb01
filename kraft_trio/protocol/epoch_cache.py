"""Where each leader epoch starts in a log, to check fetch positions against (KIP-595 "Fetch", step 3)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from kraft_trio.protocol.types import OffsetAndEpoch


class EpochCache:
    """The (epoch, start offset) pairs of one log, both strictly increasing.

    The log owns it and changes it in the same step as itself.  A start offset is inclusive: the first offset that was
    or will be written in that epoch.
    """

    __slots__ = ("_epochs", "_start_offsets")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []
        for epoch, start_offset in entries:
            self.append(epoch, start_offset)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._epochs, self._start_offsets, strict=True)

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """The (epoch, start offset) pairs, oldest first."""
        return tuple(self)

    @property
    def latest_epoch(self) -> int:
        """The newest epoch; 0 for an empty log, as on the wire."""
        return self._epochs[-1] if self._epochs else 0

    def append(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` starts at `start_offset`.  Returns whether anything changed.

        Repeating the newest epoch changes nothing.  An epoch that started at the same offset has no record and is
        replaced.  Raises ValueError, changing nothing, for an epoch or an offset below the newest.
        """
        if self._epochs:
            latest_epoch, latest_start = self._epochs[-1], self._start_offsets[-1]
            if epoch == latest_epoch:
                return False
            if epoch < latest_epoch:
                raise ValueError(
                    f"epoch {epoch} at offset {start_offset}: below epoch {latest_epoch}; epochs never fall"
                )
            if start_offset < latest_start:
                raise ValueError(
                    f"epoch {epoch}: start offset {start_offset} is below {latest_start}, that of epoch {latest_epoch}"
                )
            if start_offset == latest_start:
                self._epochs[-1] = epoch
                return True
        elif epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} at offset {start_offset}: both must be 0 or more")
        self._epochs.append(epoch)
        self._start_offsets.append(start_offset)
        return True

    def truncate_from_end(self, offset: int) -> None:
        """Forget the epochs that start at `offset` or later, because the log now ends there."""
        keep = bisect_left(self._start_offsets, offset)
        del self._epochs[keep:]
        del self._start_offsets[keep:]

    def truncate_from_start(self, offset: int) -> None:
        """Forget what is before `offset`, because the log now starts there."""
        covering = bisect_right(self._start_offsets, offset) - 1
        if covering >= 0:
            del self._epochs[:covering]
            del self._start_offsets[:covering]
            self._start_offsets[0] = offset

    def clear(self) -> None:
        """Forget everything, as when a snapshot replaces the log."""
        self._epochs.clear()
        self._start_offsets.clear()

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch in which the record at `offset` was written, or None before the first known epoch.

        At or past the log end it is the newest epoch; the caller knows where its log ends.
        """
        covering = bisect_right(self._start_offsets, offset) - 1
        return self._epochs[covering] if covering >= 0 else None

    def end_offset_for_epoch(self, epoch: int, log_end_offset: int) -> OffsetAndEpoch:
        """The largest known epoch that is not above `epoch`, and its end (exclusive).

        For an epoch older than all known ones, that epoch and the start of the first known one.  For an epoch newer
        than all known ones, the log's newest epoch and end.
        """
        following = bisect_right(self._epochs, epoch)
        if following == len(self._epochs):
            return OffsetAndEpoch(log_end_offset, self.latest_epoch)
        end_offset = self._start_offsets[following]
        return OffsetAndEpoch(end_offset, self._epochs[following - 1] if following else epoch)
