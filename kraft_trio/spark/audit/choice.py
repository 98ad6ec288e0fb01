"""Chooses what runs an audit without a master: DuckDB in this process, or Spark on this machine.

DuckDB has neither a JVM to start nor tasks to plan, so it is faster as long as its tables fit in memory.  They have a
row for each batch, and how many batches there are depends on their size.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from kraft_trio.spark.decoding.headers import gather, sizes_of, walk
from kraft_trio.spark.directories.files import files_of
from kraft_trio.spark.directories.replicas import Replica, find_replicas

BYTES_A_ROW: Final = 200
"""Memory that DuckDB takes for a batch."""
SHARE_OF_MEMORY: Final = 0.5
"""So much of the memory may be for tables; queries need some, too."""
_SAMPLED_BYTES: Final = 256 * 1024
_SAMPLED_SEGMENTS: Final = 8
_CGROUP: Final = Path("/sys/fs/cgroup/memory.max")


def fits_in_memory(directories: Sequence[str], memory_bytes: int | None = None) -> bool:
    """Whether DuckDB's tables of these directories fit in that much memory, by default this machine's.

    Raises ConfigError if there is no replica.
    """
    memory_bytes = _memory_bytes() if memory_bytes is None else memory_bytes
    return table_bytes(find_replicas(directories, allow_mixed_clusters=True)) <= memory_bytes * SHARE_OF_MEMORY


def table_bytes(replicas: Iterable[Replica]) -> int:
    """About how much memory DuckDB's tables take, from a sample of the largest segments."""
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
    return size * batches // sampled * BYTES_A_ROW if sampled else 0


def _memory_bytes() -> int:
    """Of this machine, or the limit of its control group."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = _CGROUP.read_text().strip()
    except OSError:
        return machine
    return min(machine, int(limit)) if limit.isdecimal() else machine
