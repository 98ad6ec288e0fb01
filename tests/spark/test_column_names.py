"""Column names in any case."""

from __future__ import annotations

from pyspark.sql.types import LongType, StringType, StructField, StructType

from kraft_trio.spark.column_names import as_known


def test_known_names_get_their_known_spelling() -> None:
    schema = StructType([StructField("OFFSET", LongType(), False, {"a": 1}), StructField("Mine", StringType())])
    known = as_known(schema, ["offset", "value"])
    assert known == StructType([StructField("offset", LongType(), False, {"a": 1}), StructField("Mine", StringType())])


def test_both_spellings_are_two_columns() -> None:
    schema = StructType([StructField("offset", LongType()), StructField("OFFSET", LongType())])
    assert as_known(schema, ["offset"]).names == ["offset", "OFFSET"]
