"""Bombs in a log's files: the commands name the batch, continue or stop, and need little memory."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from kraft_trio.cli import run
from kraft_trio.storage.batches.batch_header import Compression, patch_base_offset_and_epoch
from kraft_trio.storage.batches.record_limits import MAX_BATCH_HEADERS, MAX_READ_HEADERS, MAX_RECORDS
from kraft_trio.storage.checks.partition_check import check_partition
from kraft_trio.storage.disk.real_disk import RealDisk
from tests.storage.support import batch
from tests.support import bombs

MEBIBYTE = 1024 * 1024
LOG = "00000000000000000000.log"

BOMBS = {
    "headers": (bombs.many_headers(Compression.ZSTD, 2_000_000), f"at most {MAX_READ_HEADERS} allowed"),
    "claimed count": (bombs.claimed_count(Compression.GZIP), "cannot be in 7 bytes"),
    "window": (bombs.zstd_window(), "zstd records"),
    "frames": (bombs.bomb_frames(Compression.LZ4, 2, MEBIBYTE), "record"),
    "snappy claim": (bombs.snappy_claim(), "more than 67108864 bytes when decompressed"),
}


def log_with(directory: Path, bomb: bytes) -> Path:
    """The bomb at offset 0, claiming that one only, and an ordinary batch after it."""
    first = bytearray(bomb)
    patch_base_offset_and_epoch(first, 0, 0, 1)
    count = int.from_bytes(bomb[57:61], "big")
    path = directory / LOG
    path.write_bytes(bytes(first) + batch(b"after", base_offset=count, leader_epoch=1))
    return path


@pytest.mark.parametrize("name", BOMBS)
def test_dump_names_the_bomb_and_goes_on(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bomb, reason = BOMBS[name]
    path = log_with(tmp_path, bomb)
    tracemalloc.start()
    assert run(["dump-log", "--json", str(path)]) == 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    output = capsys.readouterr()
    first, second = map(json.loads, output.out.splitlines())
    assert reason in first["problem"]
    assert (first["records"], first["isvalid"]) == ([], True)
    assert [record["value"] for record in second["records"]] == ["after"]
    assert reason in output.err.replace("\n", " ")
    assert peak < 16 * MEBIBYTE


@pytest.mark.parametrize("name", BOMBS)
def test_verify_names_the_bomb(name: str, tmp_path: Path) -> None:
    bomb, _ = BOMBS[name]
    log_with(tmp_path, bomb)
    tracemalloc.start()
    report = check_partition(RealDisk(), str(tmp_path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert any(f"{LOG}: position 0: " in text for text in [*report.problems, *report.notes])
    assert peak < 16 * MEBIBYTE


def test_dump_bounds_records_and_headers_in_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for bomb, reason in (
        (bombs.repeated_record(Compression.ZSTD, MAX_RECORDS + 1), f"at most {MAX_RECORDS} allowed"),
        (
            bombs.headers_everywhere(Compression.ZSTD, 1000, MAX_BATCH_HEADERS // 1000 + 1),
            f"more than {MAX_BATCH_HEADERS} record headers",
        ),
    ):
        path = log_with(tmp_path, bomb)
        assert run(["dump-log", "--json", str(path)]) == 1
        assert reason in json.loads(capsys.readouterr().out.splitlines()[0])["problem"]
