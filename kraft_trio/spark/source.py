"""The data source `kraft`: reads replicas' directories, and reads, streams and writes live quorums."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from kraft_trio.spark.options import READ_OPTIONS, read_options
from kraft_trio.spark.schemas import spark_schema
from kraft_trio.spark.stream_options import BOOTSTRAP


class KraftDataSource(DataSource):
    """`spark.read.format("kraft")`.  docs/SPARK.md describes its options and columns."""

    @classmethod
    def name(cls) -> str:
        return "kraft"

    def schema(self) -> str:
        if BOOTSTRAP in self.options:
            from kraft_trio.spark.stream_columns import live_schema

            return live_schema(dict(self.options))
        from kraft_trio.spark.partitions import checked_options, columns_of

        return spark_schema(columns_of(checked_options(dict(self.options))))

    def reader(self, schema: StructType) -> DataSourceReader:
        if BOOTSTRAP in self.options:
            from kraft_trio.spark.stream_batch import make_live_reader

            return make_live_reader(dict(self.options), schema)
        from kraft_trio.spark.filters import FilteringReader
        from kraft_trio.spark.partitions import DirectoryReader

        options = dict(self.options)
        is_filtering = read_options(self.name(), READ_OPTIONS, options)["pushFilters"]
        return FilteringReader(options, schema) if is_filtering else DirectoryReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from kraft_trio.spark.stream_reader import make_stream_reader

        return make_stream_reader(dict(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from kraft_trio.spark.write_writer import make_writer

        return make_writer(dict(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from kraft_trio.spark.write_writer import make_stream_writer

        return make_stream_writer(dict(self.options), schema, overwrite)
