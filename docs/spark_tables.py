"""The generated tables about Spark: options, columns, checks, and Kafka's metadata."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial

from docs.tables import table
from kraft_trio.metadata.entities import ENTITIES
from kraft_trio.simulation.invariants import INVARIANTS
from kraft_trio.spark.audit.check import CHECKS
from kraft_trio.spark.campaigns.files import COLUMNS as CAMPAIGN_RESULTS
from kraft_trio.spark.live.columns import LIVE_RECORDS
from kraft_trio.spark.live.options import LIVE_OPTIONS
from kraft_trio.spark.metadata.arrow import arrow_type
from kraft_trio.spark.metadata.changes import CHANGE_COLUMNS
from kraft_trio.spark.metadata.typed_records import TYPE_NAMES, typed_columns
from kraft_trio.spark.options import PATH, PATHS, READ_OPTIONS, TRACE_OPTIONS, Option
from kraft_trio.spark.schemas import CONTENTS, RECORDS, REPLICA, Column, spark_type
from kraft_trio.spark.writing.options import WRITE_OPTIONS


def spark_options(options: Iterable[Option], *, explained: Collection[Option] = ()) -> str:
    """A table of the options.  Those in `explained` are only named, and those that `load` sets are left out."""
    options = [option for option in options if option not in (PATH, PATHS)]
    rows = []
    for option in (option for option in options if option not in explained):
        default = str(option.default).lower() if isinstance(option.default, bool) else str(option.default)
        default = default if option.default_text is None else option.default_text
        allowed = "" if isinstance(option.default, bool) else option.allowed
        rows.append((f"`{option.name}`", f"`{default}`" if default else "", allowed, option.meaning))
    return _as_for("reading", options, explained) + table(("option", "default", "allowed", "meaning"), rows)


def spark_checks() -> str:
    """The checks of each invariant, and then the others with what they demand."""
    classes = {invariant.number: f"`{invariant.__name__}`" for invariant in INVARIANTS}
    rows: dict[str, list[str]] = {classes[number]: [] for number in sorted(classes)}
    for check in CHECKS:
        warning = " (warning)" if check.severity == "warning" else ""
        rows.setdefault(classes.get(check.invariant or 0, check.title), []).append(f"`{check.name}`{warning}")
    return table(("what must hold", "checks"), ((what, ", ".join(names)) for what, names in rows.items() if names))


def spark_columns(columns: Iterable[Column], *, explained: Collection[Column] = ()) -> str:
    """Those that an earlier table explains are only named."""
    rows = ((f"`{c.name}`", f"`{c.spark_type}`", c.meaning) for c in columns if c not in explained)
    return _as_for("`content=records`", columns, explained) + table(("column", "type", "meaning"), rows)


def spark_content(content: str) -> str:
    return spark_columns(CONTENTS[content][len(REPLICA) :], explained=() if content == "records" else RECORDS)


def metadata_states() -> str:
    rows = (
        (f"`{entity.name}`", ", ".join(f"`{name}` {spark_type(arrow_type(type))}" for name, type in entity.types))
        for entity in ENTITIES.values()
    )
    return table(("content", "columns"), rows)


def metadata_records() -> str:
    """The columns besides those of the replica.  A record's fields are only named."""
    rows = []
    for column in typed_columns()[len(REPLICA) :]:
        is_record = column.name.upper() in TYPE_NAMES
        fields = (
            ", ".join(f"`{column.type.field(at).name}`" for at in range(column.type.num_fields)) if is_record else ""
        )
        rows.append((f"`{column.name}`", fields or ("no fields" if is_record else column.meaning)))
    return table(("column", "fields, or meaning"), rows)


def _as_for(
    what: str, every: Iterable[Option] | Iterable[Column], explained: Collection[Option] | Collection[Column]
) -> str:
    names = ", ".join(f"`{one.name}`" for one in every if one in explained)
    return f"As for {what}: {names}.\n\n" if names else ""


SPARK_TABLES: dict[str, Callable[[], str]] = {
    "metadata-states": metadata_states,
    "metadata-records": metadata_records,
    "metadata-changes": lambda: spark_columns(CHANGE_COLUMNS[len(REPLICA) :]),
    "spark-checks": spark_checks,
    "spark-read-options": lambda: spark_options(READ_OPTIONS),
    "spark-live-options": lambda: spark_options(LIVE_OPTIONS),
    "spark-write-options": lambda: spark_options(WRITE_OPTIONS, explained=LIVE_OPTIONS),
    "spark-columns-live": lambda: spark_columns(LIVE_RECORDS, explained=RECORDS),
    "spark-columns-replica": lambda: spark_columns(REPLICA),
    "spark-trace-options": lambda: spark_options(TRACE_OPTIONS, explained=READ_OPTIONS),
    "spark-columns-campaign": lambda: spark_columns(CAMPAIGN_RESULTS),
    **{f"spark-columns-{content}": partial(spark_content, content) for content in CONTENTS},
}
"""By the names of the parts."""
