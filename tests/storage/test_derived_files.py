"""The small files next to the log: indexes, epochs, producers, snapshots; as Kafka lays them out, and damaged."""

from __future__ import annotations

import pytest

from kraft_trio.errors import ProtocolError, StorageError
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches.batch import NewRecord, encode_batch, encode_control_batch
from kraft_trio.storage.batches.control_records import KRaftVersion, SnapshotFooter, SnapshotHeader, VotersRecord
from kraft_trio.storage.disk import partition_files
from kraft_trio.storage.segments.leader_epoch_checkpoint import decode_leader_epochs, encode_leader_epochs
from kraft_trio.storage.segments.offset_index import OffsetIndex, TimeIndex
from kraft_trio.storage.segments.producer_snapshot import encode_producer_snapshot, load_producer_snapshot
from kraft_trio.storage.snapshots.checkpoint import (
    encode_bootstrap_checkpoint,
    read_checkpoint,
    read_checkpoint_voters,
    write_bootstrap_checkpoint,
)
from tests.storage.support import KAFKAS_VOTERS, kafkas_files


class TestIndexes:
    def test_an_offset_is_looked_up_at_or_before_its_batch(self) -> None:
        index = OffsetIndex(100)
        index.append(104, 5000, 50)
        index.append(109, 9100, 70)
        assert [index.lookup(offset) for offset in (100, 103, 104, 108, 109, 500)] == [0, 0, 5000, 5000, 9100, 9100]
        assert [index.lookup_time(time) for time in (0, 50, 51, 70, 71)] == [0, 0, 5000, 5000, 9100]
        assert index.encode() == bytes.fromhex("00000004000013880000000900 00238c".replace(" ", ""))

    def test_a_truncated_index_forgets_what_is_beyond(self) -> None:
        index = OffsetIndex(0)
        for number in range(1, 5):
            index.append(number * 10, number * 5000, number)
        index.truncate_to_position(15000)
        assert (len(index), index.last_position, index.lookup(1000)) == (2, 10000, 10000)
        index.truncate_to_position(0)
        assert (len(index), index.last_position) == (0, 0)

    def test_the_time_index_has_new_largest_timestamps_alone(self) -> None:
        index = TimeIndex(100)
        for timestamp_ms, offset in ((50, 104), (50, 106), (40, 108), (70, 109)):
            index.append_if_later(timestamp_ms, offset)
        assert index.encode() == bytes.fromhex("000000000000003200000004000000000000004600000009")
        index.truncate_to(109)
        assert index.last_entry == (50, 104)
        index.truncate_to(104)
        assert index.last_entry is None


class TestLeaderEpochs:
    def test_round_trip(self) -> None:
        entries = [(1, 0), (4, 10), (2**31 - 1, 2**62)]
        assert decode_leader_epochs("f", encode_leader_epochs(entries)) == entries
        assert encode_leader_epochs([(1, 0)]) == kafkas_files("dynamic")["leader-epoch-checkpoint"]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "f: line 1: version ''"),
            (bytes(80), "f: line 1: version 80 zero bytes, expected 0"),
            (b"1\n0\n", "f: line 1: version '1', expected 0"),
            (b"0\n", "f: line 2: '', expected 0 entries"),
            (b"0\n2\n1 0\n", "f: line 2: '2', expected 1 entries"),
            (b"0\n1\n1 x\n", "f: line 3: '1 x', expected an epoch and a start offset"),
            (b"0\n1\n1 0 0\n", "f: line 3"),
            ("0\n1\n\u00b2 5\n".encode(), "f: line 3: '\u00b2 5', expected an epoch and a start offset"),
            (b"0\n1\n\xff 5\n", r"f: line 3: '\\\\xff 5', expected an epoch and a start offset"),
            (b"0\n1\n" + b"1" * 5000 + b" 5\n", "f: line 3: '1{60}'…, expected an epoch and a start offset"),
            (b"0\n1\n2147483648 5\n", "f: line 3: epoch 2147483648, expected one from 0 to 2147483647"),
            (b"0\n1\n1 9223372036854775808\n", "f: line 3: start offset 9223372036854775808, expected one from 0 to"),
            (b"0\n2\n3 0\n2 5\n", "f: line 4: epoch 2, expected one from 4 to"),
            (b"0\n2\n3 0\n3 5\n", "f: line 4: epoch 3, expected one from 4 to"),
            (b"0\n2\n3 5\n4 4\n", "f: line 4: start offset 4, expected one from 5 to"),
        ],
    )
    def test_damage_is_named_by_line(self, content: bytes, message: str) -> None:
        with pytest.raises(StorageError, match=message):
            decode_leader_epochs("f", content)


