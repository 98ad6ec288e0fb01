"""Record batches that must not get into the log: an error, on the wire and in the clients, and nothing is appended."""

from __future__ import annotations

import struct

import confluent_kafka
import kafka
import pytest
from kafka.errors import MessageSizeTooLargeError
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from harness.quorum import NO_TOPIC_ID, TOPIC, Quorum, produce_batch
from harness.raw_connection import RawConnection
from harness.waiting import WAIT_SECONDS
from kraft_trio.storage.batches.batch import Compression, NewRecord, encode_batch
from kraft_trio.storage.batches.batch_header import patch_crc
from kraft_trio.wire.api import PRODUCE
from kraft_trio.wire.apis.produce import ProducePartition, ProduceRequest
from kraft_trio.wire.error_codes import ErrorCode
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.unharmed import unharmed

MAX_MESSAGE_BYTES = 20_000


@pytest.fixture(scope="module")
def quorum(make_module_quorum: MakeQuorum) -> Quorum:
    quorum = make_module_quorum(
        is_steady=True, message_max_bytes=str(MAX_MESSAGE_BYTES), kraft_decompressed_max_bytes="1000000"
    )
    quorum.start()
    return quorum


def sound_batch(**options: object) -> bytes:
    return encode_batch([NewRecord(b"one"), NewRecord(b"two")], timestamp_ms=0, **options)  # type: ignore[arg-type]


def patched(position: int, replacement: bytes, *, with_right_crc: bool) -> bytes:
    batch = bytearray(sound_batch())
    batch[position : position + len(replacement)] = replacement
    if with_right_crc:
        patch_crc(batch)
    return bytes(batch)


def of_old_magic(magic: int) -> bytes:
    """A message set as clients sent it before batches were of version 2."""
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1000)
    builder.append(0, timestamp=1, key=None, value=b"old")
    return bytes(builder.build())


BATCHES = {
    "bad CRC": (patched(20, b"\xff", with_right_crc=False), ErrorCode.corrupt_message),
    "a record's bit flipped": (patched(70, b"\xff", with_right_crc=False), ErrorCode.corrupt_message),
    "magic 0": (of_old_magic(0), ErrorCode.unsupported_for_message_format),
    "magic 1": (of_old_magic(1), ErrorCode.unsupported_for_message_format),
    "magic 3": (patched(16, b"\x03", with_right_crc=True), ErrorCode.corrupt_message),
    "over the limit": (
        encode_batch([NewRecord(b"x" * MAX_MESSAGE_BYTES)], timestamp_ms=0),
        ErrorCode.message_too_large,
    ),
    "no records": (b"", ErrorCode.invalid_record),
    "cut": (sound_batch()[:-1], ErrorCode.invalid_record),
    "header cut": (sound_batch()[:40], ErrorCode.corrupt_message),
    "two batches": (sound_batch() * 2, ErrorCode.invalid_record),
    "a control batch": (sound_batch(control=True), ErrorCode.corrupt_message),
    "a transaction's": (sound_batch(transactional=True), ErrorCode.invalid_record),
    "more records than it says": (patched(57, struct.pack(">i", 1), with_right_crc=True), ErrorCode.corrupt_message),
    "fewer records than offsets": (patched(23, struct.pack(">i", 9), with_right_crc=True), ErrorCode.corrupt_message),
    "a codec that does not exist": (patched(22, b"\x07", with_right_crc=True), ErrorCode.corrupt_message),
    "not what its codec says": (patched(22, b"\x01", with_right_crc=True), ErrorCode.invalid_record),
    "a large record, compressed": (
        encode_batch([NewRecord(bytes(2_000_000))], timestamp_ms=0, compression=Compression.ZSTD),
        ErrorCode.message_too_large,
    ),
    "a bomb": (
        encode_batch([NewRecord(bytes(10_000))] * 200, timestamp_ms=0, compression=Compression.ZSTD),
        ErrorCode.invalid_record,
    ),
}


@pytest.mark.parametrize("name", BATCHES)
def test_the_batch_is_refused(quorum: Quorum, name: str) -> None:
    batch, expected = BATCHES[name]
    with unharmed(quorum) as leader:
        answer = produce_batch(leader, batch)
    assert (answer.error, answer.base_offset) == (expected, -1)


