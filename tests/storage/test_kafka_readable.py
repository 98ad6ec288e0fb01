"""The table of what Kafka's raft can read; `interop/test_kafka_poison.py` asks Kafka the same."""

from __future__ import annotations

import pytest

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batches.batch import Compression, NewRecord, peek_header
from kraft_trio.storage.batches.kafka_readable import MAX_DECOMPRESSED_BYTES, why_kafka_cannot_read
from tests.support.unreadable import CASES, Case, of


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_reason(case: Case) -> None:
    # Not at the start of the buffer, and not at its end.
    buffer = b"before" + case.batch + b"after"
    reason = why_kafka_cannot_read(buffer, 6, peek_header(buffer, 6))
    if case.reason is None:
        assert reason is None
    else:
        assert reason is not None
        assert case.reason in reason


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD])
def test_a_bomb_is_not_decompressed(codec: Compression) -> None:
    batch = of(*[NewRecord(bytes(1024 * 1024))] * (MAX_DECOMPRESSED_BYTES // 2**20 + 1), compression=codec)
    try:
        reason = why_kafka_cannot_read(batch, 0, peek_header(batch))
    except ProtocolError as error:
        reason = str(error)
    assert reason is not None
    assert str(MAX_DECOMPRESSED_BYTES) in reason


def test_records_with_a_header_are_refused_though_an_empty_one_is_read() -> None:
    """Kafka looks at the last byte only, which is 0 then."""
    batch = of(NewRecord(b"x", headers=(("h", b""),)))
    assert why_kafka_cannot_read(batch, 0, peek_header(batch)) == "record 0: it has 1 headers"
