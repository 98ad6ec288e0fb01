"""What stands in a node's log, uncommitted batches included."""

from __future__ import annotations

from kraft_trio.node import Node
from kraft_trio.storage.batch import decode_records, peek_header


def values_of(batch: bytes) -> list[tuple[int, bytes]]:
    """Offsets and values of a batch; none of a control batch."""
    header = peek_header(batch)
    return [] if header.is_control else [(r.offset, r.value or b"") for r in decode_records(batch, 0, header)]


def values_in(node: Node) -> list[bytes]:
    """The values in that node's log."""
    batches = node.log.iter_batches(0, node.log.end_offset)
    return [value for _, batch in batches for _, value in values_of(batch)]


def log_bytes(node: Node) -> bytes:
    """The whole log, as it is on disk."""
    return b"".join(batch for _, batch in node.log.iter_batches(0, node.log.end_offset))
