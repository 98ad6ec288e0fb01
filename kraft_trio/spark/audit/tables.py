"""The tables that checks read, and the views on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kraft_trio.protocol.roles import TRANSITIONS
from kraft_trio.simulation.invariants.epochs import FIRST
from kraft_trio.spark.audit.check import VIEWS, View
from kraft_trio.spark.schemas import BATCHES, CONTENTS, Column

LOG_TABLES: Final = ("batches", "control", "snapshots", "quorum_state", "epochs")
"""The contents read from directories: values of the option `content`, with underscores."""

MAIN_TABLES: Final[Mapping[str, str]] = {"log": "batches", "trace": "trace"}
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


def content_of(table: str) -> str:
    """The value of the option `content` for a table of directories."""
    return table.replace("_", "-")


def columns_of(table: str) -> list[Column]:
    """The columns of a table of directories that the views read."""
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
