"""What stands in a node's log, uncommitted batches included."""

from __future__ import annotations

from kraft_trio.node import Node
from kraft_trio.storage.batches.batch import decode_records, iter_headers


def values_of(batches: bytes) -> list[tuple[int, bytes]]:
    """Offsets and values of whole batches; control batches have none."""
    return [
        (record.offset, record.value or b"")
        for position, header in iter_headers(batches)
        if not header.is_control
        for record in decode_records(batches, position, header)
    ]


def values_in(node: Node) -> list[bytes]:
    """The values in that node's log."""
    batches = node.log.iter_batches(0, node.log.end_offset)
    return [value for _, batch in batches for _, value in values_of(batch)]


def log_bytes(node: Node) -> bytes:
    """The whole log, as it is on disk."""
    return b"".join(batch for _, batch in node.log.iter_batches(0, node.log.end_offset))
