"""The file `leader-epoch-checkpoint`: where each leader epoch begins.

Derived data: the batches say the same, and at open the log makes the file say what they say.  Kafka's tools read it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from kraft_trio.errors import StorageError
from kraft_trio.logs import get_logger
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.disk.partition_files import LEADER_EPOCH_CHECKPOINT
from kraft_trio.storage.disk.unreadable import shown

log = get_logger(__name__)

_NUMBER = re.compile(rb"[0-9]{1,19}")
"""Python makes no number of very many digits."""
_LARGEST_EPOCH = 2**31 - 1
_LARGEST_OFFSET = 2**63 - 1


def encode_leader_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """`entries` are (epoch, start offset), oldest first."""
    lines = [f"{epoch} {start_offset}" for epoch, start_offset in entries]
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()


def write_leader_epochs(
    disk: Disk,
    directory: str,
    entries: Iterable[tuple[int, int]],
    may_skip: Callable[[OSError], bool] = lambda _: False,
) -> None:
    """Replace the file, without an fsync.  Logs and ignores errors that `may_skip` accepts; raises other OSErrors."""
    try:
        disk.replace_now(join(directory, LEADER_EPOCH_CHECKPOINT), encode_leader_epochs(entries), durable=False)
    except OSError as error:
        if not may_skip(error):
            raise
        log.warning("leader epochs not written", directory=directory, reason=str(error))


def decode_leader_epochs(path: str, data: bytes) -> list[tuple[int, int]]:
    """The (epoch, start offset) pairs: epochs rise, and start offsets never fall, in Kafka's files as well.

    Raises StorageError, naming file and line, for anything else.
    """
    lines = data.splitlines()
    if not lines or lines[0] != b"0":
        raise StorageError(f"{path}: line 1: version {shown(lines[0] if lines else b'')}, expected 0")
    entries: list[tuple[int, int]] = []
    epoch = start_offset = -1
    for number, line in enumerate(lines[2:], start=3):
        fields = line.split()
        if len(fields) != 2 or not all(_NUMBER.fullmatch(field) for field in fields):
            raise StorageError(f"{path}: line {number}: {shown(line)}, expected an epoch and a start offset")
        before, start_before = epoch, start_offset
        epoch, start_offset = int(fields[0]), int(fields[1])
        if not before < epoch <= _LARGEST_EPOCH:
            raise StorageError(
                f"{path}: line {number}: epoch {epoch}, expected one from {before + 1} to {_LARGEST_EPOCH}"
            )
        if not start_before <= start_offset <= _LARGEST_OFFSET:
            raise StorageError(
                f"{path}: line {number}: start offset {start_offset}, expected one from {max(start_before, 0)} to "
                f"{_LARGEST_OFFSET}"
            )
        entries.append((epoch, start_offset))
    if len(lines) < 2 or lines[1] != b"%d" % len(entries):
        raise StorageError(
            f"{path}: line 2: {shown(lines[1] if len(lines) > 1 else b'')}, expected {len(entries)} entries"
        )
    return entries
