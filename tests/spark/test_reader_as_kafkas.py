"""Directories of replicas, read with the options and columns that Spark's source for Kafka has."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import StringType

from kraft_trio.errors import ConfigError
from kraft_trio.storage.batches.batch_header import LOG_APPEND_TIME_ATTRIBUTE, patch_crc
from tests.spark.directories import batches, make_node, numbered
from tests.spark.loading import column, fields, load

pytestmark = pytest.mark.rotating(2)


def test_offsets_as_kafkas_source_has_them(tmp_path: Path) -> None:
    path = make_node(tmp_path, 1, (0, numbered(0, 20)))
    some = {
        "startingOffsets": '{"__cluster_metadata": {"0": 5}}',
        "endingoffsets": '{"__cluster_metadata":{"0":7}}',
    }
    assert column(load(path, **some), "offset") == [5, 6]
    assert column(load(path, startingOffsets='{"__cluster_metadata": {"0": -2}}'), "offset") == list(range(20))
    with pytest.raises(ConfigError, match=r"option endingOffsets: names topic orders, and \S+-0 has topic __cluster"):
        load(path, endingOffsets='{"orders": {"0": 7}}')


def test_columns_of_kafkas_source_on_request(tmp_path: Path) -> None:
    appended = bytearray(batches(10, [[b"later"]]))
    appended[22] |= LOG_APPEND_TIME_ATTRIBUTE
    patch_crc(appended)
    path = make_node(tmp_path, 1, (0, numbered(0, 10) + bytes(appended)))
    rows = load(path, includeKafkaColumns="true")
    assert {(row["topic"], row["partition"]) for row in rows} == {("__cluster_metadata", 0)}
    assert column(rows, "timestampType") == [0] * 10 + [1]
    assert "topic" not in load(path)[0]
    with pytest.raises(ConfigError, match="content=records has no column topic"):
        load(path, fields(topic=StringType()))
    with pytest.raises(ConfigError, match="includeKafkaColumns=true: says nothing of content=batches"):
        load(path, content="batches", includeKafkaColumns="true")
