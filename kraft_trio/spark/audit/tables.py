"""The tables that checks read, and the views on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import attrs
import pyarrow as pa

from kraft_trio.protocol.roles import TRANSITIONS
from kraft_trio.simulation.invariants.epochs import FIRST
from kraft_trio.spark.audit.check import VIEWS, View
from kraft_trio.spark.directories.replicas import Replica
from kraft_trio.spark.file_system import printable
from kraft_trio.spark.schemas import BATCHES, CONTENTS, ERROR, REPLICA, Column, arrow_schema
from kraft_trio.storage.disk.partition_files import OFFSET_INDEX, PRODUCER_SNAPSHOT, TIME_INDEX, offsets_of

LOG_TABLES: Final = ("batches", "control", "snapshots", "quorum_state", "epochs")
"""The contents read from directories: values of the option `content`, with underscores."""

REPLICAS: Final = (
    *REPLICA,
    Column("last_segment", pa.int64(), "first offset of the newest segment, from its file name"),
    Column("index_offset", pa.int64(), "first offset of the newest segment that has an index"),
    Column("producers_offset", pa.int64(), "end of the log when its newest producer snapshot was written"),
    ERROR,
)
"""The columns of the table `replicas`, which has a row for each directory that the paths lead to."""

LIMITS: Final = (
    Column("max_lag", pa.int64(), "see `Limits`"),
    Column("expect_voters", pa.int32(), "see `Limits`"),
)
"""The columns of the table `limits`, which has one row."""

MAIN_TABLES: Final[Mapping[str, str]] = {"log": "replicas", "trace": "trace", "metadata": "metadata_changes"}
"""By kind of input, the table in which every cluster has a row."""

FACTS: Final[Mapping[str, tuple[str, list[tuple[str, ...]]]]] = {
    "transitions": (
        "old_role string, event string, new_role string, epochs string",
        [
            (old.__name__, event.name, transition.to.__name__, transition.epoch.name)
            for (old, event), transition in TRANSITIONS.items()
        ],
    ),
    "first_roles": ("role string", [(role.__name__,) for role in FIRST]),
}
"""The protocol's own rules as tables: the columns and the rows."""

BATCH_COLUMNS: Final = (
    *("directory", "cluster_id", "node", "directory_id", "segment", "position", "size", "base_offset", "last_offset"),
    *("epoch", "control", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "content_crc", "crc_ok"),
    "error",
)
"""The columns of batches that the views read; the rest is omitted, because there are many batches."""


_OWN_COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {"replicas": REPLICAS, "limits": LIMITS}
"""The columns of the tables that are not decoded from files."""


@attrs.frozen
class Limits:
    """What the user demands of directories, beyond the protocol's guarantees."""

    max_lag: int | None = None
    """How many offsets a replica may end before the longest log of its cluster, inclusive; None for the default."""
    expect_voters: int | None = None
    """The number of voters of each cluster whose directories must be there; None for any."""


NO_LIMITS: Final = Limits()


def table_of_replicas(replicas: Iterable[Replica]) -> pa.Table:
    """The table `replicas`."""
    return pa.Table.from_pylist([_row_of(replica) for replica in replicas], arrow_schema(REPLICAS))


def _row_of(replica: Replica) -> dict[str, Any]:
    def newest(*suffixes: str) -> int | None:
        names = [*replica.other_names]
        return max((offset for suffix in suffixes for offset in offsets_of(names, suffix)), default=None)

    return {
        **replica.columns,
        "last_segment": max((offset for offset, _ in replica.segments), default=None),
        "index_offset": newest(OFFSET_INDEX, TIME_INDEX),
        "producers_offset": newest(PRODUCER_SNAPSHOT),
        "error": None if replica.error is None else printable(replica.error),
    }


def table_of_limits(limits: Limits) -> pa.Table:
    """The table `limits`."""
    return pa.Table.from_pylist([attrs.asdict(limits)], arrow_schema(LIMITS))


def content_of(table: str) -> str:
    """The value of the option `content` for a table of directories."""
    return table.replace("_", "-")


def columns_of(table: str) -> list[Column]:
    """The columns of a table of directories that the views read."""
    if table in _OWN_COLUMNS:
        return [*_OWN_COLUMNS[table]]
    if table == "batches":
        return [column for column in BATCHES if column.name in BATCH_COLUMNS]
    return [*CONTENTS[content_of(table)]]


def names_there(raw: Collection[str]) -> set[str]:
    """The names of all tables and views available with these raw tables."""
    names = {*FACTS, *raw}
    for view in VIEWS:
        if names >= set(view.reads):
            names.add(view.name)
    return names


def views_for(reads: Iterable[str]) -> list[View]:
    """The views needed to read these tables and views, in the order of creation."""
    wanted = set(reads)
    for view in reversed(VIEWS):
        if view.name in wanted:
            wanted |= set(view.reads)
    return [view for view in VIEWS if view.name in wanted]
