"""A Spark session configured for the sources of this package."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

from kraft_trio.spark.java import use_java
from kraft_trio.spark.options import SECRET_NAMES

SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    # Over a Unix socket, starting a task takes a third of the time.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Spark's default, and Kafka's keys that have secrets under other names.
    "spark.redaction.regex": f"(?i){SECRET_NAMES}",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
IN_ONE_PROCESS: Mapping[str, str] = {
    # A task waits three seconds for a place near its data, such as a block of HDFS.  Without other machines, Spark
    # looks again only when another task ends, so the last ones would wait forever.
    "spark.locality.wait": "0s",
}
"""Further settings for a master `local[…]`."""


_MODULES: Final = ("pyspark_kraft", "pyspark_kraft_trace")


def finds_sources() -> bool:
    """Whether Spark's Python finds the sources by the names of their modules; to register them too gives warnings.

    Spark does not look for them if the path of its Python contains a blank.
    """
    python = os.environ.get("PYSPARK_PYTHON", "python3")
    if any(character.isspace() for character in python):
        return False
    look = f"from importlib.util import find_spec; assert all(map(find_spec, {_MODULES}))"
    try:
        return subprocess.run([python, "-c", look], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def make_session(master: str, app_name: str, settings: Mapping[str, str]) -> SparkSession:
    """Like `kraft_trio.spark.session`, but without registering the sources."""
    if SparkSession.getActiveSession() is None:
        use_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(app_name)
    by_master = IN_ONE_PROCESS if master == "local" or master.startswith("local[") else {}
    for name, value in {**SETTINGS, **by_master, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
