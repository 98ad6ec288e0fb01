"""A Spark session for commands, without the start-up messages of Spark and its JVM."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kraft_trio.cli.terminal.output import echo
from kraft_trio.errors import KraftError, StorageError
from kraft_trio.extras import needing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = "stderr"
_JAVA: Final = """\
#!/bin/sh
# Starts Java with its errors in a file, and those of the processes of Python that it starts.
[ "$*" = -version ] && exec {java} -version
exec {java} "$@" 2>> {log}
"""


class SparkFailedError(KraftError):
    """Spark failed; the message is Spark's own, on one line."""

    exit_code = 2


@contextmanager
def quiet_session(master: str, app_name: str) -> Iterator[SparkSession]:
    """A session that stops at the end of the block; the JVM's stderr goes to a file.

    If Spark fails, the file is kept and its path is printed on stderr.  Use it once per process, because it starts the
    JVM.  Raises SparkFailedError if Spark fails or Java is missing; MissingExtraError without pyspark.
    """
    with needing("spark", app_name):
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

    from kraft_trio.spark import session
    from kraft_trio.spark.java import use_java

    folder = Path(tempfile.mkdtemp(prefix="kraft-spark-"))
    is_kept = False
    try:
        use_java()
        os.environ["JAVA_HOME"] = str(_java_home(folder))
        spark = session(master, app_name)
        try:
            yield spark
        finally:
            spark.stop()
    except (PySparkException, Py4JError) as error:
        is_kept = True
        raise SparkFailedError(f"Spark: {_in_a_line(error)}") from error
    except StorageError as error:
        raise SparkFailedError(str(error)) from error
    except Exception as error:
        is_kept = not isinstance(error, KraftError) or error.__cause__ is not None
        raise
    finally:
        if is_kept:
            echo(f"kraft: Spark's own messages are in {folder / _LOG}", err=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _in_a_line(error: Exception) -> str:
    """The first line that says what has happened rather than where."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # An error of the JVM is asked for in the JVM, which may be no more.
        return type(error).__name__
    is_of_java = lines and lines[0].startswith("An error occurred while calling ")
    return "".join(lines[1:2] if is_of_java else lines[:1]).removeprefix(": ") or type(error).__name__


def _java_home(folder: Path) -> Path:
    """Create a JAVA_HOME in the folder that points to the Java on the path."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    assert found is not None, "there was one a moment ago"
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(_JAVA.format(java=shlex.quote(found), log=shlex.quote(str(folder / _LOG))))
    java.chmod(0o755)
    return folder
