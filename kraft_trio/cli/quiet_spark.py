"""A Spark session for a command, whose user has asked for nothing of what Spark and its JVM say at every start."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kraft_trio.errors import KraftError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = "stderr"
_JAVA: Final = """\
#!/bin/sh
# Starts Java with its errors in a file, and those of the processes of Python that it starts.
[ "$*" = -version ] && exec {java} -version
exec {java} "$@" 2>> {log}
"""


@contextmanager
def quiet_session(master: str, app_name: str) -> Iterator[SparkSession]:
    """A session that is stopped at the end of the block; what the JVM writes to stderr goes to a file.

    Where the block ends with an error of Spark's, the file is kept, and named on stderr.  To be used once in a process:
    it starts the JVM.  Raises StorageError where no Java is found; ImportError without the extra `spark`.
    """
    from kraft_trio.spark import session
    from kraft_trio.spark.java import use_java

    use_java()
    folder = Path(tempfile.mkdtemp(prefix="kraft-spark-"))
    os.environ["JAVA_HOME"] = str(_java_home(folder))
    is_kept = False
    try:
        spark = session(master, app_name)
        try:
            yield spark
        finally:
            spark.stop()
    except Exception as error:
        is_kept = not isinstance(error, KraftError) or error.__cause__ is not None
        raise
    finally:
        if is_kept:
            click.echo(f"kraft: what Spark has said of it is in {folder / _LOG}", err=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _java_home(folder: Path) -> Path:
    """A JAVA_HOME in the folder, that leads to the Java that is found without it."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    assert found is not None, "there was one a moment ago"
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(_JAVA.format(java=shlex.quote(found), log=shlex.quote(str(folder / _LOG))))
    java.chmod(0o755)
    return folder
