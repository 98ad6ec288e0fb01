"""One Spark session for all tests, in an environment without settings of the machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraft_trio.errors import StorageError
from tests.support.programs import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

try:
    import pyspark
except ImportError:
    pyspark = None  # type: ignore[assignment]


class _SkippedModule(pytest.Module):
    """A test file that is not imported, as what it imports is not installed."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        pytest.skip("needs the extra `spark`", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    return _SkippedModule.from_parent(parent, path=module_path) if pyspark is None else None


IN_PARTS = pytest.mark.rotating(28, by_file=True)
"""For tests that take long: of so many parts of their files, one belongs to the default run, a file or none."""


@pytest.hookimpl(tryfirst=True)  # before the parts of the default run are chosen
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker run all tests that need the Spark session."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.acceptance)
            item.add_marker(IN_PARTS)
            item.add_marker(pytest.mark.xdist_group("spark"))


def connector_jars() -> list[Path]:
    """The jars of the newest of Spark's Kafka connectors that scripts/get-spark-kafka got; none without one."""
    folder = REPOSITORY / ".spark-kafka"
    versions = [path for path in folder.iterdir() if path.name[0].isdigit()] if folder.is_dir() else []
    newest = max(versions, default=None, key=lambda path: [int(number) for number in path.name.split(".")])
    return [] if newest is None else sorted(newest.glob("*.jar"))


SCRUBBED = ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
"""What a machine may have set for other programs, and would change what is tested."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of the whole test run; who changes a setting of it puts it back."""
    from kraft_trio.spark import session

    scratch: Path = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        for name in SCRUBBED:
            patch.delenv(name, raising=False)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", ""))
        settings = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "1g",
            # What runs once is not worth being compiled well: half of the JVM's time.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.local.dir": str(scratch / "local"),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            "spark.jars": ",".join(map(str, connector_jars())),
        }
        # Spark puts its own in its place, with which an interrupt is no longer Trio's to deliver.
        handler = signal.getsignal(signal.SIGINT)
        try:
            spark = session("local[2]", "kraft tests", settings)
        except StorageError as error:
            pytest.skip(str(error))
        finally:
            signal.signal(signal.SIGINT, handler)
        yield spark
        spark.stop()
