"""A file is divided at any position: each batch belongs to one part, whatever the values look like."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Sequence
from unittest import mock

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_trio.errors import StorageError
from kraft_trio.spark.decoding import scan as scan_module
from kraft_trio.spark.decoding.boundary import Boundary, boundary_at
from kraft_trio.spark.decoding.byte_source import FileSource, MemorySource
from kraft_trio.spark.decoding.damage import Damage
from kraft_trio.spark.decoding.expectation import Expectation
from kraft_trio.spark.decoding.part import FileEnd, Part, scan_part
from kraft_trio.spark.decoding.scan import Run, scan
from kraft_trio.storage.batches.batch import NewRecord, encode_batch, iter_headers, patch_base_offset_and_epoch
from kraft_trio.storage.batches.batch_header import HEADER_BYTES, MAGIC_POSITION, patch_crc
from kraft_trio.storage.segments.preallocation import MAX_PREALLOCATE_BYTES
from tests.spark.logs import logs
from tests.support import sizes

FIRST = Expectation(0)


@attrs.define
class Counted:
    """Counts what is read."""

    path: str
    data: bytes
    bytes_read: int = 0

    @property
    def size(self) -> int:
        return len(self.data)

    def read_at(self, position: int, size: int) -> bytes:
        found = self.data[position : position + size]
        self.bytes_read += len(found)
        return found


def batch(offset: int, values: Sequence[bytes], epoch: int = 1) -> bytes:
    made = bytearray(encode_batch([NewRecord(value) for value in values], timestamp_ms=5))
    patch_base_offset_and_epoch(made, 0, offset, epoch)
    return bytes(made)


def starts(data: bytes) -> list[int]:
    return [position for position, _ in iter_headers(data)]


def expected(data: bytes, position: int) -> Boundary:
    """By all headers from the file's start."""
    boundary = Boundary(0, FIRST)
    for at, header in iter_headers(data):
        if boundary.position >= position:
            break
        following = attrs.evolve(FIRST, base_offset=header.next_offset, epoch=header.leader_epoch)
        boundary = Boundary(at + header.size_in_bytes, following)
    return boundary


def read(data: bytes, cuts: Sequence[int], largest: int) -> list[tuple[int, int, str | None]]:
    """Position, size and damage of everything in all parts."""
    source = MemorySource("f", data)
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        found += _told(scan_part(source, Part(start, end, len(data), FIRST), largest))
    return found


def whole(data: bytes) -> list[tuple[int, int, str | None]]:
    return _told(scan(MemorySource("f", data), 0, len(data), FIRST))


def _told(found: Iterator[Run | Damage | FileEnd]) -> list[tuple[int, int, str | None]]:
    told: list[tuple[int, int, str | None]] = []
    for one in found:
        if isinstance(one, Damage):
            told.append((one.position, one.size, one.error))
        elif isinstance(one, Run):
            places = (one.positions + one.buffer_position).tolist()
            errors = [one.damaged.get(at) or one.misplaced.get(at) for at in range(len(one))]
            told += zip(places, one.sizes.tolist(), errors, strict=True)
    return told


@st.composite
def deceptive(draw: st.DrawFn) -> bytes:
    """A log whose values are parts of logs too, with the offsets and epochs that the log itself continues with."""
    made = []
    offset = 0
    for _ in range(draw(st.integers(2, 8))):
        values = []
        for _ in range(draw(st.integers(1, 3))):
            at = offset + draw(st.integers(0, 4))
            inner = []
            for _ in range(draw(st.integers(0, 4))):
                inner.append(batch(at, [b"x" * draw(st.integers(0, 90))], draw(st.integers(1, 2))))
                at += 1
            cut = draw(st.integers(0, 80))
            values.append(b"".join(inner)[draw(st.sampled_from([0, 0, 0, cut])) :])
        made.append(batch(offset, values))
        offset += len(values)
    return b"".join(made)


@settings(max_examples=sizes.examples(150))
@given(st.one_of(deceptive(), logs(2).map(b"".join)))
def test_values_that_look_like_batches_move_no_boundary(data: bytes) -> None:
    headers = [header for _, header in iter_headers(data)]
    first = attrs.evolve(FIRST, base_offset=headers[0].base_offset)
    largest = max(header.size_in_bytes for header in headers)
    source = MemorySource("f", data)
    for position in range(1, len(data) + 1, 7):
        found = boundary_at(source, position, first, largest)
        assert found == expected(data, position), position


