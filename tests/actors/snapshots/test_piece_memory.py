"""Memory for pieces of snapshots is used again, and never while somebody holds what is in it."""

from __future__ import annotations

import pytest

from kraft_trio.actors.snapshots.snapshot_server import MAX_KEPT, PieceMemory
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.disk.disk import DiskFile

CONTENT = b"".join(b"%09d;" % number for number in range(100))


def a_file() -> tuple[SimulatedDisk, DiskFile]:
    disk = SimulatedDisk()
    file = disk.open("/a", create=True)
    file.append(CONTENT)
    return disk, file


def memory_of(piece: object) -> object:
    assert isinstance(piece, memoryview)
    return piece.obj


def test_what_nobody_holds_any_more_is_used_again() -> None:
    _, file = a_file()
    memory = PieceMemory(50)
    piece = memory.read(file, 0, 50)
    assert piece == CONTENT[:50]
    first = memory_of(piece)
    del piece
    for position in range(50, 1000, 50):
        piece = memory.read(file, position, 50)
        assert piece == CONTENT[position : position + 50]
        assert memory_of(piece) is first
        del piece


def test_what_somebody_holds_a_part_of_is_left_alone() -> None:
    _, file = a_file()
    memory = PieceMemory(50)
    held = [memoryview(memory.read(file, position, 50))[20:30] for position in range(0, 500, 50)]
    assert held == [CONTENT[position + 20 : position + 30] for position in range(0, 500, 50)]
    assert len({id(part.obj) for part in held}) == 10
    assert [type(part.obj) for part in held] == [bytearray] * MAX_KEPT + [bytes] * (10 - MAX_KEPT)
    third = held.pop(2).obj
    assert memory_of(memory.read(file, 0, 50)) is third


def test_pieces_of_other_sizes_have_memory_of_their_own() -> None:
    _, file = a_file()
    memory = PieceMemory(50)
    assert type(memory.read(file, 0, 1)) is bytes
    assert memory.read(file, 995, 5) == CONTENT[995:]
    assert memory.read(file, 980, 50) == CONTENT[980:], "the file ends before"


def test_a_read_that_fails_leaves_the_memory_to_the_next() -> None:
    disk, file = a_file()
    memory = PieceMemory(50)
    first = memory_of(memory.read(file, 0, 50))
    disk.fail("read_at")
    with pytest.raises(OSError, match="injected"):
        memory.read(file, 0, 50)
    piece = memory.read(file, 50, 50)
    assert piece == CONTENT[50:100]
    assert memory_of(piece) is first
