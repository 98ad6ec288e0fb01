"""Spark as the engine of an audit: tables are decoded once to Parquet, then queried with plain Spark SQL."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kraft_trio.errors import StorageError
from kraft_trio.spark.audit.check import FUNCTIONS, View
from kraft_trio.spark.audit.engine import Row
from kraft_trio.spark.audit.metadata_tables import METADATA_TABLES, metadata_rows, with_metadata
from kraft_trio.spark.audit.tables import (
    FACTS,
    LOG_TABLES,
    NO_LIMITS,
    Limits,
    columns_of,
    content_of,
    table_of_limits,
    table_of_replicas,
)
from kraft_trio.spark.directories.replicas import Replica, find_replicas
from kraft_trio.spark.schemas import spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SMALL_ROWS: Final = 1_000_000
"""Up to this many rows, Spark takes longer to compile a query than to interpret it."""

INTERPRETED: Final[Mapping[str, str]] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
"""Settings that make Spark interpret queries instead of compiling them."""


def read_traces(spark: SparkSession, paths: Sequence[str]) -> dict[str, DataFrame]:
    """The raw tables of traces."""
    return {"trace": spark.read.format("kraft-trace").load(list(paths))}


def read_directories(
    spark: SparkSession, paths: Sequence[str], limits: Limits = NO_LIMITS, *, is_metadata_wanted: bool = True
) -> dict[str, DataFrame]:
    """The raw tables of replicas' directories; those of metadata if it is wanted and Kafka's are among them.

    Raises ConfigError if there is no replica.
    """
    found = {}
    for name in LOG_TABLES:
        reader = spark.read.format("kraft").options(content=content_of(name), allowMixedClusters="true")
        found[name] = reader.schema(spark_schema(columns_of(name))).load(list(paths))
    replicas = find_replicas(paths, allow_mixed_clusters=True)
    found["replicas"] = spark.createDataFrame(table_of_replicas(replicas))
    found["limits"] = spark.createDataFrame(table_of_limits(limits))
    kafkas = with_metadata(replicas) if is_metadata_wanted else []
    return found | {name: _metadata(spark, kafkas, name) for name in METADATA_TABLES if kafkas}


def _metadata(spark: SparkSession, replicas: Sequence[Replica], table: str) -> DataFrame:
    """A table of metadata, in a task for each replica."""

    def decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for replica in batch.column("replica").to_pylist():
                yield from metadata_rows(table, pickle.loads(replica))

    rows = spark.sparkContext.parallelize([(pickle.dumps(one),) for one in replicas], len(replicas))
    given = spark.createDataFrame(rows, "replica binary")
    return given.mapInArrow(decoded, spark_schema(METADATA_TABLES[table]))


class SparkEngine:
    """See `Engine`."""

    def __init__(self, spark: SparkSession, raw: Mapping[str, DataFrame], folder: str) -> None:
        """The decoded data goes below `folder`, a path or URL that Spark can write, which the caller removes."""
        # Views in a session of its own disturb nobody.
        self.spark = spark.newSession()
        self._raw, self._folder = raw, folder
        self._waiting = len(raw)
        for statement in FUNCTIONS:
            self.spark.sql(statement)
        for name, (columns, rows) in FACTS.items():
            self.spark.createDataFrame(rows, columns).createOrReplaceTempView(name)

    @property
    def raw(self) -> Sequence[str]:
        return tuple(self._raw)

    def decode(self, name: str) -> None:
        """Raises StorageError if executors on other machines do not share the folder."""
        self._store(self._raw[name], name)
        self._waiting -= 1
        if not self._waiting and sum(self.spark.table(each).count() for each in self._raw) <= SMALL_ROWS:
            for setting, value in INTERPRETED.items():
                self.spark.conf.set(setting, value)

    def add(self, view: View) -> None:
        if view.is_stored:
            self._store(self.spark.sql(view.sql), view.name)
        else:
            self.spark.sql(view.sql).createOrReplaceTempView(view.name)

    def rows(self, sql: str, **arguments: Any) -> list[Row]:
        return [row.asDict(recursive=True) for row in self.spark.sql(sql, args=arguments or None).collect()]

    def _store(self, frame: DataFrame, name: str) -> None:
        from pyspark.sql import Observation
        from pyspark.sql.functions import count, lit

        path = f"{self._folder}/{name}"
        is_here = (self.spark.sparkContext.master or "").startswith("local")
        written = Observation()
        observed = frame if is_here else frame.observe(written, count(lit(1)).alias("rows"))
        observed.write.option("compression", "zstd").parquet(path)
        stored = self.spark.read.schema(frame.schema).parquet(path)
        # Unless the path is shared, executors on other machines write to their own disks.
        if not is_here and (rows := stored.count()) != written.get["rows"]:
            raise StorageError(
                f"{path}: {rows} of {written.get['rows']} rows that executors have written are there; expected "
                "a directory that all of them share, by --scratch or TMPDIR"
            )
        stored.createOrReplaceTempView(name)