@settings(max_examples=sizes.examples(100))
@given(deceptive(), st.data())
def test_parts_are_the_whole(data: bytes, draw: st.DataObject) -> None:
    largest = max(header.size_in_bytes for _, header in iter_headers(data))
    cuts = sorted(draw.draw(st.sets(st.integers(1, len(data) - 1), max_size=8)))
    assert read(data, cuts, largest) == whole(data)


@settings(max_examples=sizes.examples(150))
@given(logs(3), st.data())
def test_parts_cover_a_damaged_file_once(log: list[bytes], draw: st.DataObject) -> None:
    data = bytearray(b"".join(log))
    for _ in range(draw.draw(st.integers(1, 3))):
        data[draw.draw(st.integers(0, len(data) - 1))] ^= draw.draw(st.sampled_from([1, 0x80, 0xFF]))
    largest = max(map(len, log))
    cuts = sorted(draw.draw(st.sets(st.integers(1, len(data) - 1), max_size=6)))
    end = 0
    for position, size, _ in read(bytes(data), cuts, largest):
        assert position == end
        end += size
    assert end == len(data)


def test_damage_after_a_damaged_base_offset_ends_at_the_next_batch() -> None:
    """The offset that the damaged one leads to is above those of all later batches."""
    log = [batch(0, [b"a"] * 7), batch(7, [b"b"]), batch(8, [b"c"]), batch(9, [b"d"])]
    data = bytearray(b"".join(log))
    data[0] ^= 1
    data[len(log[0]) + 23] ^= 1  # the second one's last offset delta
    places = [sum(map(len, log[:at])) for at in range(4)]
    assert [position for position, _, _ in whole(bytes(data))] == places
    for first in range(1, places[2]):
        found = read(bytes(data), [first, places[2] + 1], max(map(len, log)))
        assert [position for position, _, _ in found] == places


def test_no_boundary_is_inside_what_a_scan_finds_damaged() -> None:
    """The batches continue each other, but none has a correct CRC, so a scan from the start finds none of them."""
    log = [batch(0, [b"a"]), batch(1, [b"b" * 40] * 2), batch(3, [b"c" * 50] * 2)]
    data = bytearray(b"".join(log))
    data[24] ^= 0xFF  # the first one's last offset delta
    data[len(log[0]) + 80] ^= 1
    data[len(log[0]) + len(log[1]) + 80] ^= 1
    for first in range(1, len(data) - 1, 5):
        for second in range(first + 1, len(data), 5):
            end = 0
            for position, size, _ in read(bytes(data), [first, second], max(map(len, log))):
                assert position == end, (first, second)
                end += size
            assert end == len(data), (first, second)


class TestDeception:
    """Each value is made to mislead one who only looks for what could be a batch."""

    def test_a_chain_that_joins_the_log(self) -> None:
        """The inner batches end where the outer one does, and the log's next offset continues them."""
        inner = batch(1, [b"a" * 500]) + batch(2, [b"b"] * 3)
        outer = bytearray(batch(0, [inner]))
        # The inner batch takes the count of the outer record's headers for its own last byte.
        outer[-len(batch(2, [b"b"] * 3)) - 1 + 8 : -len(batch(2, [b"b"] * 3)) - 1 + 12] = (
            len(batch(2, [b"b"] * 3)) + 1 - 12
        ).to_bytes(4, "big")
        patch_crc(outer)
        data = bytes(outer) + batch(1, [b"c"] * 4) + batch(5, [b"d"])
        assert starts(data) == [0, len(outer), len(data) - len(batch(5, [b"d"]))]
        for position in range(1, len(data)):
            assert boundary_at(MemorySource("f", data), position, FIRST, len(outer)) == expected(data, position)

    def test_a_chain_from_one_value_into_the_next(self) -> None:
        """A length in a value leads into the middle of a later batch, to a batch in its value."""
        inner = bytearray(batch(0, [b"v"]))
        last = batch(1, [b"w" * 40]) + batch(2, [b"x"])
        first = batch(0, [bytes(inner) + b"y" * 30])
        at = first.index(bytes(inner[16:]))
        second = batch(1, [last])
        target = len(first) + second.index(last)
        inner[8:12] = (target - (at - 16) - 12).to_bytes(4, "big")
        data = batch(0, [bytes(inner) + b"y" * 30]) + second + batch(2, [b"z"])
        largest = max(header.size_in_bytes for _, header in iter_headers(data))
        assert boundary_at(MemorySource("f", data), len(first) + 5, FIRST, largest).position == len(first) + len(second)
        for cut in range(1, len(data)):
            assert read(data, [cut], largest) == whole(data), cut

    def test_a_batch_larger_than_the_limit_fails_the_query(self) -> None:
        """Nothing outside the window tells that the inner batches are not the log's; nothing wrong is read."""
        inner = b"".join(batch(at, [b"a" * 50]) for at in range(100))
        data = batch(0, [inner]) + batch(1, [b"b"])
        [(_, header), _] = iter_headers(data)
        assert read(data, [5000], header.size_in_bytes) == whole(data)
        with pytest.raises(StorageError, match=rf"f: position 0: a batch of {header.size_in_bytes} bytes crosses"):
            read(data, [5000], 1000)

    def test_a_large_batch_without_deception_is_read(self) -> None:
        data = batch(0, [b"a"]) + batch(1, [bytes(9000)]) + b"".join(batch(at, [b"b" * 50]) for at in range(2, 90))
        assert read(data, [3000, 5000, 12000], 1000) == whole(data)


