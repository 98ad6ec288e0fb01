"""The file `leader-epoch-checkpoint`: where each leader epoch begins.

Derived data: the batches say the same, and at open the log makes the file say what they say.  Kafka's tools read it.
"""

from __future__ import annotations

from collections.abc import Iterable

from kraft_trio.errors import StorageError


def encode_leader_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """`entries` are (epoch, start offset), oldest first."""
    lines = [f"{epoch} {start_offset}" for epoch, start_offset in entries]
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()


def decode_leader_epochs(path: str, data: bytes) -> list[tuple[int, int]]:
    """The (epoch, start offset) pairs.  Raises StorageError, naming file and line, for anything else."""
    lines = data.decode("utf-8", "replace").splitlines()
    if not lines or lines[0] != "0":
        raise StorageError(f"{path}: line 1: version {lines[0] if lines else ''!r}, expected 0")
    entries = []
    for number, line in enumerate(lines[2:], start=3):
        fields = line.split()
        if len(fields) != 2 or not all(field.isdigit() for field in fields):
            raise StorageError(f"{path}: line {number}: {line!r}, expected an epoch and a start offset")
        entries.append((int(fields[0]), int(fields[1])))
    if len(lines) < 2 or lines[1] != str(len(entries)):
        raise StorageError(f"{path}: line 2: {lines[1] if len(lines) > 1 else ''!r}, expected {len(entries)} entries")
    return entries
