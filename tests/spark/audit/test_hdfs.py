"""Directories in HDFS, and results there: Hadoop's own servers, by its protocol and over HTTP.

Nightly, and skipped without scripts/get-hadoop and `pip install hdfs-native`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from harness.ports import free_ports
from kraft_trio.errors import ConfigError
from kraft_trio.simulation.campaign.seed_run import TraceTo, run_seed
from kraft_trio.simulation.faults.nemesis import PlanOptions
from kraft_trio.spark.writing.identity import PartitionWrite, Write
from kraft_trio.spark.writing.offsets import Appended, write_offsets
from tests.spark.loading import errors, load
from tests.spark.mini_cluster import MiniCluster, running_cluster, why_no_cluster
from tests.support.programs import REPOSITORY

from .conftest import PARTITION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.acceptance,
    pytest.mark.skipif(why_no_cluster() is not None, reason=str(why_no_cluster())),
]


@attrs.frozen
class Place:
    """An empty folder in HDFS."""

    url: str
    system: Any
    """What fsspec has for it."""
    of_hadoop: str
    """The same folder, for Spark's Hadoop client, which cannot parse an answer of `webhdfs`: it lacks a class."""

    def put(self, folder: Path) -> None:
        self.system.put(f"{folder}/", f"{self.system._strip_protocol(self.url)}/", recursive=True)

    def names(self, *below: str) -> list[str]:
        path = "/".join((self.system._strip_protocol(self.url), *below))
        return sorted(info["name"].rpartition("/")[2] for info in self.system.ls(path, detail=True))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    pytest.importorskip("hdfs_native", reason="needs hdfs-native")
    with running_cluster(tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster


@pytest.fixture(params=["hdfs", "webhdfs"])
def place(request: pytest.FixtureRequest, cluster: MiniCluster) -> Place:
    import fsspec

    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    url = f"{getattr(cluster, request.param)}/{name}"
    system, path = fsspec.core.url_to_fs(url)
    system.makedirs(path)
    return Place(url, system, f"{cluster.hdfs}/{name}")


def test_an_audit_from_folder_to_folder(place: Place, damaged: Path, tmp_path: Path) -> None:
    """Without Spark, it finds what it finds in a local directory, and keeps it as there."""
    from kraft_trio.cli.audit import audit

    place.put(damaged)
    kraft = CliRunner()
    here = kraft.invoke(audit, [f"{damaged}/node-*"], standalone_mode=False)
    there = kraft.invoke(audit, [f"{place.url}/node-*", "--out", f"{place.url}/audits"], standalone_mode=False)
    assert (here.return_value, there.return_value) == (1, 1), there.output
    report, *lines = there.output.replace(place.url, str(damaged)).splitlines()
    expected = [line.partition("; while the node is stopped")[0] for line in here.output.splitlines()]
    assert lines == expected, "commands that repair are for local files"
    check_results(place, report.rpartition("/")[2], tmp_path)


def test_an_audit_with_spark(spark: SparkSession, place: Place, damaged: Path, tmp_path: Path) -> None:
    """Everything that Spark decodes is in HDFS as well, and goes with the audit; `spark` is there for its Java."""
    from kraft_trio.cli.audit import audit

    place.put(damaged)
    command = [*(sys.executable, "-m", "kraft_trio"), "audit", f"{place.url}/node-*"]
    folder = place.of_hadoop
    command += ["--master", "local[1]", "--scratch", f"{folder}/scratch", "--out", f"{folder}/audits"]
    there = run(command).replace(folder, place.url)
    here = CliRunner().invoke(audit, [f"{damaged}/node-*"], standalone_mode=False)
    report, *lines = there.replace(place.url, str(damaged)).splitlines()
    assert lines == [line.partition("; while the node is stopped")[0] for line in here.output.splitlines()]
    check_results(place, report.rpartition("/")[2], tmp_path)
    assert place.names("scratch") == [], "the folder was made, and its content removed"


def run(command: list[str]) -> str:
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=900)
    assert ended.returncode == 1, ended.stderr[-4000:]
    return ended.stdout


def check_results(place: Place, report: str, folder: Path) -> None:
    assert place.names("audits") == sorted(["results", "violations", report])
    root = place.system._strip_protocol(place.url)
    for table in ("results", "violations"):
        [name] = place.names("audits", table)
        place.system.get(f"{root}/audits/{table}/{name}", str(folder / f"{table}.parquet"))
        assert pq.read_table(folder / f"{table}.parquet").num_rows > 0


