"""The bytes that records are read from: a run's own, or what its compressed batches decompress to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import attrs
import numpy as np

from kraft_trio.errors import ProtocolError
from kraft_trio.spark.decoding.headers import field
from kraft_trio.spark.decoding.scan import Run
from kraft_trio.storage.batch import DEFAULT_MAX_DECOMPRESSED_BYTES
from kraft_trio.storage.batch_header import COMPRESSION_ATTRIBUTES, HEADER_BYTES
from kraft_trio.storage.compression import decompress

MOST_BYTES = 16 * 1024 * 1024
MOST_RECORDS = 64 * 1024
"""Of one payload, as long as it is of more than one batch."""


@attrs.frozen
class Span:
    """The records of one batch within the data: from `start` to `end` (exclusive), so many of them."""

    start: int
    end: int
    count: int


@attrs.frozen
class Payload:
    """The records of some batches of a run, in their order."""

    data: bytes
    spans: list[Span]
    batches: list[int]
    """The places in the run, one for each span."""

    def part(self, start: int, end: int) -> Payload:
        """That of some of its batches; `end` is exclusive."""
        return Payload(self.data, self.spans[start:end], self.batches[start:end])


def payloads(run: Run) -> Iterator[Payload]:
    """Those of all batches of the run.  A batch that is damaged, or does not decompress, has an empty span."""
    if (run.headers["attributes"] & COMPRESSION_ATTRIBUTES).any():
        yield from _decompressed(run)
        return
    counts = field(run.headers, "record_count")
    starts = (run.positions + HEADER_BYTES).tolist()
    ends = (run.positions + run.sizes).tolist()
    spans = [Span(*numbers) for numbers in zip(starts, ends, counts.tolist(), strict=True)]
    for at in run.damaged:
        spans[at] = Span(0, 0, 0)
    # Where the sum of the counts passes another multiple, another payload begins.
    numbers = (np.cumsum(counts) - counts) // MOST_RECORDS
    borders = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(run)]
    for start, end in itertools.pairwise(borders):
        if start < end:
            yield Payload(run.buffer, spans[start:end], list(range(start, end)))


def _decompressed(run: Run) -> Iterator[Payload]:
    parts: list[bytes] = []
    spans: list[Span] = []
    batches: list[int] = []
    size = records = 0
    for at in range(len(run)):
        data = _records_of(run, at)
        spans.append(Span(size, size + len(data), int(run.headers["record_count"][at]) if data else 0))
        parts.append(data)
        batches.append(at)
        size += len(data)
        records += spans[-1].count
        if size >= MOST_BYTES or records >= MOST_RECORDS:
            yield Payload(b"".join(parts), spans, batches)
            parts, spans, batches = [], [], []
            size = records = 0
    if batches:
        yield Payload(b"".join(parts), spans, batches)


def _records_of(run: Run, at: int) -> bytes:
    """The batch's records, decompressed; nothing where that cannot be."""
    if at in run.damaged:
        return b""
    header = run.header(at)
    position = int(run.positions[at])
    content = run.buffer[position + HEADER_BYTES : position + header.size_in_bytes]
    try:
        return decompress(header.compression, content, DEFAULT_MAX_DECOMPRESSED_BYTES)
    except ProtocolError:
        return b""
