"""How much the records of one batch may ask of whoever checks or reads them.

What a client may produce is bounded as a whole, so that every replica can replay it; what is in a log already, perhaps
since before there were bounds or from Apache Kafka, which has none, is read piece by piece, and only one record is
bounded.
"""

from __future__ import annotations

from typing import Final

import attrs

MAX_RECORDS: Final = 131_072
"""Of a produced batch.  Clients send up to 10,000 (librdkafka) or what fits into 16 KiB (Java) unless told otherwise;
1 MiB holds no more than this many records with a key or value of a byte."""
MAX_HEADERS: Final = 1_000
"""Of a produced record; tracing and content types take a handful."""
MAX_BATCH_HEADERS: Final = 262_144
"""Of all records of a produced batch."""
MAX_READ_HEADERS: Final = 16_384
"""Of a record that is read: some megabytes of Python objects."""
SMALL_CONTENT_BYTES: Final = 4 * 1024 * 1024
"""Compressed records may always grow to this: stock clients fill a batch with a megabyte at most."""
MAX_EXPANSION: Final = 1_024
"""Beyond that size they may be so many times their compressed size.  gzip's own limit is 1,032, lz4's 255, snappy's 21;
zstd reaches more than this with nothing but megabytes of one repeated byte."""

BATCH_OVERHEAD_BYTES: Final = 61
"""The header of a batch."""
RECORD_OVERHEAD_BYTES: Final = 21
"""The most that a record without a key and headers takes in addition to its value."""


@attrs.frozen
class RecordLimits:
    """Of one batch.  Checks raise ProtocolError, naming the limit, for what exceeds one."""

    max_bytes: int | None
    """Of all records, decompressed; None: as many as there are."""
    max_record_bytes: int
    max_records: int | None = None
    max_headers: int = MAX_READ_HEADERS
    """Of one record."""
    max_batch_headers: int | None = None


def produce_limits(batch_bytes: int, max_decompressed_bytes: int) -> RecordLimits:
    """Of a batch of that size from a client."""
    expanded = max(SMALL_CONTENT_BYTES, MAX_EXPANSION * batch_bytes)
    max_bytes = min(max_decompressed_bytes, expanded)
    return RecordLimits(max_bytes, max_bytes, MAX_RECORDS, MAX_HEADERS, MAX_BATCH_HEADERS)
