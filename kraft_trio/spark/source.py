"""The batch data source `kraft`: directories of replicas as tables."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource

from kraft_trio.spark.options import READ_OPTIONS, read_options
from kraft_trio.spark.schemas import CONTENTS, spark_schema


class KraftDataSource(DataSource):
    """`spark.read.format("kraft")`: see docs/SPARK.md for its options and columns."""

    @classmethod
    def name(cls) -> str:
        return "kraft"

    def schema(self) -> str:
        options = read_options(self.name(), READ_OPTIONS, dict(self.options))
        return spark_schema(CONTENTS[options["content"]])
