"""Chooses what runs an audit without a master: DuckDB in this process, or Spark on this machine.

DuckDB has neither a JVM to start nor tasks to plan, so it is faster as long as it has the memory.  Its tables have a
row for each batch.  So the memory depends on the number of batches, not on that of the segments, nor on the logs' size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Final

from kraft_trio.spark.decoding.headers import gather, sizes_of, walk
from kraft_trio.spark.directories.files import files_of
from kraft_trio.spark.directories.replicas import Replica, find_replicas
from kraft_trio.system.machine import memory_bytes

BYTES_A_BATCH: Final = 300
"""Memory that DuckDB takes for a batch while it runs the checks, if it has it: a quarter of that for its row."""
SHARE_OF_MEMORY: Final = 0.5
"""So much of the memory DuckDB may take; beyond, it uses the disk."""
_SAMPLED_BYTES: Final = 256 * 1024
_SAMPLED_SEGMENTS: Final = 8


def fits_in_memory(directories: Sequence[str]) -> bool:
    """Whether DuckDB can audit these directories in this machine's memory.

    Raises ConfigError if there is no replica.
    """
    return needed_bytes(find_replicas(directories, allow_mixed_clusters=True)) <= memory_bytes() * SHARE_OF_MEMORY


def needed_bytes(replicas: Iterable[Replica]) -> int:
    """About how much memory DuckDB takes, from a sample of the largest segments."""
    files = sorted((file for one in replicas for _, file in one.segments), key=lambda file: -file.size)
    sampled = batches = 0
    for file in files[:_SAMPLED_SEGMENTS]:
        try:
            with closing(files_of(file.path).open(file.path)) as opened:
                start = opened.read(_SAMPLED_BYTES)
        except OSError:
            continue  # The audit reports it.
        positions = walk(start, 0, len(start))
        sampled += int(sizes_of(gather(start, positions)).sum())
        batches += len(positions)
    size = sum(file.size for file in files)
    return size * batches // sampled * BYTES_A_BATCH if sampled else 0