def test_a_boundary_costs_a_window_and_not_the_file() -> None:
    data = b"".join(batch(at, [b"v" * (at % 90)]) for at in range(3000))
    source = Counted("f", data)
    largest = 2000
    found = boundary_at(source, len(data) - 5000, FIRST, largest)
    assert found == expected(data, len(data) - 5000)
    assert source.bytes_read <= largest + 2 * HEADER_BYTES


def test_a_file_that_has_grown_since_it_was_divided() -> None:
    """The last part continues; the others end where they did."""
    log = [batch(at, [b"v" * 60]) for at in range(40)]
    before, data = b"".join(log[:30]), b"".join(log)
    cut = len(before) // 2
    source = MemorySource("f", data)
    found: list[tuple[int, int, str | None]] = []
    ends = []
    for start, end in ((0, cut), (cut, len(before))):
        part = [*scan_part(source, Part(start, end, len(before), FIRST), 300)]
        ends += [one for one in part if isinstance(one, FileEnd)]
        found += _told(iter(part))
    assert found == whole(data)
    assert ends == [FileEnd(len(data), attrs.evolve(FIRST, base_offset=40, epoch=1))]


@settings(max_examples=sizes.examples(50))
@given(logs(), st.integers(1, 3000), st.integers(1, 2000))
def test_preallocated_zeros_are_the_end_however_the_file_is_divided(log: list[bytes], zeros: int, part: int) -> None:
    data = b"".join(log)
    source = MemorySource("f", data + bytes(zeros))
    parts = [
        Part(start, min(start + part, source.size), source.size, FIRST, may_be_preallocated=True)
        for start in range(0, source.size, part)
    ]
    found = [one for some in parts for one in scan_part(source, some)]
    assert _told(iter(found)) == whole(data)
    [end] = [one for one in found if isinstance(one, FileEnd)]
    assert end.position == len(data)


def test_zeros_before_other_bytes_or_in_a_segment_that_is_not_the_last_are_damage() -> None:
    data = batch(0, [b"a"])
    too_many = bytes(MAX_PREALLOCATE_BYTES + 1)
    for content, may_be_preallocated in (
        (data + bytes(600), False),
        (data + bytes(600) + b"x", True),
        (data + too_many, True),
    ):
        part = Part(0, len(content), len(content), FIRST, may_be_preallocated)
        [damage] = [one for one in scan_part(MemorySource("f", content), part) if isinstance(one, Damage)]
        assert (damage.position, damage.size) == (len(data), len(content) - len(data))


@attrs.define
class Growing:
    """A preallocated file, into which a running node writes before each read: up to the positions in `ends`."""

    data: bytes
    size: int
    ends: Iterator[int]
    path: str = "f"
    written: int = 0

    def read_at(self, position: int, size: int) -> bytes:
        self.written = next(self.ends, self.written)
        content = self.data[: self.written] + bytes(self.size - self.written)
        return content[position : position + size]


