"""Directories in an object store, and results there: a real server, over HTTP.

Nightly, and skipped without `pip install 'moto[server]' s3fs`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tests.spark.loading import errors, load

from .conftest import PARTITION

pytestmark = pytest.mark.nightly

BUCKET = "s3://backups"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An empty bucket, of a server of its own."""
    server_module = pytest.importorskip("moto.server", reason="needs moto[server]")
    s3fs = pytest.importorskip("s3fs", reason="needs s3fs")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()
    try:
        # The servers of one process share what they hold.
        urlopen(Request(f"http://{host}:{port}/moto-api/reset", method="POST")).close()
        system = s3fs.S3FileSystem()
        system.mkdir(BUCKET)
        yield system
    finally:
        s3fs.S3FileSystem.clear_instance_cache()
        server.stop()


def test_an_audit_from_bucket_to_bucket(store: Any, damaged: Path, tmp_path: Path) -> None:
    """It finds what it finds in a directory, and keeps it as there."""
    from kraft_trio.cli.audit import audit

    store.put(f"{damaged}/", f"{BUCKET}/orders/", recursive=True)
    kraft = CliRunner()
    here = kraft.invoke(audit, [f"{damaged}/node-*"], standalone_mode=False)
    there = kraft.invoke(audit, [f"{BUCKET}/orders/node-*", "--out", f"{BUCKET}/audits"], standalone_mode=False)
    assert (here.return_value, there.return_value) == (1, 1), there.output
    report, *lines = there.output.replace(f"{BUCKET}/orders", str(damaged)).splitlines()
    expected = [line.partition("; while the node is stopped")[0] for line in here.output.splitlines()]
    assert lines == expected, "commands that repair are for local files"
    assert store.exists(report.removeprefix("report: "))
    for table in ("results", "violations"):
        assert [name for name in store.ls(f"{BUCKET}/audits/{table}") if "/." in name] == []
        store.get(f"{BUCKET}/audits/{table}/", f"{tmp_path}/{table}/", recursive=True)
        assert pq.read_table(tmp_path / table).num_rows > 0


def test_a_table_in_parts(store: Any, backups: Path) -> None:
    store.put(f"{backups}/", f"{BUCKET}/", recursive=True)
    rows = load(f"{BUCKET}/node-*", maxPartitionBytes="500")
    assert errors(rows) == []
    local = load(f"{backups}/node-*")
    assert [{**row, "directory": None} for row in rows] == [{**row, "directory": None} for row in local]


def test_a_bucket_that_cannot_be_written(store: Any, backups: Path) -> None:
    from kraft_trio.cli.audit import audit

    result = CliRunner().invoke(audit, [f"{backups}/node-*", "--out", "s3://of-nobody/audits"], standalone_mode=False)
    assert str(result.exception).startswith("s3://of-nobody/audits/results: cannot be written: ")
    assert "0 errors, 0 warnings" in result.output


def test_a_replica_that_is_incomplete(store: Any, backups: Path, tmp_path: Path) -> None:
    shutil.copytree(backups, tmp_path / "copy")
    store.put(f"{tmp_path}/copy/", f"{BUCKET}/", recursive=True)
    store.rm(f"{BUCKET}/node-2/{PARTITION}/00000000000000000014.log")
    [row] = errors(load(f"{BUCKET}/node-2"))
    assert "the next one begins with offset" in row["error"]


def test_as_many_connections_as_directories_are_listed_at_a_time(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the user has configured another number."""
    import fsspec

    from kraft_trio.spark.directories.url_files import UrlFiles

    def connections() -> tuple[int, str | None]:
        files = UrlFiles.of(f"{BUCKET}/orders")
        files._system.ls(BUCKET)
        config = files._system.s3.meta.config
        return config.max_pool_connections, config.user_agent_extra

    assert connections() == (32, None)
    own = {"max_pool_connections": 5, "user_agent_extra": "mine"}
    monkeypatch.setitem(fsspec.config.conf, "s3", {"config_kwargs": own})
    assert connections() == (5, "mine")
