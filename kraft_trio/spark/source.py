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

from kraft_trio.spark.live.options import is_live
from kraft_trio.spark.metadata.contents import metadata_columns
from kraft_trio.spark.schemas import METADATA_CONTENTS, spark_schema
from kraft_trio.spark.table_properties import options_of


class KraftDataSource(DataSource):
    """`spark.read.format("kraft")`.  docs/reference/spark.md describes its options and columns."""

    @classmethod
    def name(cls) -> str:
        return "kraft"

    def schema(self) -> str:
        options = options_of(self.name(), self.options)
        if is_live(options):
            from kraft_trio.spark.live.columns import live_schema

            return live_schema(options)
        from kraft_trio.spark.directories.latest_by_key import CONTENT, latest_columns
        from kraft_trio.spark.directories.partitions import checked_options, columns_of

        read = checked_options(options)
        if read["content"] in METADATA_CONTENTS:
            return spark_schema(metadata_columns(read["content"], read["types"]))
        return spark_schema(latest_columns(read) if read["content"] == CONTENT else columns_of(read))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = options_of(self.name(), self.options)
        if is_live(options):
            from kraft_trio.spark.live.batch import make_live_reader

            return make_live_reader(options, schema)
        from kraft_trio.spark.directories.filters import FilteringReader
        from kraft_trio.spark.directories.latest_by_key import CONTENT, LatestByKeyReader
        from kraft_trio.spark.directories.partitions import checked_options

        content = checked_options(options)["content"]
        if content in METADATA_CONTENTS:
            from kraft_trio.spark.metadata.reader import MetadataReader

            return MetadataReader(options, schema)
        if content == CONTENT:
            return LatestByKeyReader(options, schema)
        return FilteringReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from kraft_trio.spark.live.reader import make_stream_reader
        from kraft_trio.spark.live.unusable_stream import or_unusable

        return or_unusable(lambda: make_stream_reader(options_of(self.name(), self.options), schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from kraft_trio.spark.writing.writer import make_writer

        return make_writer(options_of(self.name(), self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from kraft_trio.spark.writing.writer import make_stream_writer

        return make_stream_writer(options_of(self.name(), self.options), schema, overwrite)
