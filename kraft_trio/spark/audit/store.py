"""Stores results as Parquet: a history with one row per check and cluster, and every listed violation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from kraft_trio.errors import StorageError
from kraft_trio.spark.audit.results import RESULTS, VIOLATIONS, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kraft_trio.spark.audit.audit import Audit


def append_history(spark: SparkSession, found: Audit, out: str) -> None:
    """Append to the tables `results` and `violations` in `out`, a path or URL that Spark can write; creates them.

    Each audit adds its own file to each table, so audits may run at the same time.  Raises StorageError if writing
    fails.
    """
    of_run = {"run_id": found.run_id, "audited_at": found.audited_at}
    for name, table in (
        ("results", table_of(found.results, RESULTS, **of_run)),
        ("violations", table_of(found.violations, VIOLATIONS, **of_run)),
    ):
        content = pa.BufferOutputStream()
        pq.write_table(table, content, compression="zstd")
        _write(spark, f"{out}/{name}", f"part-{found.run_id}.parquet", content.getvalue().to_pybytes())


def _write(spark: SparkSession, folder: str, name: str, content: bytes) -> None:
    """Writes a file through Hadoop, like Spark.  The file gets its name when it is complete, so nobody reads it
    earlier.
    """
    from py4j.protocol import Py4JJavaError

    context = spark.sparkContext
    jvm, java_context = context._jvm, context._jsc
    assert jvm is not None, "a session that is stopped"
    path_of = jvm.org.apache.hadoop.fs.Path
    hidden, path = path_of(folder, f".{name}"), path_of(folder, name)
    try:
        files = path.getFileSystem(java_context.hadoopConfiguration())
        files.mkdirs(path.getParent())
        file = files.create(hidden, True)
        try:
            file.write(content)
        finally:
            file.close()
        is_named = files.rename(hidden, path)
    except Py4JJavaError as error:
        raise StorageError(f"{folder}: cannot be written: {error.java_exception.getMessage()}") from error
    if not is_named:
        raise StorageError(f"{folder}/{name}: cannot be given its name")