@pytest.mark.parametrize(
    ("name", "partition", "version", "expected"),
    [
        ("other", 0, 12, ErrorCode.unknown_topic_or_partition),
        (TOPIC, 1, 12, ErrorCode.unknown_topic_or_partition),
        (TOPIC, 0, 13, ErrorCode.unknown_topic_id),
    ],
)
def test_a_topic_that_we_do_not_have(
    quorum: Quorum, name: str, partition: int, version: int, expected: ErrorCode
) -> None:
    request = ProduceRequest(-1, 1000, (ProducePartition(name, NO_TOPIC_ID, partition, sound_batch()),))
    with unharmed(quorum) as leader, RawConnection(leader.endpoint) as connection:
        answer = connection.request(PRODUCE, request, version)
    assert [partition.error for partition in answer.partitions] == [expected]


@pytest.mark.parametrize("acks", [2, -2])
def test_acks_that_do_not_exist(quorum: Quorum, acks: int) -> None:
    request = ProduceRequest(acks, 1000, (ProducePartition(TOPIC, NO_TOPIC_ID, 0, sound_batch()),))
    with unharmed(quorum) as leader, RawConnection(leader.endpoint) as connection:
        answer = connection.request(PRODUCE, request, 12)
    assert [partition.error for partition in answer.partitions] == [ErrorCode.invalid_required_acks]


def test_a_follower_takes_no_records(quorum: Quorum) -> None:
    with unharmed(quorum) as leader:
        follower = next(node for node in quorum.nodes.values() if node is not leader)
        answer = produce_batch(follower, sound_batch())
    assert (answer.error, answer.leader_id) == (ErrorCode.not_leader_or_follower, leader.id)


@pytest.mark.parametrize(
    ("base_sequence", "producer_epoch", "expected"),
    [
        (5, 0, ErrorCode.out_of_order_sequence_number),
        (0, -1, ErrorCode.invalid_producer_epoch),
    ],
)
def test_a_producer_that_skips_or_goes_back(
    quorum: Quorum, base_sequence: int, producer_epoch: int, expected: ErrorCode
) -> None:
    """Sequence 2 of epoch 1 would be next."""
    producer_id = 10**6 + base_sequence
    first = sound_batch(producer_id=producer_id, producer_epoch=1, base_sequence=0)
    assert produce_batch(quorum.leader(), first).error is ErrorCode.none
    wrong = sound_batch(producer_id=producer_id, producer_epoch=1 + producer_epoch, base_sequence=base_sequence)
    with unharmed(quorum) as leader:
        answer = produce_batch(leader, wrong)
    assert answer.error is expected


def test_a_repeated_batch_is_there_once(quorum: Quorum) -> None:
    leader = quorum.leader()
    batch = sound_batch(producer_id=2 * 10**6, producer_epoch=0, base_sequence=0)
    first = produce_batch(leader, batch)
    with unharmed(quorum):
        again = produce_batch(leader, batch)
    assert first.error is ErrorCode.none
    assert (again.error, again.base_offset) == (ErrorCode.none, first.base_offset)


def test_kafka_python_is_told_that_a_record_is_too_large(quorum: Quorum) -> None:
    with unharmed(quorum):
        producer = kafka.KafkaProducer(bootstrap_servers=quorum.bootstrap_servers.split(","), acks="all")
        with pytest.raises(MessageSizeTooLargeError):
            producer.send(TOPIC, b"x" * MAX_MESSAGE_BYTES, partition=0).get(timeout=WAIT_SECONDS)
        producer.close(timeout=5)


def test_librdkafka_is_told_that_a_record_is_too_large(quorum: Quorum) -> None:
    told: list[confluent_kafka.KafkaError | None] = []
    with unharmed(quorum):
        producer = confluent_kafka.Producer({"bootstrap.servers": quorum.bootstrap_servers, "acks": "all"})
        producer.produce(TOPIC, b"x" * MAX_MESSAGE_BYTES, partition=0, on_delivery=lambda error, _: told.append(error))
        assert producer.flush(WAIT_SECONDS) == 0
    assert [error and error.code() for error in told] == [confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE]