@settings(max_examples=sizes.examples(200))
@given(st.lists(st.integers(0, 2), max_size=30), st.integers(1, 1000))
def test_what_a_running_node_writes_meanwhile_is_no_damage(steps: list[int], chunk_bytes: int) -> None:
    ends = [*itertools.accumulate(len(batch(at, [b"v" * 60])) for at in range(40))]
    data = b"".join(batch(at, [b"v" * 60]) for at in range(40))
    counts = itertools.accumulate(steps)
    source = Growing(data, len(data) + 700, (ends[min(39, count)] for count in counts))
    with mock.patch.object(scan_module, "FIRST_CHUNK_BYTES", chunk_bytes):
        found = [*scan_part(source, Part(0, source.size, source.size, FIRST, may_be_preallocated=True))]
    end = found[-1]
    assert isinstance(end, FileEnd)
    assert end.position in (0, *ends)
    assert _told(iter(found)) == whole(data[: end.position])


def test_a_batch_of_which_a_read_finds_a_part_is_read_again() -> None:
    data = batch(0, [b"a"]) + batch(1, [b"b" * 100])
    source = Growing(data, 5000, iter([len(data) - 50] * 8 + [len(data)]))
    found = [*scan_part(source, Part(0, source.size, source.size, FIRST, may_be_preallocated=True))]
    assert _told(iter(found)) == whole(data)


def test_a_batch_that_reaches_beyond_the_former_end_is_left_to_the_next_query() -> None:
    """The file ended in zeros when it was opened."""
    data = batch(0, [b"a"]) + batch(1, [b"b" * 100])
    size = len(data) - 50
    part = Part(0, size, size, FIRST, may_be_preallocated=True)
    found = [*scan_part(FileSource("f", size, io.BytesIO(data)), part)]
    assert _told(iter(found)) == whole(batch(0, [b"a"]))
    [damage] = [one for one in scan_part(MemorySource("f", data[:size]), part) if isinstance(one, Damage)]
    assert damage.position == len(batch(0, [b"a"])), "it is torn if nothing is behind it"


@pytest.mark.parametrize("at", [MAGIC_POSITION, 9, HEADER_BYTES + 20])
def test_damage_up_to_the_former_end_of_a_file_that_grows_is_told(at: int) -> None:
    """The length at 9 becomes longer than the file is by now."""
    first, second = batch(0, [b"a"]), bytearray(batch(1, [b"b" * 100]))
    second[at] ^= 1
    data = first + bytes(second)
    part = Part(0, len(data), len(data), FIRST, may_be_preallocated=True)
    grown = data + batch(2, [b"c"]) + bytes(70_000)
    found = [*scan_part(FileSource("f", len(data), io.BytesIO(grown)), part)]
    assert [place for place, _, error in _told(iter(found)) if error] == [len(first)]


@settings(max_examples=sizes.examples(60))
@given(logs(3), st.data(), st.integers(1, 3000))
def test_zeros_behind_a_damaged_file_change_no_part(log: list[bytes], draw: st.DataObject, zeros: int) -> None:
    """Wherever the file is divided; but a damaged end may include zeros."""
    data = bytearray(b"".join(log))
    data[draw.draw(st.integers(0, len(data) - 1))] ^= draw.draw(st.sampled_from([1, 0x80, 0xFF]))
    content = bytes(data) + bytes(zeros)
    cuts = sorted(draw.draw(st.sets(st.integers(1, len(data) - 1), max_size=4)))
    found: list[tuple[int, int, str | None]] = []
    for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True):
        part = Part(start, end, len(content), FIRST, may_be_preallocated=True)
        found += _told(scan_part(MemorySource("f", content), part, max(map(len, log))))
    without = whole(bytes(data))
    assert [(at, error is None) for at, _, error in found] == [(at, error is None) for at, _, error in without]
    assert [size for _, size, _ in found][:-1] == [size for _, size, _ in without][:-1]


def test_a_file_that_is_cut_meanwhile_ends_there() -> None:
    """Its node has stopped, and cut the zeros."""
    data = batch(0, [b"a"])
    found = [*scan_part(FileSource("f", 5000, io.BytesIO(data)), Part(0, 5000, 5000, FIRST, may_be_preallocated=True))]
    assert _told(iter(found)) == whole(data)
    assert found[-1] == FileEnd(len(data), attrs.evolve(FIRST, base_offset=1, epoch=1))


def test_one_part_reaches_the_end_where_the_last_batch_is_larger_than_parts() -> None:
    data = batch(0, [b"a"]) + batch(1, [bytes(5000)])
    source = MemorySource("f", data)
    parts = [Part(start, min(start + 500, len(data)), len(data), FIRST) for start in range(0, len(data), 500)]
    found = [[*scan_part(source, part)] for part in parts]
    assert [one for part in found for one in part if isinstance(one, FileEnd)] == [found[0][-1]]
    assert [one for part in found[1:] for one in part] == []
