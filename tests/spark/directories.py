"""Directories of nodes on disk, for tests of the batch source."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

from kraft_trio.storage.batches.batch import Compression, NewRecord, encode_batch, patch_base_offset_and_epoch
from kraft_trio.storage.directory.meta_properties import MetaProperties, encode_meta_properties
from tests.storage.support import kafkas_files

PARTITION = "__cluster_metadata-0"
CLUSTER = "cluster-a"


def make_node(parent: Path, node_id: int, *segments: tuple[int, bytes], cluster_id: str = CLUSTER) -> Path:
    """A formatted directory with those segments, by their first offsets."""
    directory = parent / f"node{node_id}"
    partition = directory / PARTITION
    partition.mkdir(parents=True)
    properties = MetaProperties(cluster_id, node_id, UUID(int=node_id << 64))
    (directory / "meta.properties").write_bytes(encode_meta_properties(properties))
    for offset, data in segments:
        (partition / f"{offset:020d}.log").write_bytes(data)
    return directory


def make_kafkas(parent: Path, name: str) -> Path:
    """The partition that Kafka wrote, in a directory without meta.properties."""
    partition = parent / name / PARTITION
    partition.mkdir(parents=True)
    for file, content in kafkas_files(name).items():
        (partition / file).write_bytes(content)
    return parent / name


def batches(
    offset: int, values: Iterable[Iterable[bytes]], epoch: int = 1, compression: Compression = Compression.NONE
) -> bytes:
    """Batches of those values, one after the other from that offset on."""
    made = []
    for batch_values in values:
        records = [NewRecord(value) for value in batch_values]
        batch = bytearray(encode_batch(records, timestamp_ms=1_000_000 + offset, compression=compression))
        patch_base_offset_and_epoch(batch, 0, offset, epoch)
        made.append(bytes(batch))
        offset += len(records)
    return b"".join(made)


def numbered(first: int, last: int, in_batch: int = 10, epoch: int = 1) -> bytes:
    """Records whose values are their offsets in decimals; `last` is exclusive."""
    offsets = [range(start, min(start + in_batch, last)) for start in range(first, last, in_batch)]
    return batches(first, [[b"%d" % offset for offset in some] for some in offsets], epoch)
