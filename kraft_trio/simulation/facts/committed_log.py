"""What is committed: the entries below the highest high watermark that any leader has reached."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import attrs

from kraft_trio.simulation.facts.entry import Entry


@attrs.define
class LeaderCommits:
    """How far the leader of one epoch advanced the high watermark.  Offsets are exclusive."""

    first: int
    """The high watermark when it became known in that epoch."""
    last: int


class CommittedLog:
    """Grows with the leaders' high watermarks, and remembers which leader committed how much."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        """Each as in the log of the leader that committed it first."""
        self._covered: list[Entry] = []
        """The same entries after a snapshot has replaced them."""
        self.voter_sets: list[Entry] = []
        """The entries with a VotersRecord."""
        self._epochs: list[int] = []
        self._commits: dict[int, LeaderCommits] = {}

    @property
    def end(self) -> int:
        """Exclusive."""
        return self.entries[-1].next_offset if self.entries else 0

    def advance(self, entries: Iterable[Entry], epoch: int, high_watermark: int) -> None:
        """The leader of that epoch has advanced its high watermark; `entries` are those of its log from `end` on."""
        commits = self._commits.get(epoch)
        if commits is None:
            self._commits[epoch] = LeaderCommits(high_watermark, high_watermark)
            self._epochs.insert(bisect_left(self._epochs, epoch), epoch)
        else:
            commits.last = max(commits.last, high_watermark)
        for entry in entries:
            if entry.next_offset > high_watermark:
                break
            self.entries.append(entry)
            self._covered.append(entry.covered())
            if entry.voters is not None:
                self.voter_sets.append(entry)

    def covered_below(self, end_offset: int) -> list[Entry]:
        """The committed entries that end at that offset or before, as entries that a snapshot has replaced."""
        return self._covered[: bisect_right(self.entries, end_offset, key=_next_offset_of)]

    def entry_ending_at(self, next_offset: int) -> Entry | None:
        """The committed entry whose offsets end there (exclusive)."""
        index = bisect_left(self.entries, next_offset, key=_next_offset_of)
        found = self.entries[index] if index < len(self.entries) else None
        return found if found is not None and found.next_offset == next_offset else None

    def last_entry_below(self, end_offset: int) -> Entry | None:
        """The last committed entry that ends at that offset or before."""
        index = bisect_right(self.entries, end_offset, key=_next_offset_of)
        return self.entries[index - 1] if index else None

    def includes(self, entry: Entry) -> bool:
        """Whether this entry, with everything before it, is committed."""
        committed = self.entry_ending_at(entry.next_offset)
        return committed is not None and committed.chain == entry.chain

    def of_epoch(self, epoch: int) -> LeaderCommits | None:
        """What the leader of that epoch has committed; None if nothing yet."""
        return self._commits.get(epoch)

    def end_before_epoch(self, epoch: int) -> int:
        """The highest high watermark of all leaders of lower epochs; 0 if there was none."""
        return max((self._commits[lower].last for lower in self.epochs_below(epoch)), default=0)

    def epochs_below(self, epoch: int) -> Sequence[int]:
        """The lower epochs in which something was committed, ascending."""
        return self._epochs[: bisect_left(self._epochs, epoch)]

    def epochs_above(self, epoch: int) -> Sequence[int]:
        """The higher epochs in which something was committed, ascending."""
        return self._epochs[bisect_right(self._epochs, epoch) :]


def _next_offset_of(entry: Entry) -> int:
    return entry.next_offset
