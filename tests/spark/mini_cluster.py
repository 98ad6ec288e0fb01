"""Hadoop's own name node and data node, in a process; scripts/get-hadoop gets their jars."""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from harness.waiting import wait_until
from tests.spark.conftest import SCRUBBED
from tests.support.programs import REPOSITORY

JARS = REPOSITORY / ".hadoop"
START_SECONDS = 300.0
END_SECONDS = 60.0
_MAIN = "org.apache.hadoop.test.MiniDFSClusterManager"
_HTTP_ADDRESS = re.compile(r"<name>dfs\.namenode\.http-address</name><value>([^<]+)</value>")


@attrs.frozen
class MiniCluster:
    """An HDFS that runs."""

    hdfs: str
    """URL of its root for Hadoop's protocol."""
    webhdfs: str
    """URL of its root over HTTP, with the user that owns it."""
    _folder: Path

    @contextmanager
    def without_blocks(self) -> Iterator[None]:
        """The data node has lost all that files contain."""
        blocks = [path for path in self._folder.rglob("blk_*") if path.is_file() and path.suffix != ".meta"]
        assert blocks
        for block in blocks:
            block.rename(block.with_name(f"lost-{block.name}"))
        try:
            yield
        finally:
            for block in blocks:
                block.with_name(f"lost-{block.name}").rename(block)


def jars() -> list[Path]:
    """The jars of the newest version that scripts/get-hadoop got; none without one."""
    versions = [path for path in JARS.iterdir() if path.name[0].isdigit()] if JARS.is_dir() else []
    newest = max(versions, default=None, key=lambda path: [int(number) for number in path.name.split(".")])
    return [] if newest is None else sorted(newest.glob("*.jar"))


def why_no_cluster() -> str | None:
    """Say in one line what is missing; None if a cluster can start."""
    if shutil.which("java") is None:
        return "java is not on PATH"
    return None if jars() else "needs jars: scripts/get-hadoop"


@contextmanager
def running_cluster(folder: Path) -> Iterator[MiniCluster]:
    """A new and empty HDFS, which keeps its data in `folder` and ends with the block."""
    details, configuration = folder / "details.json", folder / "configuration.xml"
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [
                *("java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
                *("-cp", os.pathsep.join(map(str, jars())), _MAIN, "-format"),
                *("-D", f"hdfs.minidfs.basedir={folder / 'data'}"),
                *("-writeConfig", str(configuration), "-writeDetails", str(details)),
            ],
            env={name: value for name, value in os.environ.items() if name not in SCRUBBED},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until("the minicluster tells its ports", lambda: _has_begun(process, details), START_SECONDS)
        port = json.loads(details.read_text())["namenode_port"]
        found = _HTTP_ADDRESS.search(configuration.read_text())
        assert found is not None
        http_port = found[1].rpartition(":")[2]
        user = getpass.getuser()
        yield MiniCluster(f"hdfs://localhost:{port}", f"webhdfs://{user}@localhost:{http_port}", folder / "data")
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _has_begun(process: subprocess.Popen[bytes], details: Path) -> bool:
    """It writes the details last, when it serves."""
    assert process.poll() is None, (details.parent / "log").read_text(errors="replace")[-4000:]
    return details.exists() and details.read_text().rstrip().endswith("}")
