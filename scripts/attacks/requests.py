"""Requests that attacks have in common."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

from harness.quorum import NO_TOPIC_ID, PRODUCE_BY_NAME, TOPIC
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.wire.api import API_VERSIONS, FETCH, PRODUCE
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from kraft_trio.wire.apis.fetch import FetchPartition, FetchRequest
from kraft_trio.wire.apis.produce import ProducePartition, ProduceRequest
from kraft_trio.wire.descriptor import Api
from scripts.attacks.arena import Arena, frame_of

TOPIC_ID = UUID(int=1)
MOST_BYTES = 2**31 - 1


def header_of(api: Api[Any, Any], version: int, tagged_fields: bytes = b"\0") -> bytes:
    """A request header without client id."""
    header = struct.pack(">hhih", api.key, version, 1, -1)
    return header + tagged_fields if api.request_header_version(version) == 2 else header


def produce_frame(batch: bytes, acks: int = -1) -> bytes:
    return frame_of(
        PRODUCE, ProduceRequest(acks, 4000, (ProducePartition(TOPIC, NO_TOPIC_ID, 0, batch),)), PRODUCE_BY_NAME
    )


def fetch_frame(offset: int, *, max_wait_ms: int = 0, min_bytes: int = 0, max_bytes: int = MOST_BYTES) -> bytes:
    """A consumer's."""
    partition = FetchPartition(TOPIC, TOPIC_ID, 0, offset, max_bytes)
    return frame_of(FETCH, FetchRequest(None, -1, max_wait_ms, min_bytes, max_bytes, partitions=(partition,)))


def parked_fetch_frame(arena: Arena) -> bytes:
    """A consumer's that waits for far more than ever comes."""
    end = arena.quorum.described_by_leader()[1].high_watermark
    return fetch_frame(end, max_wait_ms=30_000, min_bytes=MOST_BYTES)


def versions_frame() -> bytes:
    return frame_of(API_VERSIONS, ApiVersionsRequest())


def small_versions_frame() -> bytes:
    """The smallest request there is."""
    return frame_of(API_VERSIONS, ApiVersionsRequest(), 0)


def fill_log(arena: Arena, mebibytes: int) -> None:
    """Have batches of about 1 MB committed."""
    batch = encode_batch([NewRecord(bytes(1024 * 1000))], timestamp_ms=0)
    with arena.introduced() as connection:
        for _ in range(mebibytes):
            connection.send_bytes(produce_frame(batch))
            assert connection.wait_for_answers() == 1, "a sound batch was not answered"
