"""Names, ids and small files that cannot be right: rows with an error, and no query ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kraft_trio.errors import ConfigError, StorageError
from kraft_trio.storage.disk.partition_files import LEADER_EPOCH_CHECKPOINT, QUORUM_STATE
from tests.spark.directories import PARTITION, make_node, numbered
from tests.spark.loading import column, errors, load, sound


@pytest.mark.parametrize("node_id", ["99999999999", "2147483648", "-1", "1" * 5000, "x", "\u00b2"])
def test_a_node_id_that_is_none(tmp_path: Path, node_id: str) -> None:
    path = make_node(tmp_path, 1, (0, numbered(0, 5)))
    properties = path / "meta.properties"
    properties.write_text(f"version=1\nnode.id={node_id}\ncluster.id=c\n", "latin-1")
    for content in ("records", "batches", "control", "quorum-state", "epochs", "snapshots", "snapshot-records"):
        [error] = errors(load(path, content=content))
        assert error["node"] is None
        assert error["error"].startswith(f"{properties}: node.id={node_id[:60]}")
    assert column(sound(load(path)), "offset") == list(range(5))
    with pytest.raises(StorageError, match=r"meta.properties: node\.id="):
        load(path, mode="FAILFAST")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (f"{0:020d}-9999999999.checkpoint", "epoch 9999999999 in its name, expected one up to 2147483647"),
        (f"{10**20 - 1}-0000000001.checkpoint", f"offset {10**20 - 1} in its name, expected one up to {2**63 - 1}"),
        (f"{2**63:020d}.log", f"offset {2**63} in its name, expected one up to {2**63 - 1}"),
    ],
)
def test_a_name_that_says_more_than_can_be(tmp_path: Path, name: str, problem: str) -> None:
    path = make_node(tmp_path, 1, (0, numbered(0, 5)))
    (path / PARTITION / name).write_bytes(numbered(0, 5))
    for content in ("records", "batches", "control", "snapshots", "snapshot-records"):
        [error] = errors(load(path, content=content))
        assert error["error"] == f"{path / PARTITION / name}: {problem}"
    assert column(sound(load(path)), "offset") == list(range(5))


def test_a_directory_whose_name_is_no_text(tmp_path: Path) -> None:
    path = make_node(tmp_path, 1, (0, numbered(0, 5)))
    path.rename(os.fsdecode(os.fsencode(tmp_path) + b"/b\xff"))
    name = f"{tmp_path}/b\\udcff"
    assert [(row["directory"], row["error"]) for row in load(f"{tmp_path}/b*")] == [(name, None)] * 5
    (tmp_path / os.fsdecode(b"b\xff") / PARTITION / f"{5:020d}.log").symlink_to("nowhere")
    [error] = errors(load(f"{tmp_path}/b*"))
    assert error["error"].startswith(f"{name}/{PARTITION}/{5:020d}.log: cannot be read")
    with pytest.raises(StorageError) as failed:
        load(f"{tmp_path}/b*", mode="FAILFAST")
    assert str(failed.value) == error["error"]
    os.mkdir(os.fsencode(tmp_path) + b"/c\xff")
    with pytest.raises(ConfigError, match=r"c\\udcff: is empty"):
        load(f"{tmp_path}/c*")


@pytest.mark.parametrize(
    ("name", "content", "data"),
    [
        (LEADER_EPOCH_CHECKPOINT, "epochs", "0\n1\n\u00b2 5\n".encode()),
        (LEADER_EPOCH_CHECKPOINT, "epochs", b"0\n1\n" + b"1" * 5000 + b" 5\n"),
        (LEADER_EPOCH_CHECKPOINT, "epochs", b"0\n1\n2147483648 5\n"),
        (LEADER_EPOCH_CHECKPOINT, "epochs", b"0\n2\n3 0\n2 5\n"),
        (QUORUM_STATE, "quorum-state", b"[" * 200_000),
    ],
)
def test_a_small_file_that_is_none(tmp_path: Path, name: str, content: str, data: bytes) -> None:
    path = make_node(tmp_path, 1, (0, numbered(0, 5)))
    (path / PARTITION / name).write_bytes(data)
    [row] = load(path, content=content)
    assert row["error"].startswith(f"{path / PARTITION / name}: ")


def test_links_in_a_circle(tmp_path: Path) -> None:
    path = make_node(tmp_path, 1, (0, numbered(0, 5)))
    for name in ("circle", "circle-0", f"{PARTITION}/circle"):
        (path / name).symlink_to((path / name).name)
    rows = load(path)
    assert (column(rows, "offset"), errors(rows)) == (list(range(5)), [])
