"""Limits on the records of one batch, so that checking and reading them takes bounded memory.

A produced batch is limited as a whole, so that every replica can replay it.  A batch that is already in the log may be
larger: Apache Kafka, which may have written it, has no such limits.  It is read piece by piece, and only the size of a
single record is limited.
"""

from __future__ import annotations

from typing import Final

import attrs

MAX_RECORDS: Final = 131_072
"""Records in a produced batch.  By default, librdkafka sends up to 10,000, and the Java client what fits into 16 KiB.
1 MiB holds at most this many records with a key or value of one byte."""
MAX_HEADERS: Final = 1_000
"""Headers of a produced record; tracing and content types take a handful."""
MAX_BATCH_HEADERS: Final = 262_144
"""Headers of all records in a produced batch."""
MAX_READ_HEADERS: Final = 16_384
"""Headers of a record that is read: some megabytes of Python objects."""
MAX_CONTROL_BYTES: Final = 1024 * 1024
"""Compressed control records may grow to this.  Neither kraft-trio nor Apache Kafka compresses them."""
MAX_CONTROL_ITEMS: Final = 16_384
"""Voters, endpoints and tagged fields of one control record.  A quorum has a handful of voters."""
SMALL_CONTENT_BYTES: Final = 4 * 1024 * 1024
"""Compressed records may always grow to this: stock clients fill a batch with a megabyte at most."""
MAX_EXPANSION: Final = 1_024
"""Above that size, decompressed records may take this many times their compressed size.

gzip expands by 1,032 at most, lz4 by 255 and snappy by 21.  zstd exceeds this limit only for megabytes of a single
repeated byte.
"""

BATCH_OVERHEAD_BYTES: Final = 61
"""The header of a batch."""
RECORD_OVERHEAD_BYTES: Final = 21
"""The most that a record without a key and headers takes in addition to its value."""


@attrs.frozen
class RecordLimits:
    """Limits for one batch.  A check raises a ProtocolError that names the exceeded limit."""

    max_bytes: int | None
    """Decompressed size of all records; None for no limit."""
    max_record_bytes: int
    """Decompressed size of one record."""
    max_records: int | None = None
    max_headers: int = MAX_READ_HEADERS
    """Headers of one record."""
    max_batch_headers: int | None = None
    as_kafka_reads: bool = False
    """Whether compressed content that Kafka's Java clients cannot read is refused, although this library can read it.
    One such batch would stop every Java consumer."""
    honest_time: bool = False
    """Whether a maximum timestamp that no record has is refused.  A search by time would end at such a batch."""


def produce_limits(batch_bytes: int, max_record_bytes: int, max_decompressed_bytes: int) -> RecordLimits:
    """The limits for a batch of `batch_bytes` (compressed, if it is) from a client."""
    expanded = max(SMALL_CONTENT_BYTES, MAX_EXPANSION * batch_bytes)
    max_bytes = min(max_decompressed_bytes, expanded)
    return RecordLimits(
        max_bytes, max_record_bytes, MAX_RECORDS, MAX_HEADERS, MAX_BATCH_HEADERS, as_kafka_reads=True, honest_time=True
    )
