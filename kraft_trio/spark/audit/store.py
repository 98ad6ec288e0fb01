"""Stores results as Parquet: a history with one row per check and cluster, and every listed violation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from kraft_trio.errors import StorageError
from kraft_trio.spark.audit.results import RESULTS, VIOLATIONS, table_of
from kraft_trio.spark.directories.url_files import UrlFiles
from kraft_trio.storage.disk.created_files import DIRECTORY_MODE, open_own

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kraft_trio.spark.audit.audit import Audit


def append_history(spark: SparkSession | None, found: Audit, out: str) -> None:
    """Append to the tables `results` and `violations` in `out`; creates them.

    `out` is a path or URL for `write_file`.  Each audit adds its own file to each table, so audits may run at the same
    time.  Raises StorageError if writing fails.
    """
    of_run = {"run_id": found.run_id, "audited_at": found.audited_at}
    for name, table in (
        ("results", table_of(found.results, RESULTS, **of_run)),
        ("violations", table_of(found.violations, VIOLATIONS, **of_run)),
    ):
        content = pa.BufferOutputStream()
        pq.write_table(table, content, compression="zstd")
        write_file(spark, f"{out}/{name}", f"part-{found.run_id}.parquet", content.getvalue().to_pybytes())


def write_file(spark: SparkSession | None, folder: str, name: str, content: bytes) -> None:
    """Write a file through Hadoop, like Spark; without Spark, to a local path or to a URL that fsspec knows.

    Creates the folder.  The file gets its name when it is complete, so nobody reads it earlier.  Raises StorageError.
    """
    if spark is not None:
        _write_by_hadoop(spark, folder, name, content)
        return
    try:
        if "://" in folder:
            UrlFiles.of(folder).write(folder, name, content)
        else:
            _write_here(Path(folder), name, content)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written: {error.strerror or error}") from error


def _write_here(folder: Path, name: str, content: bytes) -> None:
    folder.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    hidden = folder / f".{name}"
    with open(hidden, "wb", opener=open_own) as file:
        file.write(content)
    os.replace(hidden, folder / name)


def _write_by_hadoop(spark: SparkSession, folder: str, name: str, content: bytes) -> None:
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
