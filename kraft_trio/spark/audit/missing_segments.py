"""Which segments a log lacks that another replica has whole.

Logs of one quorum have the same records at the same offsets, and their segments mostly begin at the same offsets.  So a
segment that is missing, or ends early, is repaired by that of another replica, as a whole file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs


@attrs.frozen
class Segment:
    """The contents of one segment."""

    end: int
    """End of its offsets, exclusive."""
    epoch: int
    """The latest one."""
    is_complete: bool
    """Whether its offsets have no gaps, from its name on."""
    is_intact: bool
    """Whether nothing in it is damaged."""
    unreadable: int
    """The number of places that are no batch."""
    content: int
    """Equal for equal batches."""

    @property
    def is_whole(self) -> bool:
        return self.is_complete and self.is_intact


@attrs.frozen
class Holding:
    """What one directory has of a log."""

    segments: Mapping[int, Segment | None]
    """By first offset, ascending; None for a file without a single batch."""
    snapshot_end: int = 0
    """End of the newest whole snapshot, exclusive; 0 without one."""
    stored_epoch: int = 0
    """The epoch in quorum-state."""

    @property
    def needed_from(self) -> int:
        """The first offset that the log must have."""
        return min(next(iter(self.segments), self.snapshot_end), self.snapshot_end)


def missing_segments(broken: Holding, whole: Holding, *, with_tail: bool) -> list[int]:
    """The first offsets of the segments of `whole` that make `broken` whole if they take their places, ascending.

    `with_tail` includes those behind the end of `broken`, or at it.  Empty if nothing is missing, if the segments of
    the two do not begin at the same offsets, if they differ, if `broken` has newer records, or if it has not stored the
    epoch of a segment.
    """
    bases = [base for base, segment in whole.segments.items() if segment is not None]
    last = max((base for base, segment in broken.segments.items() if segment is not None), default=-1)
    whole_end = max((segment.end for segment in whole.segments.values() if segment is not None), default=0)
    first = min(bases, default=0)
    if any(base not in whole.segments for base in broken.segments if first <= base < whole_end):
        return []
    found = []
    for base in bases:
        source, own = whole.segments[base], broken.segments.get(base)
        assert source is not None
        if source.end <= broken.needed_from:
            continue
        if own is not None and own.is_whole and source.is_whole and own.end == source.end:
            if own.content != source.content:
                return []
        elif with_tail or base < last or (base == last and own is not None and _has_gap(own)):
            if own is not None and not _is_to_replace(own, source, is_last=base == last):
                continue
            if not source.is_whole or source.epoch > broken.stored_epoch:
                return []
            if own is not None and (own.end > source.end or own.epoch > source.epoch):
                return []
            found.append(base)
    return found if _is_continuous(found, broken, whole) else []


def _has_gap(own: Segment) -> bool:
    return not own.is_complete and not own.unreadable


def _is_to_replace(own: Segment, source: Segment, *, is_last: bool) -> bool:
    """Other repairs are for damage in the middle of a log."""
    return is_last if own.unreadable else own.end < source.end or _has_gap(own)


def _is_continuous(found: Iterable[int], broken: Holding, whole: Holding) -> bool:
    """Whether each segment that is taken leads to the next one or ends the log, and a snapshot reaches the first."""
    taken = {base: whole.segments[base] for base in found}
    made = dict(sorted({**broken.segments, **taken}.items()))
    if made and min(made) in taken and min(made) > broken.snapshot_end:
        return False
    following = [*made, None][1:]
    for (base, segment), after in zip(made.items(), following, strict=True):
        if base in taken and after is not None and (segment is None or segment.end != after):
            return False
        if after in taken and base not in taken and (segment is None or segment.end != after):
            return False
    return True
