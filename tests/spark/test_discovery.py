"""Spark knows the sources where the package is installed, and where it is told of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from kraft_trio.spark import register
from tests.spark.conftest import SCRUBBED
from tests.spark.directories import make_node, numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = """
import sys
from pyspark.sql import SparkSession

settings = {"spark.ui.enabled": "false", "spark.driver.memory": "512m"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
print("rows", spark.read.format("kraft").load(sys.argv[1]).count())
print("columns", *spark.read.format("kraft-trace").load(sys.argv[1]).columns[:2])
print("imported", "kraft_trio" in sys.modules)
spark.stop()
"""


def test_any_session_finds_them_where_the_package_is_installed(spark: SparkSession, tmp_path: Path) -> None:
    """`spark` is there for its Java alone.

    Spark does not look for sources where the path of its Python has a blank: so it is given one without.
    """
    environment_of_python = tmp_path / "environment"
    environment_of_python.symlink_to(sys.prefix)
    python = str(environment_of_python / "bin" / Path(sys.executable).name)
    path = make_node(tmp_path, 1, (0, numbered(0, 50)))
    environment = {name: value for name, value in os.environ.items() if name not in (*SCRUBBED, "PYTHONPATH")}
    environment["PYSPARK_PYTHON"] = python
    found = subprocess.run(
        [python, "-c", PROGRAM, path],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == ["rows 50", "columns file run", "imported False"]


def test_register_tells_a_session_of_all_that_are_found() -> None:
    import pyspark_kraft
    import pyspark_kraft_trace

    told: list[Any] = []
    register(cast("SparkSession", SimpleNamespace(dataSource=SimpleNamespace(register=told.append))))
    assert told == [pyspark_kraft.DefaultSource, pyspark_kraft_trace.DefaultSource]
    assert [source.name() for source in told] == ["kraft", "kraft-trace"]
