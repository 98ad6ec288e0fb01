"""`kraft metadata` over directories that were tampered with, and with questions that go wrong."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import attrs
import pyarrow.parquet
import pytest

from kraft_trio.cli import run
from kraft_trio.wire import metadata_schemas as schemas
from tests.metadata.test_history import TOPIC, broker, changed, partition
from tests.spark.directories import PARTITION, make_node
from tests.support.metadata_histories import framed
from tests.support.metadata_logs import START_MS, batch_of, log_of

VALUES = [framed(one) for one in (TOPIC, partition(0), changed(0, isr=(1,)))]
SEGMENT = f"{PARTITION}/{len(VALUES) + 1:020d}.log"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return make_node(tmp_path, 1, (0, log_of(VALUES)))


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    def say(*arguments: object, code: int = 0) -> str:
        assert run(["metadata", *map(str, arguments)]) == code
        done = capsys.readouterr()
        return done.out + done.err

    return say


# Which replica


@pytest.mark.parametrize("last", [b"", b"\0" * 100, b"\1" * 100])
def test_a_last_segment_without_a_batch_puts_no_replica_behind(
    node: Path, tmp_path: Path, said: Any, last: bytes
) -> None:
    behind = make_node(tmp_path, 2, (0, log_of(VALUES[:2])))
    (node / SEGMENT).write_bytes(last)
    shown = said("partitions", node, behind, "--json", code=1 if any(last) else 0)
    assert json.loads(shown.splitlines()[0])["isr"] == [1]
    assert "no differences" in said("diff", node, behind), "at the lower end"
    other = make_node(tmp_path, 3, (0, log_of([*VALUES[:1], framed(partition(0, leader=2)), *VALUES[2:]])))
    assert "leader: 1 → 2" in said("diff", node, other, code=1)


def test_a_directory_that_cannot_be_read_may_be_the_furthest(node: Path, tmp_path: Path, said: Any) -> None:
    shown = said("topics", node, tmp_path / "none", code=1)
    assert "orders" in shown
    assert "none: cannot be read: No such file or directory" in shown
    assert f"{tmp_path}/x*: nothing matches" in said("changes", node, f"{tmp_path}/x*", code=1)


def test_replicas_of_two_clusters_are_not_compared(node: Path, tmp_path: Path, said: Any) -> None:
    other = make_node(tmp_path, 2, (0, log_of(VALUES)), cluster_id="another")
    assert "directories of two clusters, cluster-a and another" in said("diff", node, other, code=1)


@pytest.mark.parametrize("name", [SEGMENT, f"{PARTITION}/00000000000000000003-0000000001.checkpoint"])
def test_a_pipe_is_not_waited_for(node: Path, said: Any, name: str) -> None:
    os.mkfifo(node / name)
    assert "a device or a pipe, expected a file" in said("topics", node, code=1)


def test_a_pipe_instead_of_the_properties_is_not_waited_for(node: Path, said: Any) -> None:
    (node / "meta.properties").unlink()
    os.mkfifo(node / "meta.properties")
    assert "a device or a pipe, expected a file" in said("topics", node, code=1)


# What differs


def test_things_of_one_name_are_each_compared(tmp_path: Path, said: Any) -> None:
    again = attrs.evolve(TOPIC, topic_id=UUID(int=7))
    others = framed(again), framed(attrs.evolve(partition(0), topic_id=again.topic_id))
    first = make_node(tmp_path, 1, (0, log_of([VALUES[0], VALUES[1], *others])))
    second = make_node(tmp_path, 2, (0, log_of([VALUES[0], framed(partition(0, leader=2)), *others])))
    assert "partitions orders-0 update leader: 1 → 2" in said("diff", first, second, code=1)


def scram(salt: bytes) -> schemas.UserScramCredentialRecord:
    return schemas.UserScramCredentialRecord("web", 1, salt, b"stored", b"server", 4096)


def test_a_password_that_changes_is_a_change_without_its_value(tmp_path: Path, said: Any) -> None:
    def config(value: str) -> schemas.ConfigRecord:
        return schemas.ConfigRecord(4, "1", "ssl.key.password", value)

    values = [framed(one) for one in (config("old-secret"), scram(b"old-secret"), config("new-secret"), scram(b"new"))]
    node = make_node(tmp_path, 1, (0, log_of(values)))
    differences = said("diff", node, "--from", "3", code=1)
    assert "value: [hidden] → [hidden]" in differences
    assert "salt: [hidden] → [hidden]" in differences
    rows = [json.loads(line) for line in said("changes", node, "--json").splitlines()]
    assert [row["changed"] for row in rows] == [[], [], ["value"], ["salt"]]
    for shown in (differences, json.dumps(rows), said("changes", node), said("configs", node, "--csv")):
        assert "secret" not in shown.replace("secret$", "")


# Questions in SQL


def test_columns_of_one_name_hide_none(node: Path, said: Any) -> None:
    query = "SELECT t.name, 5 AS name, 6 AS name, 7 AS name_1 FROM topics t"
    assert json.loads(said("sql", query, node, "--json")) == {"name": "orders", "name_2": 5, "name_3": 6, "name_1": 7}


@pytest.mark.parametrize("time", ["TIMESTAMP '290000-01-01'", "'infinity'::timestamptz", "['infinity'::timestamp]"])
def test_a_time_that_python_does_not_have_is_refused(node: Path, said: Any, time: str) -> None:
    assert "a time outside of the years 1 to 9999" in said("sql", f"SELECT {time} t", node, code=1)


def test_a_query_is_interrupted() -> None:
    """By Ctrl-C, which reaches the main thread."""
    from kraft_trio.cli.metadata.sql import answered

    is_over = threading.Event()

    class Database:
        def sql(self, query: str) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            is_over.wait()

        def interrupt(self) -> None:
            is_over.set()

    with pytest.raises(KeyboardInterrupt):
        answered(cast(Any, Database()), "SELECT 1")
    assert is_over.is_set()


def test_values_are_shown_as_text(node: Path, said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    query = "SELECT TIMESTAMP '2026-01-02 03:04:05' t, TIMESTAMP_NS '2026-01-02 03:04:05.000000006' n, '\\xAA'::BLOB b"
    assert said("sql", query, node, "--csv").splitlines()[1] == "2026-01-02 03:04:05.000,2026-01-02 03:04:05.000,aa"
    numbers = "SELECT 'NaN'::double a, {'b': ['-inf'::double, 1.5]} b"
    assert json.loads(said("sql", numbers, node, "--json"), parse_constant=pytest.fail) == {
        "a": "NaN",
        "b": {"b": ["-Infinity", 1.5]},
    }


def test_nanoseconds_need_no_other_package() -> None:
    """PyArrow makes a value of them with pandas alone."""
    from kraft_trio.cli.metadata.sql import selected

    found = selected({}, "SELECT TIMESTAMP_NS '2026-01-02 03:04:05.000000006' n")
    assert str(found.schema.field("n").type) == "timestamp[us]"


def test_a_quota_that_is_no_number_is_json(tmp_path: Path, said: Any) -> None:
    quota = schemas.ClientQuotaRecord((schemas.QuotaEntity("user", "web"),), "x", float("nan"), False)
    node = make_node(tmp_path, 1, (0, log_of([framed(quota)])))
    assert json.loads(said("client-quotas", node, "--json"), parse_constant=pytest.fail)["value"] == "NaN"
    [change] = said("changes", node, "--json").splitlines()
    assert json.loads(json.loads(change)["after"], parse_constant=pytest.fail)["value"] == "NaN"


def test_times_are_the_same_with_and_without_a_condition(tmp_path: Path, said: Any) -> None:
    token = schemas.DelegationTokenRecord("User:a", "User:a", (), START_MS, 2**63 - 1, -1, "id")
    node = make_node(tmp_path, 1, (0, log_of([framed(token)])))
    shown = said("delegation-tokens", node, "--json")
    assert json.loads(shown)["issue_timestamp"] == "2025-11-24 16:00:00.000Z"
    assert shown == said("delegation-tokens", node, "--json", "--where", "true")


def test_a_moment_of_many_digits_is_refused(node: Path, said: Any) -> None:
    for moment in ("9" * 5000, "٣"):
        assert "expected an offset, or a time" in said("topics", node, "--as-of", moment, code=2)


# Files that are written


def test_a_parquet_file_is_made_like_every_file(node: Path, tmp_path: Path, said: Any) -> None:
    link, mine = tmp_path / "link", tmp_path / "mine.parquet"
    link.symlink_to(mine)
    assert "a symbolic link, which is not written through" in said("topics", node, "--parquet", link, code=1)
    said("topics", node, "--parquet", mine)
    assert mine.stat().st_mode & 0o777 == 0o600
    refused = said("topics", node, "--parquet", tmp_path / "no" / "x", code=1)
    assert "No such file or directory; expected a file that can be written" in refused
    odd = said("sql", "SELECT INTERVAL 3 MONTHS i", node, "--parquet", mine, code=1)
    assert "expected columns of types that Parquet has" in odd


def test_one_form_is_asked_for(node: Path, said: Any) -> None:
    assert "--json, --csv and --parquet: expected one of them" in said("topics", node, "--json", "--csv", code=2)


def test_what_cannot_be_written_whole_is_not_removed(
    node: Path, tmp_path: Path, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a device.  PyArrow removes what it opened itself."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pyarrow.parquet.ParquetWriter, "write_table", full)
    there = tmp_path / "there"
    there.touch()
    assert "No space left on device" in said("topics", node, "--parquet", there, code=1)
    assert there.exists()


def test_a_report_of_clocks_at_the_end_of_time(tmp_path: Path, said: Any) -> None:
    last_ms = 253_402_300_799_999
    values = [framed(one) for one in (TOPIC, partition(0), changed(0, isr=(1,)), broker())]
    late = bytearray(batch_of(0, values))
    node = make_node(tmp_path, 1, (0, at_time(late, last_ms)))
    said("report", node, "--out", tmp_path / "report.html")
    assert "Partitions that changed most" in (tmp_path / "report.html").read_text()


def at_time(batch: bytearray, time_ms: int) -> bytes:
    """The batch with all its records at that time: their times count from the one in the header."""
    from kraft_trio.storage.batches.batch_header import LOG_APPEND_TIME_ATTRIBUTE, patch_crc

    assert START_MS.to_bytes(8, "big") in batch
    batch[22] |= LOG_APPEND_TIME_ATTRIBUTE
    batch[35:43] = time_ms.to_bytes(8, "big")
    patch_crc(batch)
    return bytes(batch)
