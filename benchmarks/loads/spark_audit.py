"""Write the directories of a quorum that an audit is to read: `python -m benchmarks.loads.spark_audit --help`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import click

from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batches.batch import NewRecord, encode_batch, encode_control_batch, patch_base_offset_and_epoch
from kraft_trio.storage.batches.control_records import LeaderChange
from kraft_trio.storage.directory.meta_properties import META_PROPERTIES, MetaProperties, encode_meta_properties
from kraft_trio.storage.directory.quorum_state import encode_quorum_state, with_crc
from kraft_trio.storage.disk.partition_files import LEADER_EPOCH_CHECKPOINT, QUORUM_STATE
from kraft_trio.storage.segments.leader_epoch_checkpoint import encode_leader_epochs

PARTITION = "__cluster_metadata-0"
SEGMENT_BYTES = 64 * 1024 * 1024
NODES = (1, 2, 3)
EPOCHS = 20
"""So many leaders have followed one another."""
SIZES = 50
"""How many different sizes of value there are, so that batches are not all of one size."""
FIRST_MS = 1_700_000_000_000
STEP_MS = 1000
"""Between the batches of a span of them, so that the log has grown over some time."""
SPANS = 1000


@click.command(help=__doc__)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--records", type=int, required=True, help="Of each of the three replicas, about.")
@click.option("--records-a-batch", type=int, required=True)
@click.option("--link", is_flag=True, help="The replicas share their segments, which then take a third of the room.")
def main(directory: Path, records: int, records_a_batch: int, link: bool) -> None:
    """Prints how many bytes, batches and records all of it has."""
    batches = records // records_a_batch
    partitions = [directory / f"node-{node}" / PARTITION for node in NODES]
    for partition in partitions:
        partition.mkdir(parents=True)
    starts: list[tuple[int, int]] = []
    written = 0
    segment: list[bytes] = []
    base_offset = end = size = 0
    for offset, batch in _log(batches, records_a_batch, starts):
        if size >= SEGMENT_BYTES:
            written += _write(partitions, base_offset, segment, link)
            segment, size, base_offset = [], 0, offset
        segment.append(batch)
        size += len(batch)
        end = offset
    written += _write(partitions, base_offset, segment, link)
    for node, partition in zip(NODES, partitions, strict=True):
        _write_states(partition, node, starts)
    count = (batches + EPOCHS) * len(NODES)
    click.echo(json.dumps({"bytes": written, "batches": count, "records": (end + records_a_batch) * len(NODES)}))


def _log(batches: int, records_a_batch: int, starts: list[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
    """Every batch with its base offset; notes where each epoch starts."""
    offset = 0
    made: list[bytearray] = []
    for number in range(batches):
        epoch = 1 + number * EPOCHS // batches
        timestamp_ms = FIRST_MS + number * SPANS // batches * STEP_MS
        if not starts or starts[-1][0] < epoch:
            leader = LeaderChange(NODES[epoch % len(NODES)], NODES, NODES)
            control = bytearray(encode_control_batch([leader], timestamp_ms=timestamp_ms))
            patch_base_offset_and_epoch(control, 0, offset, epoch)
            starts.append((epoch, offset))
            yield offset, bytes(control)
            offset += 1
        if not made or number * SPANS // batches > (number - 1) * SPANS // batches:
            made = [_batch(size, records_a_batch, timestamp_ms) for size in range(1, SIZES + 1)]
        batch = made[number * 31 % SIZES]
        patch_base_offset_and_epoch(batch, 0, offset, epoch)
        yield offset, bytes(batch)
        offset += records_a_batch


def _batch(size: int, records: int, timestamp_ms: int) -> bytearray:
    values = [NewRecord(bytes(size + (size * at) % 7)) for at in range(records)]
    return bytearray(encode_batch(values, timestamp_ms=timestamp_ms))


def _write(partitions: list[Path], base_offset: int, segment: list[bytes], link: bool) -> int:
    content = b"".join(segment)
    first, *others = (partition / f"{base_offset:020d}.log" for partition in partitions)
    first.write_bytes(content)
    for path in others:
        if link:
            path.hardlink_to(first)
        else:
            path.write_bytes(content)
    return len(content) * len(partitions)


def _write_states(partition: Path, node: int, starts: list[tuple[int, int]]) -> None:
    epoch, _ = starts[-1]
    leader = NODES[epoch % len(NODES)]
    state = ElectionState(epoch, leader, None if node == leader else ReplicaKey(leader))
    (partition / QUORUM_STATE).write_bytes(with_crc(encode_quorum_state(state, 1, VoterSet())))
    (partition / LEADER_EPOCH_CHECKPOINT).write_bytes(encode_leader_epochs(starts))
    properties = MetaProperties("benchmark", node, UUID(int=node << 64))
    (partition.parent / META_PROPERTIES).write_bytes(encode_meta_properties(properties))


if __name__ == "__main__":
    main()
