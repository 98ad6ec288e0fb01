"""The tables that checks read: decoded once from directories or traces to Parquet, then plain Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from kraft_trio.protocol.roles import TRANSITIONS
from kraft_trio.simulation.invariants.role_transitions import FIRST
from kraft_trio.spark.audit.check import FUNCTIONS, VIEWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG_TABLES: Final = ("batches", "control", "snapshots", "quorum_state", "epochs")
"""What is read of directories: the values of the option `content`, with underscores."""

SMALL_ROWS: Final = 1_000_000
"""Up to so many rows Spark takes longer to compile a query than to interpret it."""

INTERPRETED: Final[Mapping[str, str]] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
"""Settings for those."""

OnStep = Callable[[str], object]


@attrs.frozen
class Tables:
    """Tables as temporary views of one session, which is the audit's own."""

    spark: SparkSession
    folder: str
    """Where their Parquet files are."""
    names: tuple[str, ...]


def read_traces(spark: SparkSession, paths: Sequence[str]) -> dict[str, DataFrame]:
    """The raw tables of traces."""
    return {"trace": spark.read.format("kraft-trace").load(list(paths))}


def read_directories(spark: SparkSession, paths: Sequence[str]) -> dict[str, DataFrame]:
    """The raw tables of the directories of replicas."""
    return {
        name: spark.read.format("kraft")
        .options(content=name.replace("_", "-"), allowMixedClusters="true")
        .load(list(paths))
        for name in LOG_TABLES
    }


def make_tables(spark: SparkSession, raw: Mapping[str, DataFrame], folder: str, on_step: OnStep) -> Tables:
    """Decode the raw tables once, and make every view that they are enough for; `on_step` is told of each before.

    What is decoded is written below `folder`; whoever made that removes it.
    """
    register_facts(spark)
    names = ["transitions", "first_roles"]
    for name, frame in raw.items():
        on_step(name)
        _store(spark, frame, name, folder)
        names.append(name)
    if sum(spark.table(name).count() for name in raw) <= SMALL_ROWS:
        for setting, value in INTERPRETED.items():
            spark.conf.set(setting, value)
    for view in VIEWS:
        if set(view.reads) <= set(names):
            on_step(view.name)
            if view.is_stored:
                _store(spark, spark.sql(view.sql), view.name, folder)
            else:
                spark.sql(view.sql).createOrReplaceTempView(view.name)
            names.append(view.name)
    return Tables(spark, folder, tuple(names))


def steps_of(raw: Mapping[str, object]) -> list[str]:
    """The names of what `make_tables` makes of those, in order."""
    names = ["transitions", "first_roles", *raw]
    for view in VIEWS:
        if set(view.reads) <= set(names):
            names.append(view.name)
    return names[2:]


def _store(spark: SparkSession, frame: DataFrame, name: str, folder: str) -> None:
    path = f"{folder}/{name}"
    frame.write.option("compression", "zstd").parquet(path)
    spark.read.schema(frame.schema).parquet(path).createOrReplaceTempView(name)


def register_facts(spark: SparkSession) -> None:
    """What the protocol's own tables say, as tables; and the functions."""
    for statement in FUNCTIONS:
        spark.sql(statement)
    transitions = [
        (old.__name__, event.name, transition.to.__name__, transition.epoch.name)
        for (old, event), transition in TRANSITIONS.items()
    ]
    columns = "old_role string, event string, new_role string, epochs string"
    spark.createDataFrame(transitions, columns).createOrReplaceTempView("transitions")
    spark.createDataFrame([(role.__name__,) for role in FIRST], "role string").createOrReplaceTempView("first_roles")
