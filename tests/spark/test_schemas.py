"""The tables' schemas are what Spark expects of a data source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kraft_trio.spark.schemas import CONTENTS, TRACE, Column, arrow_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("columns", [*CONTENTS.values(), TRACE], ids=[*CONTENTS, "trace"])
def test_arrows_schema_is_that_of_sparks(spark: SparkSession, columns: tuple[Column, ...]) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    expected = to_arrow_schema(StructType.fromDDL(spark_schema(columns)), timezone="UTC")
    assert isinstance(expected, pa.Schema)
    assert arrow_schema(columns).equals(expected)
