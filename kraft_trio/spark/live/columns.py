"""The columns of a live quorum's records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
import pyarrow as pa

from kraft_trio.errors import ConfigError
from kraft_trio.spark.live.options import RECORDS_CONTENT, LiveOptions, read_live_options
from kraft_trio.spark.metadata.contents import metadata_columns
from kraft_trio.spark.schemas import (
    ERROR,
    OF_KAFKAS_SOURCE,
    RECORD_HEADERS,
    RECORDS,
    REPLICA,
    Column,
    spark_schema,
)

_OF_DIRECTORIES: Final = frozenset(
    {"directory", "node", "directory_id", "segment", "position", "crc_ok", "size", ERROR.name}
)
_MEANINGS: Final = {"cluster_id": "of the quorum"}
LIVE_RECORDS: Final = tuple(
    attrs.evolve(column, meaning=_MEANINGS.get(column.name, column.meaning))
    for column in RECORDS
    if column.name not in _OF_DIRECTORIES
)
RETRIES: Final = Column("retries", pa.int32(), "questions to the leader that were repeated before this record came")
"""Their sum over the rows is how often the tasks have repeated a question."""


def live_columns(options: LiveOptions) -> tuple[Column, ...]:
    retries = (RETRIES,) if options.include_retries else ()
    if options.content != RECORDS_CONTENT:
        of_replicas = {column.name for column in REPLICA}
        own = (one for one in metadata_columns(options.content, options.types) if one.name not in of_replicas)
        return (LIVE_RECORDS[0], *own, *retries)
    headers = (RECORD_HEADERS,) if options.include_headers else ()
    of_kafka = OF_KAFKAS_SOURCE if options.include_kafka_columns else ()
    return (*LIVE_RECORDS, *headers, *of_kafka, *retries)


def live_schema(given: Mapping[str, str]) -> str:
    """The columns without a user's schema.  Raises ConfigError."""
    options = read_live_options(given)
    if options.is_msgpack:
        raise ConfigError("value.format=msgpack: give the columns of the values with schema(…)")
    return spark_schema(live_columns(options))
