"""Finds where each record begins: after the previous one of its batch, by that one's length.

Records of one batch must be found in sequence.  Many small batches are processed side by side.
"""

from __future__ import annotations

import numpy as np

from kraft_trio.spark.decoding.headers import Ints
from kraft_trio.spark.decoding.payloads import Spans
from kraft_trio.spark.decoding.varints import Bytes, read_varints

LEAST_RECORD_BYTES = 7
_STEP_NS = 15_000
"""Cost of one step over all batches, whatever their number."""
_RECORD_NS = 65
"""Extra cost of a record when batches are processed one by one."""
_BATCH_NS = 300
"""Cost of a batch when batches are processed one by one."""


def record_starts(data: bytes, view: Bytes, spans: Spans) -> tuple[Ints, Ints]:
    """The positions of the records, and how many each span holds.

    A span that ends early holds fewer records than it claims, and none if it is too short for them.  `view` is a view
    of `data`.
    """
    # Check this before allocating memory in proportion to the count.
    counts = np.where(spans.counts * LEAST_RECORD_BYTES <= spans.ends - spans.starts, spans.counts, 0)
    if not len(counts):
        return counts, counts
    if counts.max() * _STEP_NS < counts.sum() * _RECORD_NS + len(counts) * _BATCH_NS:
        return _side_by_side(view, spans, counts)
    return _one_after_the_other(data, spans, counts)


def _side_by_side(view: Bytes, spans: Spans, counts: Ints) -> tuple[Ints, Ints]:
    first = np.cumsum(counts) - counts
    starts = np.empty(counts.sum(), np.int64)
    found = np.zeros(len(counts), np.int64)
    batches = np.flatnonzero(counts)
    at = spans.starts[batches]
    step = 0
    while len(batches):
        starts[first[batches] + step] = at
        found[batches] += 1
        step += 1
        lengths, after, _ = read_varints(view, at)
        at = after + lengths
        # The reader of the fields reports a negative length; this loop must only not move backwards.
        kept = (counts[batches] > step) & (at < spans.ends[batches]) & (lengths >= 0)
        batches, at = batches[kept], at[kept]
    if (found == counts).all():
        return starts, found
    is_found = np.arange(len(starts)) - np.repeat(first, counts) < np.repeat(found, counts)
    return starts[is_found], found


def _one_after_the_other(data: bytes, spans: Spans, counts: Ints) -> tuple[Ints, Ints]:
    starts: list[int] = []
    found = []
    append = starts.append
    for start, end, count in zip(spans.starts.tolist(), spans.ends.tolist(), counts.tolist(), strict=True):
        at = start
        before = len(starts)
        for _ in range(count):
            append(at)
            byte = data[at]
            if byte < 0x80:
                at += (byte >> 1) + 1
            else:
                length, shift, size = byte & 0x7F, 7, 1
                while byte >= 0x80 and at + size < end:
                    byte = data[at + size]
                    length |= (byte & 0x7F) << shift
                    shift += 7
                    size += 1
                at += (length >> 1) + size
            if at >= end:
                break
        found.append(len(starts) - before)
    return np.array(starts, np.int64), np.array(found, np.int64)
