"""Scans one part of a file: the batches from one boundary to another."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from kraft_trio.errors import StorageError
from kraft_trio.spark.decoding.boundary import LARGEST_BATCH_BYTES, boundary_at
from kraft_trio.spark.decoding.byte_source import ByteSource
from kraft_trio.spark.decoding.damage import Damage
from kraft_trio.spark.decoding.expectation import Expectation
from kraft_trio.spark.decoding.scan import Run, scan


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
    """Whether zeros up to the file's end are no damage."""


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
    start = boundary_at(listed, part.start, part.of_file, largest_batch_bytes)
    stop = listed.size
    if part.end < listed.size:
        stop = boundary_at(listed, part.end, part.of_file, largest_batch_bytes).position
    if start.position == listed.size and part.start > 0:
        # The last batch begins in an earlier part.
        return
    is_last = stop == listed.size
    end = source.size if is_last else stop
    expectation = start.expectation
    for found in scan(source, start.position, source.size, expectation, stop=end):
        if part.may_be_preallocated and isinstance(found, Damage) and _is_end(source, found):
            end = found.position
            break
        expectation = found.expectation
        yield _up_to(end, found, source.path)
    if is_last:
        yield FileEnd(end, expectation)


def _is_end(source: ByteSource, damage: Damage) -> bool:
    """Whether it is what is preallocated, or a batch that a running node has written beyond the end meanwhile.

    A node that runs has cut a torn tail before it wrote anything.
    """
    reaches_end = damage.position + damage.size == source.size
    return damage.is_only_zeros or (reaches_end and bool(source.read_at(source.size, 1)))


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
