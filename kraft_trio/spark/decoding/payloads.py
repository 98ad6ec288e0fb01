"""The bytes that hold records: a run's own bytes, or its decompressed batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import attrs
import numpy as np

from kraft_trio.errors import ProtocolError
from kraft_trio.spark.decoding.headers import Ints, field
from kraft_trio.spark.decoding.scan import Run
from kraft_trio.storage.batches.batch_header import COMPRESSION_ATTRIBUTES, HEADER_BYTES
from kraft_trio.storage.batches.compression import decompress

MOST_BYTES = 16 * 1024 * 1024
MOST_RECORDS = 64 * 1024
"""Limit for a payload of more than one batch."""
MOST_RECORDS_OF_ONE = 8 * MOST_RECORDS
"""Limit for a compressed batch.  A larger one, or one of more than MOST_BYTES, is read record by record, with bounded
memory.
"""


@attrs.frozen
class Spans:
    """Where each batch's records are in the data."""

    starts: Ints
    ends: Ints
    """Exclusive."""
    counts: Ints
    """The number of records, according to the batch header."""

    def __len__(self) -> int:
        return len(self.starts)

    def part(self, start: int, end: int) -> Spans:
        """Part of the spans; `end` is exclusive."""
        return Spans(self.starts[start:end], self.ends[start:end], self.counts[start:end])


@attrs.frozen
class Payload:
    """The records of some batches of a run, in order."""

    data: bytes
    spans: Spans
    batches: Ints
    """The position in the run of each span's batch."""

    def part(self, start: int, end: int) -> Payload:
        """Part of the payload's batches; `end` is exclusive."""
        return Payload(self.data, self.spans.part(start, end), self.batches[start:end])


def payloads(run: Run) -> Iterator[Payload]:
    """The payloads of all batches of the run.  A damaged, large or undecodable batch has an empty span."""
    if (run.headers["attributes"] & COMPRESSION_ATTRIBUTES).any():
        yield from _decompressed(run)
        return
    counts = field(run.headers, "record_count")
    starts, ends = run.positions + HEADER_BYTES, run.positions + run.sizes
    for numbers in (starts, ends, counts):
        numbers[list(run.damaged)] = 0
    whole = Payload(run.buffer, Spans(starts, ends, counts), np.arange(len(run)))
    # A new payload begins whenever the sum of the counts passes a multiple of the limit.
    multiples = (np.cumsum(counts) - counts) // MOST_RECORDS
    borders = [0, *(np.flatnonzero(np.diff(multiples)) + 1).tolist(), len(run)]
    for start, end in itertools.pairwise(borders):
        if start < end:
            yield whole.part(start, end)


def _decompressed(run: Run) -> Iterator[Payload]:
    counts = field(run.headers, "record_count")
    counts[list(run.damaged)] = 0
    parts: list[bytes] = []
    first = size = records = 0
    for at in range(len(run)):
        data = _records_of(run, at)
        parts.append(data)
        size += len(data)
        records += min(int(counts[at]), len(data))
        if size >= MOST_BYTES or records >= MOST_RECORDS:
            yield _joined(parts, first, counts)
            parts, first, size, records = [], at + 1, 0, 0
    if parts:
        yield _joined(parts, first, counts)


def _joined(parts: list[bytes], first: int, counts: Ints) -> Payload:
    """The payload of the batches from place `first` on, one part of the data each."""
    sizes = np.array([len(part) for part in parts])
    ends = np.cumsum(sizes)
    spans = Spans(ends - sizes, ends, counts[first : first + len(parts)])
    return Payload(b"".join(parts), spans, np.arange(first, first + len(parts)))


def _records_of(run: Run, at: int) -> bytes:
    """The decompressed records of the batch; nothing if that fails or needs too much memory."""
    header = run.header(at)
    if at in run.damaged or header.record_count > MOST_RECORDS_OF_ONE:
        return b""
    position = int(run.positions[at])
    content = run.buffer[position + HEADER_BYTES : position + header.size_in_bytes]
    try:
        return decompress(header.compression, content, MOST_BYTES)
    except ProtocolError:
        return b""
