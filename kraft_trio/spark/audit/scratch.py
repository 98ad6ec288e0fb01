"""A folder for an audit's decoded data, removed through the file system that made it."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kraft_trio.errors import StorageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def scratch_folder(spark: SparkSession, parent: str | None) -> Iterator[str]:
    """The URL of a new folder in `parent`, a path or URL; it is removed at the end of the block.

    Paths are local, whatever Hadoop's default file system is.  Raises StorageError if the folder cannot be made.
    """
    from py4j.protocol import Py4JJavaError

    url = url_of(tempfile.gettempdir() if parent is None else parent)
    context = spark.sparkContext
    jvm, java_context = context._jvm, context._jsc
    assert jvm is not None, "a session that is stopped"
    path = jvm.org.apache.hadoop.fs.Path(f"{url.rstrip('/')}/kraft-audit-{uuid.uuid4().hex[:12]}")
    try:
        files = path.getFileSystem(java_context.hadoopConfiguration())
        is_made = files.mkdirs(path, jvm.org.apache.hadoop.fs.permission.FsPermission("700"))
    except Py4JJavaError as error:
        raise StorageError(f"{url}: cannot be written: {error.java_exception.getMessage()}") from error
    if not is_made:
        raise StorageError(f"{url}: no folder can be made there")
    try:
        yield path.toString()
    finally:
        try:
            files.delete(path, True)
        except Py4JJavaError:
            # The results are more important than what is left behind.
            pass


def url_of(place: str) -> str:
    """The URL of a path; a URL is its own."""
    return place if "://" in place else Path(place).absolute().as_uri()
