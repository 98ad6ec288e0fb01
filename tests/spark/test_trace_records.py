"""Records of traces one by one, without Spark: what a column cannot say is an error of that record, and of no other."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import attrs
import msgpack
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from kraft_trio.errors import ConfigError
from kraft_trio.spark.decoding.trace_events import trace_batches
from kraft_trio.spark.directories.partitions import checked_options
from kraft_trio.spark.schemas import TRACE, arrow_schema
from kraft_trio.spark.trace_source import TraceDataSource
from kraft_trio.tracing.events import TraceEvent
from kraft_trio.tracing.files import TraceFileError, TraceHeader

HEADER = attrs.asdict(TraceHeader(cluster_id="fMCL8kv1SWm87L_Md-I2hg", node=1, directory_id="AAAAAAAAAAAAAAAAAAAAAQ"))
EVENT = attrs.asdict(TraceEvent(0, 1, 1, "sync", 3, "Leader", 1, 5, 5, 4, (1, 2), "why", {}))


def packed(*records: dict[str, Any]) -> bytes:
    return b"".join(map(msgpack.packb, [HEADER, *records]))


def lines(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in [HEADER, *records])


def rows(data: bytes, **options: Any) -> list[dict[str, Any]]:
    return pa.Table.from_batches([*trace_batches(io.BytesIO(data), "f", **options)]).to_pylist()


WRONG = {
    "a fraction": {"log_end": 2.5},
    "a fraction that is whole": {"epoch": 2.0},
    "a truth": {"leader": True},
    "a number for a text": {"cause": 5},
    "a text for a number": {"time_us": "5"},
    "a fraction among voters": {"voters": [1, 2.5]},
    "a text for voters": {"voters": "12"},
    "a number that does not fit": {"epoch": 2**31},
}


@pytest.mark.parametrize("encode", [packed, lines])
@pytest.mark.parametrize("name", WRONG)
def test_a_value_of_another_type_is_an_error_of_its_record(name: str, encode: Any) -> None:
    events = [{**EVENT, "sequence": at} for at in range(5)]
    data = encode(*events[:3], {**events[3], **WRONG[name]}, events[4])
    found = rows(data)
    assert [row["sequence"] for row in found] == [0, 1, 2, None, 4]
    assert [row["error"] is None for row in found] == [True, True, True, False, True]
    assert found[3]["error"].startswith("record 5 at byte ")
    with pytest.raises(TraceFileError, match="f: record 5 at byte "):
        rows(data, fail_fast=True)


@pytest.mark.parametrize("name", ["cause", "kind", "role"])
def test_bytes_are_no_text(name: str) -> None:
    first, second = rows(packed(EVENT, {**EVENT, name: b"why"}))
    assert first["error"] is None
    assert (second["sequence"], second["kind"]) == (None, None)
    assert "b'why'" in second["error"]


def test_the_tuples_and_nulls_of_an_event_are_right() -> None:
    nulls = dict.fromkeys(("node", "epoch", "role", "leader", "log_end", "synced_end", "high_watermark", "voters"))
    first, second = rows(packed(EVENT, {**EVENT, **nulls}))
    assert (first["voters"], first["error"], second["voters"], second["error"]) == ([1, 2], None, None, None)


def read(**options: str) -> list[dict[str, Any]]:
    reader = TraceDataSource(options).reader(from_arrow_schema(arrow_schema(TRACE)))
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize("paths", ["abc", '"abc"', "5", "[1]", "{}", '["a", null]', "[" * 100_000])
def test_paths_that_are_no_list_of_texts_are_named(paths: str) -> None:
    with pytest.raises(ConfigError) as failed:
        read(paths=paths)
    assert str(failed.value) == f"format kraft-trace: option paths={paths}, expected a JSON list of texts"
    with pytest.raises(ConfigError) as failed:
        checked_options({"paths": paths})
    assert str(failed.value) == f"format kraft: option paths={paths}, expected a JSON list of texts"


def test_paths(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(packed({**EVENT, "cause": name}))
    found = read(path=f"{tmp_path}/c", paths=json.dumps([f"{tmp_path}/a", f"{tmp_path}/c"]))
    assert [row["cause"] for row in found] == ["a", "c"]


def test_a_file_whose_name_is_no_text(tmp_path: Path) -> None:
    name = f"{tmp_path}/b\\udcff"
    (tmp_path / os.fsdecode(b"b\xff")).write_bytes(packed(EVENT) + b"\x81")
    (tmp_path / os.fsdecode(b"c\xff")).symlink_to("nowhere")
    event, cut, missing = read(path=f"{tmp_path}/*")
    assert (event["file"], event["error"], cut["file"]) == (name, None, name)
    assert missing["file"] == f"{tmp_path}/c\\udcff"
    with pytest.raises(TraceFileError, match=r"b\\udcff: record 3"):
        read(path=f"{tmp_path}/b*", mode="FAILFAST")
