"""Each segment continues the one before it, or a row says that it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraft_trio.errors import StorageError
from kraft_trio.storage.batches.batch_header import HEADER_BYTES, MAGIC_POSITION
from tests.spark.directories import PARTITION, make_node, numbered
from tests.spark.loading import column, errors, load, sound

CONTENTS = pytest.mark.parametrize("content", ["records", "batches", "control"])
BATCH = len(numbered(0, 10))


def told(rows: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    return [(row["segment"], row["position"], row["error"]) for row in errors(rows)]


def hole(end: int, start: int) -> str:
    return f"the segment ends before offset {end}, the next one begins with offset {start}"


def fall(end: int, start: int) -> str:
    return f"the segment ends in epoch {end}, the next one begins in epoch {start}"


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@CONTENTS
def test_the_last_batch_of_a_segment_is_missing(tmp_path: Path, content: str) -> None:
    path = make_node(tmp_path, 1, (0, numbered(0, 10)), (20, numbered(20, 30)), (30, numbered(30, 40)))
    rows = load(path, content=content)
    assert told(rows) == [(0, BATCH, hole(10, 20))]
    if content == "records":
        assert column(sound(rows), "offset") == [*range(10), *range(20, 40)]
    with pytest.raises(StorageError, match=rf"{0:020d}\.log: position {BATCH}: {hole(10, 20)}"):
        load(path, content=content, mode="FAILFAST")


def test_the_row_has_no_size(tmp_path: Path) -> None:
    """So that nobody takes it for a part of the file."""
    path = make_node(tmp_path, 1, (0, numbered(0, 10)), (20, numbered(20, 30)))
    [row] = errors(load(path, content="batches"))
    assert (row["base_offset"], row["last_offset"], row["crc_ok"], row["size"]) == (None, None, None, 0)


def test_a_segment_is_empty(tmp_path: Path) -> None:
    path = make_node(tmp_path, 1, (0, numbered(0, 10)), (10, b""), (20, numbered(20, 30)))
    assert told(load(path)) == [(10, 0, hole(10, 20))]


def test_segments_that_overlap(tmp_path: Path) -> None:
    path = make_node(tmp_path, 1, (0, numbered(0, 20)), (10, numbered(10, 30)))
    assert told(load(path)) == [(0, 2 * len(numbered(10, 20)) - 10, hole(20, 10))]


@CONTENTS
def test_an_epoch_falls_from_one_segment_to_the_next(tmp_path: Path, content: str) -> None:
    path = make_node(tmp_path, 1, (0, numbered(0, 10, epoch=5)), (10, numbered(10, 20, epoch=4)))
    assert told(load(path, content=content)) == [(0, BATCH, fall(5, 4))]


def test_both_at_once(tmp_path: Path) -> None:
    path = make_node(tmp_path, 1, (0, numbered(0, 10, epoch=5)), (11, numbered(11, 20, epoch=4)))
    assert told(load(path)) == [(0, BATCH, f"{hole(10, 11)}; {fall(5, 4)}")]


def test_a_segment_that_is_read_in_parts(tmp_path: Path) -> None:
    data = numbered(0, 5000, epoch=3)
    path = make_node(tmp_path, 1, (0, data), (5001, numbered(5001, 5010, epoch=2)))
    rows = load(path, maxPartitionBytes="20000")
    assert told(rows) == [(0, len(data), f"{hole(5000, 5001)}; {fall(3, 2)}")]
    assert rows == load(path)


def test_a_url(tmp_path: Path) -> None:
    make_node(tmp_path, 1, (0, numbered(0, 10, epoch=5)), (11, numbered(11, 20, epoch=4)))
    assert told(load(f"file://{tmp_path}/node1")) == [(0, BATCH, f"{hole(10, 11)}; {fall(5, 4)}")]


@pytest.mark.parametrize(
    ("options", "is_told"),
    [
        ({"startingOffsets": "10"}, False),
        ({"startingOffsets": "5"}, True),
        ({"endingOffsets": "10"}, True),
        ({"epochs": "7"}, True),
    ],
)
def test_what_is_told_of_a_part_of_a_log(tmp_path: Path, options: dict[str, str], is_told: bool) -> None:
    """What is missing behind a segment that is read, as in the whole; nothing of segments that are left out."""
    path = make_node(tmp_path, 1, (0, numbered(0, 9)), (10, numbered(10, 20)), (20, numbered(20, 30)))
    assert column(errors(load(path, None, **options)), "error") == ([hole(9, 10)] if is_told else [])


@pytest.mark.parametrize(
    "options",
    [{}, {"startingOffsets": "15"}, {"endingOffsets": "15"}, {"startingOffsets": "25"}, {"epochs": "2"}],
)
def test_a_sound_log_has_nothing(tmp_path: Path, options: dict[str, str]) -> None:
    """Trimmed at its beginning, and with an empty segment that has yet to be written to."""
    segments = [(10, numbered(10, 20)), (20, numbered(20, 30, epoch=2)), (30, numbered(30, 40, epoch=2)), (40, b"")]
    path = make_node(tmp_path, 1, *segments)
    for content in ("records", "batches", "control"):
        assert errors(load(path, None, content=content, **options)) == []


def test_segments_that_overlap_where_the_end_is_damaged(tmp_path: Path) -> None:
    """How far the first one goes is not known; it goes too far in any case."""
    path = make_node(tmp_path, 1, (0, numbered(0, 20) + b"torn"), (10, numbered(10, 30)))
    torn, overlap = errors(load(path))
    assert (torn["size"], overlap["error"]) == (4, hole(20, 10))


class TestDamageIsToldOnce:
    def test_a_torn_end(self, tmp_path: Path) -> None:
        path = make_node(tmp_path, 1, (0, numbered(0, 20)[:-5]), (20, numbered(20, 30)))
        assert [position for _, position, _ in told(load(path))] == [BATCH]

    def test_the_last_batch_is_damaged(self, tmp_path: Path) -> None:
        path = make_node(tmp_path, 1, (0, flipped(numbered(0, 10), HEADER_BYTES + 3)), (10, numbered(10, 20)))
        assert [position for _, position, _ in told(load(path))] == [0]

    @pytest.mark.parametrize("at", [7, MAGIC_POSITION, HEADER_BYTES + 3])
    def test_the_next_segment_begins_with_damage(self, tmp_path: Path, at: int) -> None:
        path = make_node(tmp_path, 1, (0, numbered(0, 10, epoch=2)), (10, flipped(numbered(10, 30, epoch=2), at)))
        assert {(segment, position) for segment, position, _ in told(load(path))} == {(10, 0)}

    @pytest.mark.parametrize(
        "following",
        [
            flipped(numbered(10, 30), MAGIC_POSITION),
            numbered(12, 30),
            numbered(10, 20, epoch=-1) + numbered(20, 30, epoch=2),
        ],
    )
    def test_the_epoch_of_a_header_that_is_damaged_is_none(self, tmp_path: Path, following: bytes) -> None:
        path = make_node(tmp_path, 1, (0, numbered(0, 10, epoch=2)), (10, following))
        assert {(segment, position) for segment, position, _ in told(load(path))} == {(10, 0)}

    def test_the_next_segments_first_header_is_garbage(self, tmp_path: Path) -> None:
        """Its bytes at the epoch's place are no epoch."""
        path = make_node(tmp_path, 1, (0, numbered(0, 10, epoch=2)), (10, bytes(99) + b"x"))
        assert [segment for segment, _, _ in told(load(path))] == [10]

    def test_a_batch_has_a_wrong_base_offset(self, tmp_path: Path) -> None:
        last = numbered(30, 40)
        path = make_node(tmp_path, 1, (0, numbered(0, 10) + last), (20, numbered(20, 30)))
        assert {text for _, _, text in told(load(path))} == {"base offset 30, expected 10"}

    def test_a_batch_is_missing_within_the_segment(self, tmp_path: Path) -> None:
        path = make_node(tmp_path, 1, (0, numbered(0, 10) + numbered(20, 30)), (30, numbered(30, 40)))
        assert {text for _, _, text in told(load(path))} == {"base offset 20, expected 10"}

    def test_an_epoch_that_is_wrong_in_the_middle(self, tmp_path: Path) -> None:
        data = numbered(0, 10, epoch=9) + numbered(10, 20, epoch=1)
        path = make_node(tmp_path, 1, (0, data), (20, numbered(20, 30)))
        assert {text for _, _, text in told(load(path))} == {
            "leader epoch 9 before epoch 1",
            "leader epoch 1 after epoch 9",
        }

    def test_a_next_segment_that_is_gone(self, tmp_path: Path) -> None:
        path = make_node(tmp_path, 1, (0, numbered(0, 9)))
        (path / PARTITION / f"{10:020d}.log").symlink_to("nowhere")
        [error] = errors(load(path))
        assert "cannot be read: No such file" in error["error"]

    def test_a_next_segment_that_cannot_be_read(self, tmp_path: Path) -> None:
        """Its name says where it begins."""
        path = make_node(tmp_path, 1, (0, numbered(0, 10)))
        (path / PARTITION / f"{10:020d}.log").mkdir()
        [error] = errors(load(path))
        assert "cannot be read: Is a directory" in error["error"]
        make_node(tmp_path, 2, (0, numbered(0, 9)))
        (tmp_path / "node2" / PARTITION / f"{10:020d}.log").mkdir()
        assert hole(9, 10) in column(errors(load(tmp_path / "node2")), "error")
