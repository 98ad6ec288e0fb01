"""What of snapshots is in a node's directory, whether it runs or not, and what is in the snapshots."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import attrs

from harness.node import NodeProcess
from kraft_trio.cli import run as run_command_line
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batches.batch import decode_records
from kraft_trio.storage.disk.partition_files import CHECKPOINT, LOG, checkpoint_ids, checkpoint_name, offsets_of
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.snapshots.snapshot_reader import ControlState, open_snapshot, read_control_state

PART = f"{CHECKPOINT}.part"
DELETED = ".deleted"


@attrs.frozen
class SavedState:
    """The application's records in a snapshot."""

    values: dict[bytes, bytes]

    @property
    def hash(self) -> str:
        """The same for the same keys and values."""
        digest = hashlib.sha256()
        for key, value in sorted(self.values.items()):
            digest.update(len(key).to_bytes(4, "big") + key + len(value).to_bytes(4, "big") + value)
        return digest.hexdigest()


def names_in(node: NodeProcess) -> list[str]:
    return sorted(path.name for path in node.partition_directory.iterdir())


def size_of(node: NodeProcess, name: str) -> int:
    """In bytes; -1 where it has another name meanwhile."""
    try:
        return (node.partition_directory / name).stat().st_size
    except FileNotFoundError:
        return -1


def snapshots_of(node: NodeProcess) -> list[OffsetAndEpoch]:
    """Oldest first, the bootstrap one left out."""
    return [snapshot_id for snapshot_id in checkpoint_ids(names_in(node)) if snapshot_id.offset > 0]


def snapshot_path(node: NodeProcess, snapshot_id: OffsetAndEpoch) -> Path:
    return node.partition_directory / checkpoint_name(snapshot_id)


def log_start_of(node: NodeProcess) -> int:
    """The offset of the first segment."""
    return offsets_of(names_in(node), LOG)[0]


def saved_state(node: NodeProcess, snapshot_id: OffsetAndEpoch) -> SavedState:
    """Raises CorruptSnapshotError, OSError."""
    values: dict[bytes, bytes] = {}
    for batch in open_snapshot(RealDisk(), str(snapshot_path(node, snapshot_id)), snapshot_id):
        if not batch.header.is_control:
            for record in decode_records(batch.data, 0, batch.header):
                assert record.key is not None
                assert record.key not in values, f"{record.key!r} is there twice"
                values[record.key] = record.value or b""
    return SavedState(values)


def control_state(node: NodeProcess, snapshot_id: OffsetAndEpoch) -> ControlState:
    """What the snapshot says of voters, kraft.version and producers.  Raises CorruptSnapshotError, OSError."""
    return read_control_state(RealDisk(), str(snapshot_path(node, snapshot_id)), snapshot_id)


def verified(nodes: Iterable[NodeProcess]) -> list[dict[str, Any]]:
    """What `kraft log verify --json` prints of stopped nodes, having found nothing wrong and no difference."""
    directories = [str(node.directory) for node in nodes]
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as complaints:
        code = run_command_line(["log", "verify", "--json", *directories])
    assert code == 0, complaints.getvalue()
    lines: list[dict[str, Any]] = [json.loads(line) for line in output.getvalue().splitlines()]
    return lines[: len(directories)]
