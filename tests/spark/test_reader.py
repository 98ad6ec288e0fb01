"""Directories of replicas as rows, by the reader that Spark calls; no session is needed for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructType

from kraft_trio.errors import ConfigError, StorageError
from kraft_trio.spark.directories.files import LocalFiles
from kraft_trio.spark.schemas import CONTENTS
from kraft_trio.storage.batches.batch import (
    Compression,
    NewRecord,
    encode_batch,
    encode_control_batch,
    iter_headers,
    patch_base_offset_and_epoch,
)
from kraft_trio.storage.batches.batch_header import HEADER_BYTES, MAGIC_POSITION, patch_crc
from kraft_trio.storage.batches.control_records import KRaftVersion, SnapshotFooter, SnapshotHeader
from kraft_trio.storage.disk.partition_files import LEADER_EPOCH_CHECKPOINT, QUORUM_STATE
from tests.spark.directories import CLUSTER, PARTITION, batches, make_kafkas, make_node, numbered
from tests.spark.loading import column, errors, fields, load, reader_of, sound

pytestmark = pytest.mark.rotating(2)

SEGMENT = f"{PARTITION}/{0:020d}.log"


def snapshot(values: list[list[bytes | None]], timestamp_ms: int) -> bytes:
    """A snapshot of epoch 1 with those batches of the application."""
    made = [encode_control_batch([SnapshotHeader(77)], timestamp_ms=timestamp_ms)]
    made += [encode_batch([NewRecord(value) for value in some], timestamp_ms=timestamp_ms) for some in values]
    made.append(encode_control_batch([SnapshotFooter()], timestamp_ms=timestamp_ms))
    offset = 0
    for at, batch in enumerate(made):
        placed = bytearray(batch)
        patch_base_offset_and_epoch(placed, 0, offset, 1)
        made[at] = bytes(placed)
        [(_, header)] = iter_headers(made[at])
        offset = header.next_offset
    return b"".join(made)


def without_owner(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("directory", "node", "directory_id")}


class TestReading:
    def test_every_replica_of_a_glob(self, tmp_path: Path) -> None:
        for node in (1, 2, 3):
            make_node(tmp_path, node, (0, numbered(0, 100)), (100, numbered(100, 130, epoch=2)))
        rows = load(f"{tmp_path}/*/")
        assert len(rows) == 390
        for node in (1, 2, 3):
            of_node = [row for row in rows if row["node"] == node]
            assert {row["directory"] for row in of_node} == {f"{tmp_path}/node{node}"}
            assert {row["cluster_id"] for row in of_node} == {CLUSTER}
            assert column(of_node, "offset") == list(range(130))
            assert column(of_node, "value") == [b"%d" % offset for offset in range(130)]
            assert column(of_node, "epoch") == [1] * 100 + [2] * 30
            assert column(of_node, "segment") == [0] * 100 + [100] * 30

    def test_kafkas_own_directory_is_read_as_it_is(self, tmp_path: Path) -> None:
        path = make_kafkas(tmp_path, "dynamic")
        rows = load(path)
        assert column(rows, "control_type") == ["LeaderChange", "KRaftVersion", "Voters", None, None]
        assert column(rows, "value")[3:] == [b"hello", b"raft"]
        [voters] = [row["voters"] for row in load(path, content="control") if row["type"] == "Voters"]
        assert [(voter["id"], voter["directory_id"]) for voter in voters] == [(1, "b8tRS7h4TJ2Vt43Dp85v2A")]
        bootstrap, later = load(path, content="snapshots")
        assert (bootstrap["end_offset"], bootstrap["epoch"], bootstrap["record_count"]) == (0, 0, 0)
        assert (later["end_offset"], later["epoch"], later["record_count"], later["kraft_version"]) == (5, 1, 1, 1)
        assert later["voters"] == voters
        assert bootstrap["valid"]
        assert later["valid"]
        records = [row for row in load(path, content="snapshot-records") if not row["control"]]
        assert [(row["snapshot_end_offset"], row["offset"], row["value"]) for row in records] == [(5, 3, b"state")]
        [state] = load(path, content="quorum-state")
        assert (state["leader_id"], state["leader_epoch"], state["voted_id"], state["data_version"]) == (1, 1, None, 1)
        assert (state["crc_ok"], state["error"]) == (None, None)
        [epoch] = load(path, content="epochs")
        assert (epoch["epoch"], epoch["start_offset"]) == (1, 0)

    def test_a_partitions_directory_itself(self, tmp_path: Path) -> None:
        rows = load(make_node(tmp_path, 7, (0, numbered(0, 5))) / PARTITION)
        assert [(row["node"], row["cluster_id"], row["offset"]) for row in rows] == [
            (7, CLUSTER, at) for at in range(5)
        ]

    def test_several_paths(self, tmp_path: Path) -> None:
        paths = [str(make_node(tmp_path, node, (0, numbered(0, 5)))) for node in (2, 1)]
        assert column(load(paths), "node") == [2] * 5 + [1] * 5

    def test_a_directory_that_several_paths_lead_to_is_read_once(self, tmp_path: Path) -> None:
        node = make_node(tmp_path, 1, (0, numbered(0, 5)))
        (tmp_path / "latest").symlink_to(node)
        paths = [
            f"{tmp_path}/n*",
            str(node),
            f"{node}/",
            f"{tmp_path}/./node1",
            f"{node}/{PARTITION}",
            f"{tmp_path}/latest",
        ]
        rows = load(paths)
        assert column(rows, "offset") == list(range(5))
        assert {row["directory"] for row in rows} == {str(node)}

    def test_a_path_that_is_there_is_no_glob(self, tmp_path: Path) -> None:
        (tmp_path / "backups [old]").mkdir()
        path = make_node(tmp_path / "backups [old]", 1, (0, numbered(0, 5)))
        assert {row["directory"] for row in load(path)} == {str(path)}

    def test_a_brokers_other_topics_are_none_of_the_quorum(self, tmp_path: Path) -> None:
        node = make_node(tmp_path, 1, (0, numbered(0, 5)))
        (node / "orders-0").mkdir()
        (node / "orders-0" / f"{0:020d}.log").write_bytes(numbered(0, 99))
        assert len(load(node)) == 5

    @pytest.mark.parametrize("compression", list(Compression))
    def test_compressed_batches(self, tmp_path: Path, compression: Compression) -> None:
        values = [[b"%d" % at for at in range(start, start + 50)] for start in (0, 50)]
        path = make_node(tmp_path, 1, (0, batches(0, values, compression=compression)))
        assert column(load(path), "value") == [b"%d" % at for at in range(100)]
        assert column(load(path, content="batches"), "compression") == [compression.name.lower()] * 2

    def test_headers_where_they_are_asked_for(self, tmp_path: Path) -> None:
        record = NewRecord(b"v", headers=(("a", b"1"), ("b", None)))
        path = make_node(tmp_path, 1, (0, encode_batch([record, NewRecord(b"w")], timestamp_ms=5)))
        assert "headers" not in load(path)[0]
        assert column(load(path, includeHeaders="true"), "headers") == [
            [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
            [],
        ]

    def test_a_schema_is_a_projection(self, tmp_path: Path) -> None:
        path = make_node(tmp_path, 1, (0, numbered(0, 3)))
        rows = load(path, fields(value=BinaryType(), offset=LongType()))
        assert rows == [{"value": b"%d" % at, "offset": at} for at in range(3)]

    def test_large_segments_are_split_and_small_ones_combined(self, tmp_path: Path) -> None:
        path = make_node(tmp_path, 1, (0, batches(0, [[bytes(4000)] * 10 for _ in range(100)])))
        assert len(reader_of(path).partitions()) == 1
        assert len(reader_of(path, maxPartitionBytes="1000000").partitions()) == 4
        assert load(path, maxPartitionBytes="1000000") == load(path)
        small = make_node(tmp_path, 2, *((at * 10, numbered(at * 10, at * 10 + 10)) for at in range(20)))
        assert len(reader_of(small).partitions()) == 1
        assert column(load(small), "offset") == list(range(200))

    @pytest.mark.rotating(3)
    @pytest.mark.parametrize("place", [31, 32, 33])
    @pytest.mark.parametrize("byte", [0, 7, 10, 15, MAGIC_POSITION, 23, 26, HEADER_BYTES + 50])
    def test_a_split_changes_nothing_where_there_is_damage(self, tmp_path: Path, place: int, byte: int) -> None:
        """One part ends where the batch of place 32 begins, and another one in the middle of a batch."""
        data = bytearray(batches(0, [[bytes(4000)] * 10 for _ in range(100)], epoch=3))
        size = len(data) // 100
        path = make_node(tmp_path, 1, (0, bytes(data)))
        part = str(32 * size)
        for change in (0x01, 0x81):
            data[place * size + byte] ^= change
            (path / SEGMENT).write_bytes(data)
            whole = load(path)
            assert load(path, maxPartitionBytes=part) == whole
            assert load(path, maxPartitionBytes="300000") == whole
            assert column(errors(whole), "position")[0] in ((place - 1) * size, place * size)
            assert len(sound(whole)) >= 970
            data[place * size + byte] ^= change

    @pytest.mark.parametrize("length", [-12, -(2**31), 0, 2**31 - 1])
    def test_a_length_that_leads_nowhere(self, tmp_path: Path, length: int) -> None:
        data = bytearray(batches(0, [[bytes(4000)] * 10 for _ in range(20)]))
        data[8:12] = length.to_bytes(4, "big", signed=True)
        path = make_node(tmp_path, 1, (0, bytes(data)))
        assert len(sound(load(path, maxPartitionBytes="100000"))) == 190
        assert load(path, maxPartitionBytes="100000") == load(path)

    def test_batches_larger_than_a_part(self, tmp_path: Path) -> None:
        data = batches(0, [[bytes(1_500_000)], *[[b"v"]] * 10, [bytes(2_500_000)], *[[b"w"]] * 1000])
        path = make_node(tmp_path, 1, (0, data))
        assert load(path, maxPartitionBytes="50000") == load(path)

    def test_a_plan_reads_no_data_but_the_end_of_a_divided_log(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It reads names and sizes, who owns each directory, and whether the last segment ends in zeros."""
        path = make_node(tmp_path, 1, (0, numbered(0, 10_000)), (10_000, numbered(10_000, 20_000)))
        (path / PARTITION / f"{0:020d}.index").write_bytes(b"nonsense")
        (path / PARTITION / f"{9:020d}-0000000001.checkpoint").write_bytes(snapshot([[b"v"]], 5))
        (path / PARTITION / QUORUM_STATE).touch()
        (path / PARTITION / LEADER_EPOCH_CHECKPOINT).touch()
        opened: list[str] = []
        open_file = LocalFiles.open
        monkeypatch.setattr(LocalFiles, "open", lambda files, name: opened.append(name) or open_file(files, name))
        for content in CONTENTS:
            assert reader_of(path, content=content, maxPartitionBytes="10000").partitions()
        assert {*opened} == {f"{path}/meta.properties", f"{path}/{PARTITION}/{10_000:020d}.log"}
        opened.clear()
        for content in CONTENTS:
            assert reader_of(path, content=content).partitions()
        assert {*opened} == {f"{path}/meta.properties"}

    def test_a_split_snapshot_ends_once(self, tmp_path: Path) -> None:
        path = make_node(tmp_path, 1, (0, numbered(0, 10)))
        whole = snapshot([[bytes(4000)]] * 40, 5)
        file = path / PARTITION / f"{9:020d}-0000000001.checkpoint"
        file.write_bytes(whole)
        rows = load(path, content="snapshot-records")
        assert (len(sound(rows)), errors(rows)) == (42, [])
        assert load(path, content="snapshot-records", maxPartitionBytes="10000") == rows
        file.write_bytes(whole[: 20 * len(whole) // 40])
        torn = load(path, content="snapshot-records")
        assert len(errors(torn)) == 2
        assert load(path, content="snapshot-records", maxPartitionBytes="10000") == torn

    @pytest.mark.parametrize("damage", ["none", "torn", "flipped bit", "wrong epoch"])
    def test_a_divided_snapshot_tells_what_its_row_tells(self, tmp_path: Path, damage: str) -> None:
        """docs/reference/spark.md#how-tasks-read says to count in parts where no hash is wanted."""
        whole = bytearray(snapshot([[b"%d" % number for number in range(some)] for some in range(1, 20)], 5))
        if damage == "torn":
            del whole[-30:]
        elif damage == "flipped bit":
            whole[len(whole) // 2] ^= 1
        path = make_node(tmp_path, 1)
        epoch = 2 if damage == "wrong epoch" else 1
        (path / PARTITION / f"{9:020d}-{epoch:010d}.checkpoint").write_bytes(whole)
        [row] = load(path, content="snapshots")
        assert row["valid"] == (damage == "none")
        for size in (1, 50, 200, len(whole) // 3, len(whole)):
            parts = load(path, content="snapshot-records", maxPartitionBytes=str(size))
            assert (errors(parts) == []) == row["valid"]
            if row["valid"]:
                assert [part["control"] for part in parts].count(False) == row["record_count"] == 190

    @pytest.mark.parametrize("scheme", ["file", "memory"])
    def test_a_url(self, tmp_path: Path, scheme: str) -> None:
        import fsspec

        make_node(tmp_path, 1, (0, numbered(0, 5)))
        root = f"{scheme}://{tmp_path}"
        if scheme == "memory":
            fsspec.filesystem("memory").put(str(tmp_path / "node1"), f"{tmp_path}/node1", recursive=True)
        for path in (f"{root}/*/", f"{root}/node1"):
            rows = load(path)
            assert column(rows, "offset") == list(range(5))
            assert {(row["directory"], row["node"]) for row in rows} == {(f"{root}/node1", 1)}

    def test_offsets(self, tmp_path: Path) -> None:
        path = make_node(tmp_path, 1, (0, numbered(0, 50)), (50, numbered(50, 100)))
        assert column(load(path, startingOffsets="45", endingOffsets="72"), "offset") == list(range(45, 72))
        assert len(load(path, startingOffsets="earliest", endingOffsets="latest")) == 100
        rows = load(path, content="batches", startingOffsets="45", endingOffsets="72")
        assert column(rows, "base_offset") == [40, 50, 60, 70]

    @pytest.mark.parametrize("content", ["quorum-state", "epochs", "snapshots"])
    def test_defaults_may_be_given_whatever_is_read(self, tmp_path: Path, content: str) -> None:
        path = make_node(tmp_path, 1, (0, numbered(0, 5)))
        given = {"startingOffsets": "Earliest", "endingOffsets": "latest", "includeHeaders": "false"}
        assert load(path, None, content=content, **given) == []

    @pytest.mark.parametrize("content", ["records", "control"])
    def test_offsets_within_a_batch(self, tmp_path: Path, content: str) -> None:
        path = make_node(tmp_path, 1, (0, encode_control_batch([KRaftVersion(1)] * 5, timestamp_ms=5)))
        assert column(load(path, content=content, startingOffsets="1", endingOffsets="3"), "offset") == [1, 2]

    @pytest.mark.parametrize("content", ["records", "control"])
    def test_a_misplaced_batch_is_found_at_any_fetch_offset(self, tmp_path: Path, content: str) -> None:
        data = encode_control_batch([KRaftVersion(1)] * 5, timestamp_ms=5)
        path = make_node(tmp_path, 1, (0, data), (6, data))
        rows = load(path, content=content, startingOffsets="9")
        assert [(row["offset"], row["error"]) for row in rows] == [(at, "base offset 0, expected 6") for at in range(5)]

    def test_large_values_are_not_put_together_without_end(self, tmp_path: Path) -> None:
        values = [[bytes(3_000_000)] for _ in range(40)]
        reader = reader_of(make_node(tmp_path, 1, (0, batches(0, values, compression=Compression.ZSTD))))
        [part] = reader.partitions()
        sizes = [batch.nbytes for batch in reader.read(part)]
        assert sum(sizes) > 120_000_000
        assert max(sizes) < 60_000_000

    def test_segments_outside_are_not_opened(self, tmp_path: Path) -> None:
        path = make_node(tmp_path, 1, (50, numbered(50, 100)))
        (path / SEGMENT).mkdir()
        assert errors(load(path, startingOffsets="50")) == []
        (path / SEGMENT).rmdir()
        (path / SEGMENT).symlink_to("nowhere")
        assert errors(load(path, startingOffsets="50")) == []
        assert len(errors(load(path, startingOffsets="49"))) == 1

    def test_epochs(self, tmp_path: Path) -> None:
        path = make_node(tmp_path, 1, (0, numbered(0, 50)), (50, numbered(50, 100, epoch=2)))
        assert column(load(path, epochs="2"), "offset") == list(range(50, 100))
        assert column(load(path, epochs="0-1"), "offset") == list(range(50))


class TestBadInput:
    def test_damage_in_the_middle_is_a_row_and_the_rest_is_read(self, tmp_path: Path) -> None:
        data = bytearray(numbered(0, 50))
        size = len(numbered(0, 10))
        data[size + HEADER_BYTES + 3] ^= 1
        path = make_node(tmp_path, 1, (0, bytes(data)), (50, numbered(50, 60)))
        rows = load(path)
        assert column(sound(rows), "offset") == [*range(10), *range(20, 60)]
        [error] = errors(rows)
        assert error["position"] == size
        assert error["error"].startswith("CRC is 0x")
        for schema in (None, fields(value=BinaryType())):
            with pytest.raises(StorageError, match=rf"{SEGMENT}: position {size}: CRC is 0x\w+, its header says 0x"):
                load(path, schema, mode="FAILFAST")

    def test_a_sound_log_is_read_in_failfast_mode(self, tmp_path: Path) -> None:
        path = make_node(tmp_path, 1, (0, numbered(0, 50)))
        assert load(path, mode="FAILFAST") == load(path)

    def test_a_torn_tail_is_a_row(self, tmp_path: Path) -> None:
        data = numbered(0, 20)
        rows = load(make_node(tmp_path, 1, (0, data[:-5])))
        assert column(sound(rows), "offset") == list(range(10))
        size = len(data) - len(numbered(0, 10))
        assert column(errors(rows), "error") == [f"a batch of {size} bytes, {size - 5} are left"]

    @pytest.mark.parametrize("zeros", [1, 61, 600, 300_000])
    def test_preallocated_zeros_are_the_end_of_the_log(self, tmp_path: Path, zeros: int) -> None:
        """They are no rows, however the file is divided; the last record ends in zeros, too."""
        data = numbered(0, 1000) + batches(1000, [[b"\0" * 100]])
        path = make_node(tmp_path, 1, (0, data + bytes(zeros)))
        other = make_node(tmp_path, 2, (0, data))
        (path / PARTITION / QUORUM_STATE).touch()
        for content in ("records", "batches", "control"):
            rows = load(path, content=content, mode="FAILFAST")
            assert [without_owner(row) for row in rows] == [without_owner(row) for row in load(other, content=content)]
            assert load(path, content=content, maxPartitionBytes="10000") == rows

    def test_zeros_do_not_make_tasks(self, tmp_path: Path) -> None:
        """A boundary among them would move while the node writes."""
        data = numbered(0, 1000)
        path = make_node(tmp_path, 1, (0, data + bytes(300_000)))
        tasks = reader_of(path, content="batches", maxPartitionBytes="10000").partitions()
        assert len(tasks) == -(-len(data) // 10_000)

    def test_other_zeros_are_damage(self, tmp_path: Path) -> None:
        data = numbered(0, 20)
        sealed = make_node(tmp_path, 1, (0, data + bytes(600)), (20, numbered(20, 30)))
        [error] = errors(load(sealed))
        assert (error["position"], error["error"]) == (len(data), "magic 0, expected 2; 600 bytes of zeros to the end")
        followed = make_node(tmp_path, 2, (0, data + bytes(600) + numbered(20, 30)))
        rows = load(followed)
        [error] = errors(rows)
        assert (error["position"], column(sound(rows), "offset")) == (len(data), list(range(30)))

    def test_a_file_that_is_no_log(self, tmp_path: Path) -> None:
        path = make_node(tmp_path, 1, (0, b"these are words and no batches\n" * 10), (20, numbered(20, 30)))
        assert column(sound(load(path)), "offset") == list(range(20, 30))
        [error] = errors(load(path, content="batches"))
        assert (error["position"], error["size"]) == (0, 310)
        assert error["error"] == "magic 97, expected 2"

    def test_a_file_that_cannot_be_read(self, tmp_path: Path) -> None:
        path = make_node(tmp_path, 1, (10, numbered(10, 20)))
        (path / SEGMENT).symlink_to("nowhere")
        rows = load(path)
        assert column(sound(rows), "offset") == list(range(10, 20))
        message = f"{path}/{SEGMENT}: cannot be read: No such file or directory"
        assert column(errors(rows), "error") == [message]
        with pytest.raises(StorageError) as failed:
            load(path, mode="FAILFAST")
        assert str(failed.value) == message

    def test_a_device_that_fails(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from kraft_trio.spark.decoding.byte_source import FileSource

        path = make_node(tmp_path, 1, (0, numbered(0, 10)))

        def failing(*_: Any) -> bytes:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(FileSource, "read_at", failing)
        [error] = load(path)
        assert error["error"] == f"{path}/{SEGMENT}: cannot be read: Input/output error"

    def test_missing_or_empty_directories_among_good_ones(self, tmp_path: Path) -> None:
        good = make_node(tmp_path, 1, (0, numbered(0, 5)))
        (tmp_path / "empty").mkdir()
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "readme").touch()
        bad = ["empty", "other", "missing", "gl*b"]
        rows = load([str(good), *(f"{tmp_path}/{name}" for name in bad)])
        assert column(sound(rows), "offset") == list(range(5))
        found = {row["directory"].removeprefix(f"{tmp_path}/"): row["error"] for row in errors(rows)}
        assert list(found) == bad
        assert "empty: is empty" in found["empty"]
        assert "has no partition's directory" in found["other"]
        assert "No such file or directory" in found["missing"]
        assert "nothing matches" in found["gl*b"]
        with pytest.raises(StorageError, match=r"empty: is empty; expected a node's metadata.log.dir or a partition's"):
            load([str(good), f"{tmp_path}/empty"], mode="FAILFAST")

    @pytest.mark.parametrize("path", ["missing", "empty", "no*where"])
    def test_nothing_but_such_directories_is_refused(self, tmp_path: Path, path: str) -> None:
        (tmp_path / "empty").mkdir()
        with pytest.raises(ConfigError, match=f"no replica's directory among the paths: {tmp_path}/"):
            load(tmp_path / path)

    def test_clusters_are_not_mixed_by_accident(self, tmp_path: Path) -> None:
        make_node(tmp_path, 1, (0, numbered(0, 5)))
        make_node(tmp_path, 2, (0, numbered(0, 5)), cluster_id="cluster-b")
        with pytest.raises(ConfigError, match=r"cluster-a in .*node1, cluster-b in .*node2; .*allowMixedClusters"):
            load(f"{tmp_path}/*")
        assert len(load(f"{tmp_path}/*", allowMixedClusters="true")) == 10

    def test_a_bad_meta_properties_is_named_and_the_log_is_read(self, tmp_path: Path) -> None:
        path = make_node(tmp_path, 1, (0, numbered(0, 5)))
        (path / "meta.properties").write_text("version=9\n")
        rows = load(path)
        assert column(sound(rows), "offset") == list(range(5))
        error = f"{path}/meta.properties: version=9, expected 0 or 1: start the release that wrote it"
        assert column(errors(rows), "error") == [error]

    @pytest.mark.parametrize(("content", "file"), [("quorum-state", QUORUM_STATE), ("epochs", LEADER_EPOCH_CHECKPOINT)])
    def test_small_files_that_are_damaged(self, tmp_path: Path, content: str, file: str) -> None:
        path = make_node(tmp_path, 1)
        (path / PARTITION / file).write_text("garbage")
        [row] = load(path, content=content)
        assert row["error"].startswith(f"{path}/{PARTITION}/{file}: ")

    def test_a_snapshot_that_is_cut_where_a_batch_ends(self, tmp_path: Path) -> None:
        path = make_kafkas(tmp_path, "dynamic")
        file = path / PARTITION / "00000000000000000005-0000000001.checkpoint"
        file.write_bytes(file.read_bytes()[:-75])
        message = "the snapshot ends at position 239 without its footer"
        _, later = load(path, content="snapshots")
        assert (later["valid"], later["error"], later["size"]) == (False, f"{file}: {message}", 239)
        [error] = errors(load(path, content="snapshot-records"))
        assert (error["snapshot_end_offset"], error["position"], error["error"]) == (5, 239, message)

    def test_a_record_of_a_snapshot_that_says_another_offset(self, tmp_path: Path) -> None:
        data = bytearray(snapshot([[b"a"]], timestamp_ms=5))
        [_, (position, header), _] = iter_headers(data)
        data[position + HEADER_BYTES + 3] = 2  # the offset delta, 1
        placed = data[position : position + header.size_in_bytes]
        patch_crc(placed)
        data[position : position + header.size_in_bytes] = placed
        path = make_node(tmp_path, 1)
        (path / PARTITION / f"{7:020d}-{1:010d}.checkpoint").write_bytes(data)
        problem = "batch at offset 1: offset delta 1 of a record, expected one from 0 to 0"
        [row] = load(path, content="snapshots")
        assert not row["valid"]
        assert row["error"].endswith(problem)
        assert column(errors(load(path, content="snapshot-records")), "error") == [problem]

    def test_a_snapshots_records_depend_on_nothing_but_the_state(self, tmp_path: Path) -> None:
        values = [b"a", None, b"bc"]
        files = {
            "first": snapshot([values], timestamp_ms=5),
            "later": snapshot([values], timestamp_ms=9),
            "in other batches": snapshot([values[:1], values[1:]], timestamp_ms=5),
            "another value": snapshot([[b"a", None, b"bd"]], timestamp_ms=5),
            "moved": snapshot([[b"ab", None, b"c"]], timestamp_ms=5),
            "empty": snapshot([[b"a", b"", b"bc"]], timestamp_ms=5),
        }
        contents = {}
        for at, (name, data) in enumerate(files.items()):
            path = make_node(tmp_path, at)
            (path / PARTITION / f"{7:020d}-{1:010d}.checkpoint").write_bytes(data)
            [row] = load(path, content="snapshots")
            assert (row["valid"], row["record_count"], row["error"]) == (True, 3, None)
            contents[name] = row["content_sha256"]
        assert contents["first"] == contents["later"] == contents["in other batches"]
        assert len(set(contents.values())) == 4

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"contents": "records"}, "option contents=records: there is no such option; known are"),
            ({"content": "record"}, "option content=record, expected records, batches,"),
            ({"mode": "DROPMALFORMED"}, "option mode=DROPMALFORMED, expected PERMISSIVE or FAILFAST"),
            ({"startingOffsets": "-5"}, "option startingOffsets=-5, expected earliest, latest, an offset"),
            ({"epochs": "5-3"}, "option epochs=5-3, expected an epoch, or FIRST-LAST"),
            ({"maxPartitionBytes": "0"}, "option maxPartitionBytes=0, expected bytes, 1 or more"),
            (
                {"content": "batches", "includeHeaders": "true"},
                "includeHeaders=true: says nothing of content=batches; expected content=records or content=snap",
            ),
            (
                {"content": "epochs", "value.format": "MsgPack"},
                "option value.format=MsgPack: says nothing of content=epochs; expected content=records or",
            ),
            (
                {"content": "quorum-state", "startingOffsets": "5"},
                "option startingOffsets=5: says nothing of content=quorum-state; expected content=records or con",
            ),
            (
                {"content": "snapshots", "endingOFFSETS": "5"},
                "option endingOffsets=5: says nothing of content=snapshots; expected content=records or content=",
            ),
            ({"content": "epochs", "epochs": "0-3"}, "option epochs=0-3: says nothing of content=epochs; expected"),
        ],
    )
    def test_an_option_that_is_wrong_is_named(self, tmp_path: Path, options: dict[str, str], problem: str) -> None:
        make_node(tmp_path, 1, (0, numbered(0, 5)))
        with pytest.raises(ConfigError, match=problem):
            load(tmp_path / "node1", **options)

    @pytest.mark.parametrize(
        ("schema", "problem"),
        [
            (fields(ofset=LongType()), "has no column ofset; known are directory, "),
            (fields(offset=IntegerType()), "column offset is bigint, not int32"),
        ],
    )
    def test_a_schema_that_is_wrong_is_named(self, tmp_path: Path, schema: StructType, problem: str) -> None:
        with pytest.raises(ConfigError, match=problem):
            load(make_node(tmp_path, 1, (0, numbered(0, 5))), schema)

    def test_no_path_at_all(self) -> None:
        with pytest.raises(ConfigError, match=r"no path: expected load\(PATH\)"):
            load("")

    def test_a_url_of_a_scheme_that_does_not_exist(self) -> None:
        with pytest.raises(ConfigError, match="path nosuch://a/b: "):
            load("nosuch://a/b")
