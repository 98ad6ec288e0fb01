"""`kraft dump-log`: Kafka's files and ours, in text and as JSON, whole and damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import UUID

import attrs
import pytest

from kraft_trio.application.serde import MsgpackSerde
from kraft_trio.cli import run
from kraft_trio.cli.logs import log_dump
from kraft_trio.cli.logs.log_dump import DumpedBatch, Preallocated, control_fields, dump_file
from kraft_trio.cli.terminal.exit_codes import ExitCode
from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import ReplicaKey, directory_id_from_text, directory_id_to_text
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batches.batch import Compression, NewRecord, encode_batch
from kraft_trio.storage.batches.control_records import (
    KRaftVersion,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    VotersRecord,
)
from kraft_trio.storage.disk.disk import DiskFile
from kraft_trio.storage.segments.preallocation import MAX_PREALLOCATE_BYTES
from kraft_trio.wire.metadata_frame import decode_metadata_frame

# A log and a snapshot as Apache Kafka's own raft classes wrote them at kraft.version 1.
KAFKA_LOG = bytes.fromhex(
    "0000000000000000000000a2000000010212785c0a002000000002000001a1fcfb7a5c000001a1fcfb7a5cffffffffffffff"
    "ffffffffffffff000000033a00000008000000022600000000000102000000010002000000010000001e0000020800000005"
    "0a000000010000820100000408000000066e000002000000016fcb514bb8784c9d95b78dc3a7ce6fd8020b434f4e54524f4c"
    "4c45520a6c6f63616c686f737423850000000001000000000000000000000003000000480000000102d3514afc0000000000"
    "01000001a1fcfb7a8f000001a1fcfb7a8fffffffffffffffffffffffffffff0000000216000000010a68656c6c6f00140000"
    "0201087261667400"
)
KAFKA_CHECKPOINT = bytes.fromhex(
    "00000000000000000000009a0000000102da821b01002000000002000001a1fcfb7c87000001a1fcfb7c87ffffffffffffff"
    "ffffffffffffff000000032a0000000800000003160000000001a1fcfb7c8300001e00000208000000050a00000001000082"
    "0100000408000000066e000002000000016fcb514bb8784c9d95b78dc3a7ce6fd8020b434f4e54524f4c4c45520a6c6f6361"
    "6c686f7374238500000000010000000000000000000000030000003d0000000102baa2fbac000000000000000001a1fcfb7c"
    "88000001a1fcfb7c88ffffffffffffffffffffffffffff0000000116000000010a7374617465000000000000000004000000"
    "3f000000010256969675002000000000000001a1fcfb7c88000001a1fcfb7c88ffffffffffffffffffffffffffff00000001"
    "1a00000008000000040600000000"
)
DIRECTORY_ID = "b8tRS7h4TJ2Vt43Dp85v2A"
SECOND_BATCH = 174


@attrs.frozen
class Deposit:
    account: str
    amount: int


SERDE = MsgpackSerde(Deposit)


def write(directory: Path, data: bytes, name: str = "00000000000000000000.log") -> str:
    path = directory / name
    path.write_bytes(data)
    return str(path)


def dump_json(capsys: pytest.CaptureFixture[str], *arguments: str, exit_code: int = 0) -> list[dict[str, Any]]:
    assert run(["dump-log", "--json", *arguments]) == exit_code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


class TestKafkasFiles:
    def test_the_log_as_text(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = write(tmp_path, KAFKA_LOG)
        assert run(["dump-log", path]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[:3] == [f"Dumping {path}", "Log starting offset: 0", f"Size: {len(KAFKA_LOG)} bytes"]
        assert lines[3] == (
            "baseOffset: 0 lastOffset: 2 count: 3 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 "
            "partitionLeaderEpoch: 1 isTransactional: false isControl: true position: 0 CreateTime: 1795245701724 "
            "size: 174 magic: 2 compresscodec: none crc: 309877770 isvalid: true"
        )
        assert lines[4].startswith(
            "| offset: 0 CreateTime: 1795245701724 keySize: 4 valueSize: 19 sequence: -1 headerKeys: []"
        )
        assert lines[4].endswith(
            'LeaderChange: {"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[{"voterId":1}]}'
        )
        assert lines[5].endswith('KRaftVersion: {"version":0,"kRaftVersion":1}')
        assert lines[-1].endswith("keySize: -1 valueSize: 4 sequence: -1 headerKeys: [] payload: raft")
        assert len(lines) == 10

    def test_the_log_as_json(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        control, data = dump_json(capsys, write(tmp_path, KAFKA_LOG))
        assert [record["controlType"] for record in control["records"]] == [
            "LeaderChange",
            "KRaftVersion",
            "KRaftVoters",
        ]
        assert control["records"][2]["voters"] == [
            {
                "voterId": 1,
                "voterDirectoryId": DIRECTORY_ID,
                "endpoints": [{"name": "CONTROLLER", "host": "localhost", "port": 9093}],
                "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
            }
        ]
        assert (data["position"], data["baseOffset"], data["size"]) == (SECOND_BATCH, 3, 84)
        assert [(record["offset"], record["value"]) for record in data["records"]] == [(3, "hello"), (4, "raft")]

    def test_a_snapshot(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = write(tmp_path, KAFKA_CHECKPOINT, "00000000000000000005-0000000001.checkpoint")
        assert run(["dump-log", path]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[1:3] == ["Snapshot end offset: 5, epoch: 1", f"Size: {len(KAFKA_CHECKPOINT)} bytes"]
        assert 'SnapshotHeader: {"version":0,"lastContainedLogTimestamp":1795245702275}' in lines[4]
        assert lines[-1].endswith('SnapshotFooter: {"version":0}')


class TestOurRecords:
    def test_keys_headers_sequences_and_nulls(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        batch = encode_batch(
            [
                NewRecord(key=b"k", value=b"\xff\x00", headers=(("h", b"v"), ("n", None))),
                NewRecord(key=None, value=None),
                NewRecord(key=b"\xfe", value="é".encode()),
            ],
            timestamp_ms=5,
            base_offset=7,
            leader_epoch=3,
            producer_id=11,
            producer_epoch=2,
            base_sequence=2**31 - 2,
        )
        path = write(tmp_path, batch)
        (dumped,) = dump_json(capsys, path)
        assert (dumped["baseSequence"], dumped["lastSequence"], dumped["producerId"]) == (2**31 - 2, 0, 11)
        first, second, third = dumped["records"]
        assert first["valueHex"] == "ff00"
        assert first["key"] == "k"
        assert first["headers"] == [{"name": "h", "value": "v"}, {"name": "n", "value": None}]
        assert (second["key"], second["value"], second["sequence"]) == (None, None, 2**31 - 1)
        assert (third["keyHex"], third["value"], third["sequence"]) == ("fe", "é", 0)
        assert run(["dump-log", path]) == 0
        out = capsys.readouterr().out
        assert "headerKeys: [h,n] key: k payload: 0xff00" in out
        assert "payload: null" in out

    def test_compressed_records_are_read(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        batch = encode_batch([NewRecord(value=b"a" * 100)], timestamp_ms=0, compression=Compression.ZSTD)
        (dumped,) = dump_json(capsys, write(tmp_path, batch))
        assert dumped["compresscodec"] == "zstd"
        assert dumped["records"][0]["value"] == "a" * 100

    def test_transaction_markers_and_unknown_control_records(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        batch = encode_batch(
            [
                NewRecord(key=bytes([0, 0, 0, 1]), value=bytes([0, 0, 0, 0, 0, 9])),
                NewRecord(key=bytes([0, 0, 0, 0]), value=bytes(6)),
                NewRecord(key=bytes([0, 0, 0, 99]), value=b"\x01\x02"),
            ],
            timestamp_ms=0,
            control=True,
        )
        (dumped,) = dump_json(capsys, write(tmp_path, batch))
        commit, abort, unknown = dumped["records"]
        assert (commit["controlType"], commit["type"], commit["coordinatorEpoch"]) == ("EndTxnMarker", "COMMIT", 9)
        assert abort["type"] == "ABORT"
        assert (unknown["controlType"], unknown["data"]) == ("UNKNOWN(99)", "0102")

    def test_skip_records_and_several_files(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        first = write(tmp_path, KAFKA_LOG)
        second = write(tmp_path, KAFKA_CHECKPOINT, "00000000000000000005-0000000001.checkpoint")
        dumped = dump_json(capsys, "--skip-records", "--files", f"{first},{second}")
        assert [batch["file"] for batch in dumped] == [first, first, second, second, second]
        assert not any("records" in batch for batch in dumped)

    def test_an_empty_file_holds_nothing(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert dump_json(capsys, write(tmp_path, b"")) == []

    @pytest.mark.parametrize(
        ("record", "name", "field"),
        [
            (LeaderChange(3, (1, 3), (3,)), "LeaderChange", ("grantingVoters", [{"voterId": 3}])),
            (SnapshotHeader(12), "SnapshotHeader", ("lastContainedLogTimestamp", 12)),
            (SnapshotFooter(), "SnapshotFooter", ("version", 0)),
            (KRaftVersion(1), "KRaftVersion", ("kRaftVersion", 1)),
            (
                VotersRecord(VoterSet(), (ReplicaKey(4, directory_id_from_text(DIRECTORY_ID)),)),
                "KRaftVoters",
                ("targetVoters", [{"voterId": 4, "voterDirectoryId": DIRECTORY_ID}]),
            ),
        ],
    )
    def test_control_records_have_kafkas_names(self, record: Any, name: str, field: tuple[str, Any]) -> None:
        dumped_name, fields = control_fields(record)
        assert dumped_name == name
        assert fields[field[0]] == field[1]


class TestMetadataFrames:
    def test_a_frame_is_taken_off_where_asked_for(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        values = [b"\x01\x09\x00" + bytes(16) + b"\x00", b"\x01\xac\x02\x01\xaa", b"\x00not a frame"]
        batch = encode_batch([NewRecord(value=value) for value in values], timestamp_ms=0)
        path = write(tmp_path, batch)
        (dumped,) = dump_json(capsys, "--cluster-metadata-decoder", path)
        removal, unknown, raw = dumped["records"]
        topic_id = directory_id_to_text(UUID(int=0))
        assert removal["metadata"] == {"type": "REMOVE_TOPIC_RECORD", "version": 0, "data": {"topicId": topic_id}}
        assert (unknown["metadata"]["type"], unknown["metadata"]["data"]) == ("UNKNOWN(300)", "aa")
        assert raw["value"] == "\x00not a frame"
        assert run(["dump-log", "--cluster-metadata-decoder", path]) == 0
        payload = f'{{"type":"REMOVE_TOPIC_RECORD","version":0,"data":{{"topicId":"{topic_id}"}}}}'
        assert f"payload: {payload}" in capsys.readouterr().out

    @pytest.mark.parametrize("value", [b"", b"\x01", b"\x01\x02", b"\x02\x02\x00", b"\x01\x80\x80\x80\x80\x80\x00\x00"])
    def test_what_is_no_frame(self, value: bytes) -> None:
        with pytest.raises(ProtocolError, match="metadata frame"):
            decode_metadata_frame(value)


class TestDamage:
    def test_a_flipped_bit_is_shown_and_the_dump_goes_on(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        data = bytearray(KAFKA_LOG)
        data[100] ^= 1
        path = write(tmp_path, bytes(data))
        assert run(["dump-log", "--json", path]) == 1
        captured = capsys.readouterr()
        damaged, good = [json.loads(line) for line in captured.out.splitlines()]
        assert damaged["isvalid"] is False
        assert damaged["records"] == []
        assert "crc" in damaged["problem"].lower()
        assert (good["isvalid"], good["records"][1]["value"]) == (True, "raft")
        assert captured.err.startswith(f"kraft: error: {path}: ")
        assert captured.err.count("\n") == 1

    @pytest.mark.parametrize("left", [8, 30, 83])
    def test_a_torn_tail_is_measured(self, tmp_path: Path, capsys: pytest.CaptureFixture[str], left: int) -> None:
        path = write(tmp_path, KAFKA_LOG[: SECOND_BATCH + left])
        dumped = dump_json(capsys, path, exit_code=1)
        assert len(dumped) == 2
        assert (dumped[1]["position"], dumped[1]["invalidBytes"]) == (SECOND_BATCH, left)
        assert run(["dump-log", path]) == 1
        assert f"Found {left} invalid bytes at position {SECOND_BATCH}: " in capsys.readouterr().out

    @pytest.mark.parametrize("zeros", [1, 60, 61, 5000])
    def test_preallocated_zeros_end_the_log(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], zeros: int
    ) -> None:
        """The last batch's own last byte is zero."""
        path = write(tmp_path, KAFKA_LOG + bytes(zeros))
        assert [batch["isvalid"] for batch in dump_json(capsys, path)] == [True, True]
        assert run(["dump-log", path]) == 0
        captured = capsys.readouterr()
        assert captured.out.endswith(f"Found {zeros} preallocated bytes at position {len(KAFKA_LOG)}\n")
        assert captured.err == ""

    @pytest.mark.parametrize("is_cut", [True, False])
    def test_a_node_that_runs_meanwhile(self, tmp_path: Path, is_cut: bool) -> None:
        """It has cut the zeros, or written over them and further, when the dump comes there."""
        path = Path(write(tmp_path, KAFKA_LOG + bytes(5000)))
        dump = dump_file(str(path))
        first = next(dump)
        more = b"" if is_cut else encode_batch([NewRecord(bytes(9000))], timestamp_ms=0)
        path.write_bytes(KAFKA_LOG + more)
        if is_cut:
            write(tmp_path, b"", "00000000000000000005.log")
        items = [first, *dump]
        assert all(isinstance(item, DumpedBatch) and item.problem is None for item in items)
        assert len(items) == (2 if is_cut else 3)

    def test_a_batch_that_is_written_while_the_zeros_are_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = Path(write(tmp_path, KAFKA_LOG + bytes(5000)))
        more = encode_batch([NewRecord(b"value")], timestamp_ms=0)
        real = log_dump._is_preallocated

        def meanwhile(file: DiskFile, position: int) -> bool:
            monkeypatch.setattr(log_dump, "_is_preallocated", real)
            with path.open("r+b") as written:
                written.seek(len(KAFKA_LOG))
                written.write(more)
            return real(file, position)

        monkeypatch.setattr(log_dump, "_is_preallocated", meanwhile)
        *batches, zeros = dump_file(str(path))
        assert all(isinstance(item, DumpedBatch) and item.problem is None for item in batches)
        assert (len(batches), zeros) == (3, Preallocated(len(KAFKA_LOG + more), 5000 - len(more)))

    @pytest.mark.parametrize("is_written", [True, False])
    def test_a_batch_of_which_a_part_is_written_is_read_again(self, tmp_path: Path, is_written: bool) -> None:
        more = encode_batch([NewRecord(b"v" * 9000)], timestamp_ms=0)
        path = Path(write(tmp_path, KAFKA_LOG + more[:5000] + bytes(9000)))
        read = log_dump._dump_batch

        def meanwhile(*arguments: Any) -> DumpedBatch:
            found = read(*arguments)
            if is_written and not found.is_valid:
                with path.open("r+b") as written:
                    written.seek(len(KAFKA_LOG))
                    written.write(more)
            return found

        with mock.patch.object(log_dump, "_dump_batch", meanwhile):
            *batches, zeros = dump_file(str(path))
        assert [one.is_valid for one in batches if isinstance(one, DumpedBatch)] == [True, True, is_written]
        assert zeros == Preallocated(len(KAFKA_LOG + more), 5000 + 9000 - len(more))

    @pytest.mark.parametrize(
        ("name", "data", "later"),
        [
            ("00000000000000000000.log", KAFKA_LOG + bytes(100), ["00000000000000000005.log"]),
            ("00000000000000000000.log", KAFKA_LOG + bytes(100) + b"x", []),
            ("00000000000000000000.log", KAFKA_LOG + bytes(MAX_PREALLOCATE_BYTES + 1), []),
            ("00000000000000000000.log", KAFKA_LOG + bytes(100) + KAFKA_LOG, []),
            ("00000000000000000005-0000000001.checkpoint", KAFKA_CHECKPOINT + bytes(100), []),
        ],
    )
    def test_other_zeros_are_damage(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, data: bytes, later: list[str]
    ) -> None:
        for one in later:
            write(tmp_path, b"", one)
        *_, damage = dump_json(capsys, write(tmp_path, data, name), exit_code=1)
        assert "magic 0, expected 2" in damage["problem"]

    def test_records_that_do_not_decode_under_a_right_crc(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        batch = encode_batch([NewRecord(key=b"\x00", value=b"")], timestamp_ms=0, control=True)
        path = write(tmp_path, batch)
        (dumped,) = dump_json(capsys, path, exit_code=1)
        assert dumped["isvalid"] is True
        assert "control record" in dumped["problem"]


class TestCommandLine:
    def test_no_file(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["dump-log"]) == 2
        assert capsys.readouterr().err == "kraft: error: no file given (see kraft dump-log --help)\n"

    def test_a_missing_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["dump-log", str(tmp_path / "0.log")]) == 2
        assert run(["dump-log", "--files", str(tmp_path / "0.log")]) == 1
        errors = capsys.readouterr().err.splitlines()
        assert "does not exist" in errors[0]
        assert errors[1] == f"kraft: error: {tmp_path / '0.log'}: No such file or directory"

    def test_a_file_of_another_kind(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = write(tmp_path, b"", "00000000000000000000.index")
        assert run(["dump-log", path]) == 1
        assert capsys.readouterr().err == f"kraft: error: {path}: expected a .log or .checkpoint file\n"

    def test_a_reader_that_goes_away_is_no_traceback(self, tmp_path: Path) -> None:
        path = write(tmp_path, KAFKA_LOG * 2000)
        read_end, write_end = os.pipe()
        os.close(read_end)
        with os.fdopen(write_end, "wb") as stdout:
            done = subprocess.run(
                [sys.executable, "-m", "kraft_trio", "dump-log", path],
                stdout=stdout,
                stderr=subprocess.PIPE,
                check=False,
            )
        assert (done.returncode, done.stderr) == (ExitCode.READER_GONE, b"")


class TestSerde:
    def test_values_are_decoded(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        values = [SERDE.encode(Deposit("alice", 100)), b"\x00not ours"]
        path = write(tmp_path, encode_batch([NewRecord(value) for value in values], timestamp_ms=1))
        name = f"{__name__}:SERDE"
        assert run(["dump-log", "--serde", name, path]) == 0
        good, bad = capsys.readouterr().out.splitlines()[-2:]
        assert good.endswith(" decoded: Deposit(account='alice', amount=100)")
        assert "payload: 0x006e6f74206f757273 undecodable: 9 bytes are not a value written by MsgpackSerde" in bad
        [batch] = dump_json(capsys, "--serde", name, path)
        assert batch["records"][0]["decoded"] == "Deposit(account='alice', amount=100)"
        assert "9 bytes are not a value" in batch["records"][1]["undecodable"]

    @pytest.mark.parametrize("name", ["nowhere:SERDE", f"{__name__}:absent", f"{__name__}:SECOND_BATCH"])
    def test_what_is_no_serde_is_refused(self, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["dump-log", "--serde", name, write(tmp_path, KAFKA_LOG)]) == 1
        assert f"--serde={name}: " in capsys.readouterr().err
