"""Scans one part of a file: the batches from one boundary to another."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import attrs

from kraft_trio.errors import ProtocolError, StorageError
from kraft_trio.spark.decoding.boundary import LARGEST_BATCH_BYTES, boundary_at
from kraft_trio.spark.decoding.byte_source import ByteSource
from kraft_trio.spark.decoding.damage import Damage, crc_at
from kraft_trio.spark.decoding.expectation import Expectation
from kraft_trio.spark.decoding.scan import Run, scan
from kraft_trio.storage.batches.batch_header import HEADER_BYTES, peek_header


@attrs.frozen
class Part:
    """The batches of a file that begin from `start` to `end`."""

    start: int
    """Inclusive; any position."""
    end: int
    """Exclusive; any position."""
    file_size: int
    """Size for which the file was divided.  If the file has grown, its last part extends to the end."""
    of_file: Expectation
    """Expectation for the file's first batch."""
    may_be_preallocated: bool = False
    """Whether zeros up to the file's end, as many as a node preallocates, are no damage."""


@attrs.frozen
class FileEnd:
    """The end of a file, or of what is written in it, which its last part reaches."""

    position: int
    expectation: Expectation
    """Expectation for what follows it."""


def scan_part(
    source: ByteSource, part: Part, largest_batch_bytes: int = LARGEST_BATCH_BYTES
) -> Iterator[Run | Damage | FileEnd]:
    """Yield the batches and the damage of a part, and after the last part the file's end.

    All parts together yield what a scan of the whole file does.  Raises OSError; StorageError if a sound batch crosses
    a boundary, because it is larger than `largest_batch_bytes`.
    """
    listed = _Listed(source, min(part.file_size, source.size))
    may_be_preallocated = part.may_be_preallocated
    find = partial(boundary_at, listed, may_be_preallocated=may_be_preallocated)
    start = find(part.start, part.of_file, largest_batch_bytes)
    stop = listed.size
    if part.end < listed.size:
        stop = find(part.end, part.of_file, largest_batch_bytes).position
    if start.position == listed.size and part.start > 0:
        # The last batch begins in an earlier part.
        return
    is_last = stop == listed.size
    end = source.size if is_last else stop
    expectation = start.expectation
    size = source.size
    for found in scan(source, start.position, size, expectation, stop=end, may_be_preallocated=may_be_preallocated):
        if may_be_preallocated and isinstance(found, Damage) and _is_end(source, found):
            end = found.position
            break
        expectation = found.expectation
        yield _up_to(end, found, source.path)
    if is_last:
        yield FileEnd(end, expectation)


def _is_end(source: ByteSource, damage: Damage) -> bool:
    """Whether it is what is preallocated, or a batch that a running node writes beyond the former end meanwhile."""
    if damage.is_preallocated:
        return True
    if damage.position + damage.size != source.size or not source.read_at(source.size, 1):
        return False
    try:
        header = peek_header(source.read_at(damage.position, HEADER_BYTES))
    except ProtocolError:
        return False
    size = header.size_in_bytes
    if size <= damage.size:
        return False
    is_written = bool(source.read_at(damage.position + size - 1, 1))
    return not is_written or crc_at(source, damage.position, size) == header.crc


@attrs.frozen
class _Listed:
    """The bytes of a file that were there when it was divided."""

    _source: ByteSource
    size: int

    @property
    def path(self) -> str:
        return self._source.path

    def read_at(self, position: int, size: int) -> bytes:
        return self._source.read_at(position, max(0, min(size, self.size - position)))


def _up_to(end: int, found: Run | Damage, path: str) -> Run | Damage:
    """Damage ends at the boundary at the latest.  Raises StorageError for a sound batch that does not."""
    if isinstance(found, Damage):
        return attrs.evolve(found, size=min(found.size, end - found.position))
    if found.end > end and found.crcs[-1] == found.headers["crc"][-1]:
        size = int(found.sizes[-1])
        raise StorageError(
            f"{path}: position {found.end - size}: a batch of {size} bytes crosses position {end}, where the file was "
            f"divided; expected batches of up to {LARGEST_BATCH_BYTES} bytes, or an option maxPartitionBytes larger "
            "than the file"
        )
    return found
