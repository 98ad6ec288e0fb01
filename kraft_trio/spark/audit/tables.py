"""The tables that checks read: decoded once from directories or traces to Parquet, then plain Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from kraft_trio.errors import StorageError
from kraft_trio.protocol.roles import TRANSITIONS
from kraft_trio.simulation.invariants.epochs import FIRST
from kraft_trio.spark.audit.check import FUNCTIONS, VIEWS, View
from kraft_trio.spark.schemas import BATCHES, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG_TABLES: Final = ("batches", "control", "snapshots", "quorum_state", "epochs")
"""The contents read from directories: values of the option `content`, with underscores."""

MAIN_TABLES: Final[Mapping[str, str]] = {"log": "batches", "trace": "trace"}
"""By kind of input, the table in which every cluster has a row."""

FACTS: Final = ("transitions", "first_roles")
"""The protocol's own rules as tables."""

BATCH_COLUMNS: Final = (
    *("directory", "cluster_id", "node", "directory_id", "segment", "position", "size", "base_offset", "last_offset"),
    *("epoch", "control", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "content_crc", "crc_ok"),
    "error",
)
"""The columns of batches that the views read; the rest is omitted, because there are many batches."""

SMALL_ROWS: Final = 1_000_000
"""Up to this many rows, Spark takes longer to compile a query than to interpret it."""

INTERPRETED: Final[Mapping[str, str]] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
"""Settings that make Spark interpret queries instead of compiling them."""

OnStep = Callable[[str], object]


@attrs.frozen
class Tables:
    """Tables as temporary views in the audit's own session."""

    spark: SparkSession
    folder: str
    """The directory of their Parquet files."""
    names: tuple[str, ...]


def read_traces(spark: SparkSession, paths: Sequence[str]) -> dict[str, DataFrame]:
    """The raw tables of traces."""
    return {"trace": spark.read.format("kraft-trace").load(list(paths))}


def read_directories(spark: SparkSession, paths: Sequence[str]) -> dict[str, DataFrame]:
    """The raw tables of replicas' directories."""
    found = {}
    for name in LOG_TABLES:
        reader = spark.read.format("kraft").options(content=name.replace("_", "-"), allowMixedClusters="true")
        if name == "batches":
            reader = reader.schema(spark_schema([column for column in BATCHES if column.name in BATCH_COLUMNS]))
        found[name] = reader.load(list(paths))
    return found


def make_tables(
    spark: SparkSession, raw: Mapping[str, DataFrame], views: Sequence[View], folder: str, on_step: OnStep
) -> Tables:
    """Decode the raw tables once, and create these views in order; `on_step` is called before each.

    The decoded data goes below `folder`, which the caller removes.  Raises StorageError if executors on other machines
    do not share the folder.
    """
    register_facts(spark)
    names = [*FACTS]
    for name, frame in raw.items():
        on_step(name)
        _store(spark, frame, name, folder)
        names.append(name)
    if sum(spark.table(name).count() for name in raw) <= SMALL_ROWS:
        for setting, value in INTERPRETED.items():
            spark.conf.set(setting, value)
    for view in views:
        on_step(view.name)
        if view.is_stored:
            _store(spark, spark.sql(view.sql), view.name, folder)
        else:
            spark.sql(view.sql).createOrReplaceTempView(view.name)
        names.append(view.name)
    return Tables(spark, folder, tuple(names))


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


def _store(spark: SparkSession, frame: DataFrame, name: str, folder: str) -> None:
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    path = f"{folder}/{name}"
    is_here = (spark.sparkContext.master or "").startswith("local")
    written = Observation()
    observed = frame if is_here else frame.observe(written, count(lit(1)).alias("rows"))
    observed.write.option("compression", "zstd").parquet(path)
    stored = spark.read.schema(frame.schema).parquet(path)
    # Unless the path is shared, executors on other machines write to their own disks.
    if not is_here and (rows := stored.count()) != written.get["rows"]:
        raise StorageError(
            f"{path}: {rows} of {written.get['rows']} rows that executors have written are there; expected TMPDIR to "
            "name a directory that all of them share"
        )
    stored.createOrReplaceTempView(name)


def register_facts(spark: SparkSession) -> None:
    """The protocol's rules as tables, and the functions."""
    for statement in FUNCTIONS:
        spark.sql(statement)
    transitions = [
        (old.__name__, event.name, transition.to.__name__, transition.epoch.name)
        for (old, event), transition in TRANSITIONS.items()
    ]
    columns = "old_role string, event string, new_role string, epochs string"
    spark.createDataFrame(transitions, columns).createOrReplaceTempView("transitions")
    spark.createDataFrame([(role.__name__,) for role in FIRST], "role string").createOrReplaceTempView("first_roles")