def test_a_table_of_spark(spark: SparkSession, place: Place, backups: Path) -> None:
    """In tasks of a batch each."""
    place.put(backups)
    rows = spark.read.format("kraft").option("maxPartitionBytes", 500).load(f"{place.url}/node-*").drop("directory")
    local = spark.read.format("kraft").load(f"{backups}/node-*").drop("directory")
    order = ["node", "segment", "offset"]
    assert rows.orderBy(*order).collect() == local.orderBy(*order).collect()
    assert rows.rdd.getNumPartitions() > local.rdd.getNumPartitions()


def test_every_content(place: Place, backups: Path) -> None:
    place.put(backups)
    for content in ("batches", "control", "snapshots", "snapshot-records", "quorum-state", "epochs"):
        rows = load(f"{place.url}/node-*", content=content)
        local = load(f"{backups}/node-*", content=content)
        assert [{**row, "directory": None} for row in rows] == [{**row, "directory": None} for row in local], content


def test_traces(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    for seed in (1, 2):
        trace = TraceTo(str(tmp_path / "traces" / f"{seed}.trace"), f"seed {seed}")
        run_seed(seed, PlanOptions(duration_us=2_000_000), trace)
    place.put(tmp_path / "traces")
    for path in ("*.trace", ""):
        rows = spark.read.format("kraft-trace").load(f"{place.url}/{path}").drop("file", "run")
        local = spark.read.format("kraft-trace").load(f"{tmp_path}/traces/{path}").drop("file", "run")
        order = ["seed", "sequence"]
        assert rows.orderBy(*order).collect() == local.orderBy(*order).collect()
        assert rows.count() > 0


def test_offsets_of_a_write(place: Place) -> None:
    """A file is replaced by that of the attempt that has completed the write."""
    for records in (3, 5):
        write_offsets(f"{place.url}/offsets", "7", [Appended(PartitionWrite(Write("q", 7), 0), records, 0, 100, 104)])
    assert place.names("offsets") == ["7.json"]
    told = json.loads(place.system.cat_file(f"{place.system._strip_protocol(place.url)}/offsets/7.json"))
    assert [task["records"] for task in told["partitions"]] == [5]


def test_a_replica_that_is_incomplete(place: Place, backups: Path) -> None:
    place.put(backups)
    root = place.system._strip_protocol(place.url)
    place.system.rm(f"{root}/node-2/{PARTITION}/00000000000000000014.log")
    [row] = errors(load(f"{place.url}/node-2"))
    assert "the next one begins with offset" in row["error"]


def test_a_place_that_cannot_be_written(place: Place, backups: Path) -> None:
    from kraft_trio.cli.audit import audit

    place.system.pipe_file(f"{place.system._strip_protocol(place.url)}/audits", b"a file")
    arguments = [f"{backups}/node-*", "--out", f"{place.url}/audits"]
    result = CliRunner().invoke(audit, arguments, standalone_mode=False)
    assert str(result.exception).startswith(f"{place.url}/audits/results: cannot be written: ")
    assert "\n" not in str(result.exception)
    assert "0 errors, 0 warnings" in result.output


def test_a_data_node_that_has_lost_its_blocks(cluster: MiniCluster, place: Place, backups: Path) -> None:
    """That is no damage of the log: nothing is read, and nothing is called damaged."""
    place.put(backups)
    with cluster.without_blocks():
        rows = load(f"{place.url}/node-1/{PARTITION}", content="quorum-state")
    [error] = [row["error"] for row in rows]
    assert error.startswith(f"{place.url}/node-1/{PARTITION}/quorum-state: cannot be read: "), error


def test_what_is_not_there(place: Place) -> None:
    with pytest.raises(ConfigError, match=f"{place.url}/node-9: cannot be read: No such file or directory$"):
        load(f"{place.url}/node-9")
    with pytest.raises(ConfigError, match="nothing matches"):
        load(f"{place.url}/node-*")


def test_a_name_node_that_is_not_there() -> None:
    [port] = free_ports(1)
    with pytest.raises(ConfigError, match=r"cannot be read: .*[Rr]efused") as caught:
        load(f"webhdfs://localhost:{port}/node-1")
    assert "\n" not in str(caught.value)
