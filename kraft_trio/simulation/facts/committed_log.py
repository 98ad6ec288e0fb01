"""What is committed: the entries below the highest high watermark that a leader has reached, whoever it was."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from kraft_trio.simulation.facts.replica import Entry, Replica


@attrs.define
class LeaderCommits:
    """How far the high watermark went in one epoch, by the word of its leader.  Offsets are exclusive."""

    first: int
    """What it was when it became known in that epoch."""
    last: int


class CommittedLog:
    """Grows with the leaders' high watermarks; knows who committed what, so that all others can be held to it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        """Each as in the log of the leader that committed it first."""
        self._covered: list[Entry] = []
        """The same where a snapshot stands for them."""
        self.voter_sets: list[Entry] = []
        """Those of them that have a VotersRecord."""
        self._epochs: list[int] = []
        self._commits: dict[int, LeaderCommits] = {}

    @property
    def end(self) -> int:
        """Exclusive."""
        return self.entries[-1].next_offset if self.entries else 0

    def advance(self, leader: Replica, epoch: int, high_watermark: int) -> None:
        """The leader of that epoch takes everything below that offset for committed."""
        commits = self._commits.get(epoch)
        if commits is None:
            self._commits[epoch] = LeaderCommits(high_watermark, high_watermark)
            self._epochs.insert(bisect_left(self._epochs, epoch), epoch)
        else:
            commits.last = max(commits.last, high_watermark)
        for entry in leader.entries_from(self.end):
            if entry.next_offset > high_watermark:
                break
            self.entries.append(entry)
            self._covered.append(entry.covered())
            if entry.voters is not None:
                self.voter_sets.append(entry)

    def covered_below(self, end_offset: int) -> list[Entry]:
        """The committed entries that lie wholly below that offset, as a snapshot stands for them."""
        return self._covered[: bisect_right(self.entries, end_offset, key=_next_offset_of)]

    def entry_ending_at(self, next_offset: int) -> Entry | None:
        index = bisect_left(self.entries, next_offset, key=_next_offset_of)
        found = self.entries[index] if index < len(self.entries) else None
        return found if found is not None and found.next_offset == next_offset else None

    def last_entry_below(self, end_offset: int) -> Entry | None:
        """The last committed entry that lies wholly below that offset."""
        index = bisect_right(self.entries, end_offset, key=_next_offset_of)
        return self.entries[index - 1] if index else None

    def includes(self, entry: Entry) -> bool:
        """Whether this very entry, with all before it, is committed."""
        committed = self.entry_ending_at(entry.next_offset)
        return committed is not None and committed.chain == entry.chain

    def of_epoch(self, epoch: int) -> LeaderCommits | None:
        """None where the leader of that epoch has committed nothing yet."""
        return self._commits.get(epoch)

    def end_before_epoch(self, epoch: int) -> int:
        """The highest high watermark of all leaders of lower epochs; 0 for none."""
        return max((self._commits[lower].last for lower in self.epochs_below(epoch)), default=0)

    def epochs_below(self, epoch: int) -> Sequence[int]:
        """The lower epochs in which something was committed, ascending."""
        return self._epochs[: bisect_left(self._epochs, epoch)]

    def epochs_above(self, epoch: int) -> Sequence[int]:
        """The higher ones, ascending."""
        return self._epochs[bisect_right(self._epochs, epoch) :]


def _next_offset_of(entry: Entry) -> int:
    return entry.next_offset
