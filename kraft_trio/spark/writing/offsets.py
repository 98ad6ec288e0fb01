"""Tells where a write has put its rows: one JSON file for each write, in a directory of the user's."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
from pyspark.sql.datasource import WriterCommitMessage

from kraft_trio.errors import ConfigError
from kraft_trio.spark.writing.identity import PartitionWrite

_LOCAL: Final = "file://"


@attrs.frozen
class Appended(WriterCommitMessage):
    """The rows that one task has appended, or found in the log.  Can be pickled."""

    of: PartitionWrite
    records: int = 0
    repeated: int = 0
    """How many of them were in the log already: from another attempt, or from this one if an answer was lost."""
    first_offset: int | None = None
    """Inclusive; None without rows, or if the log no longer knows where it has the first ones."""
    last_offset: int | None = None
    """Inclusive; None without rows."""

    def and_then(self, records: int, base_offset: int | None, *, is_repeated: bool) -> Appended:
        """Add the next batch of the partition.  Its offset is None if the log has forgotten it."""
        return attrs.evolve(
            self,
            records=self.records + records,
            repeated=self.repeated + (records if is_repeated else 0),
            first_offset=self.first_offset if self.records else base_offset,
            last_offset=None if base_offset is None else base_offset + records - 1,
        )


def write_offsets(directory: str, name: str, tasks: Sequence[Appended]) -> None:
    """Write the file `name`.json for the tasks of a write; replaces an earlier file of that name.

    `directory` is a path, or a URL that fsspec supports.  Raises OSError, and ConfigError if a package is missing.
    """
    partitions = [
        {
            "partition": task.of.partition,
            "records": task.records,
            "repeated": task.repeated,
            "firstOffset": task.first_offset,
            "lastOffset": task.last_offset,
            "producerId": task.of.producer_id,
            "producerEpoch": task.of.producer_epoch,
        }
        for task in sorted(tasks, key=lambda task: task.of.partition)
    ]
    content = json.dumps({"partitions": partitions}, indent=1).encode() + b"\n"
    _write_file(directory.removeprefix(_LOCAL), f"{name}.json", content)


def _write_file(directory: str, name: str, content: bytes) -> None:
    if "://" in directory:
        try:
            import fsspec

            system, path = fsspec.core.url_to_fs(directory)
        except (ImportError, ValueError) as error:
            raise ConfigError(f"offsetsPath={directory}: {error}") from None
        system.makedirs(path, exist_ok=True)
        system.pipe_file(f"{path.rstrip('/')}/{name}", content)
        return
    Path(directory).mkdir(parents=True, exist_ok=True)
    part = Path(directory, f".{name}.{os.getpid()}")
    part.write_bytes(content)
    part.replace(Path(directory, name))
