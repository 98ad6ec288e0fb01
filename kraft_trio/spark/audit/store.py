"""Results kept as Parquet: a history of runs to be queried, one row a check and cluster, and every violation told."""

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
    """Append to the tables `results` and `violations` below `out`, a path or URL that Spark can write; they are made.

    Each audit adds a file of its own to each table, so any number may append at a time.  Raises StorageError where they
    cannot be written.
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
    """A file by Hadoop, which Spark writes by: it has its name when it is whole, and nobody reads it before."""
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
