"""Record batches of each codec, control records, and snapshots."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import partial

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey, VersionRange
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.storage.batches.batch import (
    NewRecord,
    check_client_batch,
    decode_control_batch,
    decode_records,
    encode_batch,
    encode_control_batch,
    iter_headers,
    peek_header,
)
from kraft_trio.storage.batches.batch_header import HEADER_BYTES, Compression, patch_crc
from kraft_trio.storage.batches.control_records import (
    KRaftVersion,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    VotersRecord,
    decode_control_record,
    encode_control_record,
)
from kraft_trio.storage.batches.record_check import check_steps
from kraft_trio.storage.batches.record_chunks import record_chunks
from kraft_trio.storage.batches.record_limits import produce_limits
from kraft_trio.storage.snapshots.checkpoint import encode_bootstrap_checkpoint, read_checkpoint
from scripts.fuzzing.decoder import Decoder

MAX_DECOMPRESSED = 1024 * 1024
RECORDS = [
    NewRecord(b"value"),
    NewRecord(None, key=b"key"),
    NewRecord(b"x" * 200, b"k" * 70, (("name", b"content"), ("", None)), timestamp_ms=5),
    NewRecord(b"", timestamp_ms=10_000),
]


def batches(codec: Compression) -> list[bytes]:
    return [
        encode_batch(RECORDS, timestamp_ms=0, compression=codec),
        encode_batch(RECORDS * 30, timestamp_ms=0, compression=codec, producer_id=7, producer_epoch=0, base_sequence=0),
        encode_batch([NewRecord(bytes(3000))], timestamp_ms=0, compression=codec),
    ]


def read_batch(data: bytes) -> None:
    """As a leader reads a produced batch, as a consumer does, and as a state machine does."""
    header = peek_header(data)
    check_client_batch(data, 0, header)
    refusals: list[ProtocolError] = []
    for read in (
        lambda: [*check_steps(data, 0, header, produce_limits(len(data), MAX_DECOMPRESSED, MAX_DECOMPRESSED))],
        lambda: decode_records(data, 0, header, MAX_DECOMPRESSED),
        lambda: [*record_chunks(data, 0, header, MAX_DECOMPRESSED)],
    ):
        try:
            read()
        except ProtocolError as refusal:
            refusals.append(refusal)
    if refusals:
        raise refusals[0]


def repair_batch(data: bytearray) -> None:
    """Make length and CRC right."""
    if len(data) >= HEADER_BYTES:
        data[8:12] = (len(data) - 12).to_bytes(4, "big")
        patch_crc(data)


ENDPOINTS = Endpoints([("CONTROLLER", Endpoint("host", 9093))])
VOTERS = VoterSet(
    [Voter(ReplicaKey(number, uuid.UUID(int=number)), ENDPOINTS, VersionRange(0, 1)) for number in (1, 2, 3)]
)
CONTROL = (
    LeaderChange(1, (1, 2, 3), (1, 2)),
    SnapshotHeader(5),
    SnapshotFooter(),
    KRaftVersion(1),
    VotersRecord(VOTERS),
)


def control_pairs() -> list[bytes]:
    """Key and value of each control record; a key has four bytes."""
    return [b"".join(encode_control_record(record)) for record in CONTROL]


def control_batches() -> list[bytes]:
    return [encode_control_batch([record], timestamp_ms=0) for record in CONTROL]


def read_control_batch(data: bytes) -> None:
    header = peek_header(data)
    for _ in decode_control_batch(data, 0, header):
        pass


def checkpoints() -> list[bytes]:
    snapshot = encode_bootstrap_checkpoint(VOTERS, 1, 0)
    middle = encode_batch(RECORDS, timestamp_ms=0, base_offset=3)
    parts = [snapshot[position:end] for position, end in _places(snapshot)]
    last = bytearray(parts[-1])
    last[:8] = (3 + len(RECORDS)).to_bytes(8, "big")
    return [snapshot, b"".join(parts[:-1]) + middle + bytes(last)]


def _places(data: bytes | bytearray) -> list[tuple[int, int]]:
    return [(position, position + header.size_in_bytes) for position, header in iter_headers(data)]


def repair_checkpoint(data: bytearray) -> None:
    """Make the CRC of each batch right that still ends where it says."""
    position = 0
    while position + HEADER_BYTES <= len(data):
        end = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if not position + HEADER_BYTES <= end <= len(data):
            return
        batch = data[position:end]
        patch_crc(batch)
        data[position:end] = batch
        position = end


def _of(codec: Compression) -> Decoder:
    seeds: Callable[[], Sequence[bytes]] = partial(batches, codec)
    name = f"batch-{codec.name.lower()}"
    return Decoder(name, seeds, read_batch, (ProtocolError,), memory_per_byte=2000, repair=repair_batch)


DECODERS = (
    *map(_of, Compression),
    Decoder("batch-headers", lambda: batches(Compression.NONE), lambda data: [*iter_headers(data)], (ProtocolError,)),
    Decoder("control-records", control_pairs, lambda data: decode_control_record(data[:4], data[4:]), (ProtocolError,)),
    Decoder("control-batch", control_batches, read_control_batch, (ProtocolError,), repair=repair_batch),
    Decoder("checkpoint", checkpoints, lambda data: [*read_checkpoint(data, MAX_DECOMPRESSED)], (ProtocolError,),
            memory_per_byte=2000, repair=repair_checkpoint),
)  # fmt: skip