class TestProducerSnapshot:
    def test_an_empty_one_is_kafkas(self) -> None:
        assert encode_producer_snapshot(ProducerStates()) == kafkas_files("dynamic")[f"{5:020d}.snapshot"]

    def test_the_newest_batch_of_each_producer_comes_back(self) -> None:
        producers = ProducerStates()
        producers.record(7, 2, 0, 100, 104, 1000)
        producers.record(8, 0, 2**31 - 2, 105, 107, 2000)
        producers.record(7, 2, 5, 108, 108, 3000)
        loaded = ProducerStates()
        load_producer_snapshot("f", encode_producer_snapshot(producers), loaded)
        assert [(p.producer_id, p.producer_epoch, p.batches, p.timestamp_ms) for p in loaded] == [
            (p.producer_id, p.producer_epoch, p.batches[-1:], p.timestamp_ms) for p in producers
        ]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda data: data[:9], "f: 9 bytes, a producer snapshot has 10 or more"),
            (lambda data: b"\x00\x09" + data[2:], "f: version 9, expected 1"),
            (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "f: wrong CRC"),
            (lambda data: data[:-1], "f: wrong CRC"),
        ],
    )
    def test_damage_is_named_and_nothing_is_taken(self, change: object, message: str) -> None:
        producers = ProducerStates()
        producers.record(7, 2, 0, 100, 104, 1000)
        loaded = ProducerStates()
        with pytest.raises(StorageError, match=message):
            load_producer_snapshot("f", change(encode_producer_snapshot(producers)), loaded)  # type: ignore[operator]
        assert len(loaded) == 0


class TestCheckpoints:
    def test_the_bootstrap_checkpoint_names_the_voters_read_only(self) -> None:
        disk = SimulatedDisk()
        disk.make_directory("/d")
        write_bootstrap_checkpoint(disk, "/d", KAFKAS_VOTERS, 1, 1234)
        path = f"/d/{partition_files.BOOTSTRAP_CHECKPOINT}"
        assert disk.mode(path) == 0o400
        assert list(read_checkpoint(disk.read_bytes(path))) == [
            SnapshotHeader(1234),
            KRaftVersion(1),
            VotersRecord(KAFKAS_VOTERS),
            SnapshotFooter(),
        ]
        found = read_checkpoint_voters(disk, "/d", OffsetAndEpoch(0, 0))
        assert (found.voters, found.kraft_version) == (KAFKAS_VOTERS, 1)

    def test_at_version_zero_it_names_none(self) -> None:
        assert list(read_checkpoint(encode_bootstrap_checkpoint(VoterSet(), 0, 5))) == [
            SnapshotHeader(5),
            SnapshotFooter(),
        ]

    def test_one_that_is_cut_anywhere_is_refused(self) -> None:
        whole = kafkas_files("dynamic")["00000000000000000005-0000000001.checkpoint"]
        for size in range(len(whole)):
            with pytest.raises(ProtocolError):
                list(read_checkpoint(whole[:size]))

    def test_a_flipped_bit_under_a_crc_is_refused(self) -> None:
        whole = kafkas_files("dynamic")["00000000000000000005-0000000001.checkpoint"]
        for position in (21, 100, 165, 230, len(whole) - 1):
            damaged = whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :]
            with pytest.raises(ProtocolError):
                list(read_checkpoint(damaged))

    @pytest.mark.parametrize(
        ("batches", "message"),
        [
            (lambda h, d, f: h(0) + d(1), "without its footer"),
            (lambda h, d, f: d(0) + f(1), "one header, as its first record"),
            (lambda h, d, f: h(0) + h(1) + f(2), "one header, as its first record"),
            (lambda h, d, f: h(0) + f(1) + d(2), "follows the snapshot's footer"),
            (lambda h, d, f: h(0) + f(2), "base offset 2, expected 1"),
        ],
    )
    def test_one_out_of_order_is_refused(self, batches: object, message: str) -> None:
        def header(offset: int) -> bytes:
            return encode_control_batch([SnapshotHeader(0)], timestamp_ms=0, base_offset=offset)

        def data(offset: int) -> bytes:
            return encode_batch([NewRecord(b"x")], timestamp_ms=0, base_offset=offset)

        def footer(offset: int) -> bytes:
            return encode_control_batch([SnapshotFooter()], timestamp_ms=0, base_offset=offset)

        with pytest.raises(ProtocolError, match=message):
            list(read_checkpoint(batches(header, data, footer)))  # type: ignore[operator]

    def test_names_tell_end_offset_and_epoch(self) -> None:
        names = [
            "00000000000000000012-0000000003.checkpoint",
            "00000000000000000000-0000000000.checkpoint",
            "x.checkpoint",
        ]
        ids = partition_files.checkpoint_ids(names)
        assert ids == [OffsetAndEpoch(0, 0), OffsetAndEpoch(12, 3)]
        assert partition_files.checkpoint_name(ids[1]) == names[0]
