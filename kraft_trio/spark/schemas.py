"""The columns of all tables that the sources provide.

Each table is a tuple of columns, from which Spark's and Arrow's schemas are made.  Any column may be null if its value
could not be read; `error` then says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs
import pyarrow as pa

from kraft_trio.metadata.entities import ENTITIES

_TIMESTAMP = pa.timestamp("us", tz="UTC")


@attrs.frozen
class Column:
    """One column: name, type and meaning."""

    name: str
    type: pa.DataType
    meaning: str

    @property
    def spark_type(self) -> str:
        """The type's name in Spark SQL."""
        return spark_type(self.type)


def _list(item: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", item))


ENDPOINTS = _list(pa.struct({"name": pa.string(), "host": pa.string(), "port": pa.int32()}))
VOTERS = _list(pa.struct({"id": pa.int32(), "directory_id": pa.string(), "endpoints": ENDPOINTS}))
REPLICAS = _list(pa.struct({"id": pa.int32(), "directory_id": pa.string()}))
HEADERS = _list(pa.struct({"key": pa.string(), "value": pa.binary()}))
"""With the names that Spark's Kafka source has."""

REPLICA = (
    Column("directory", pa.string(), "directory of the replica"),
    Column("cluster_id", pa.string(), "from `meta.properties`; null without that file"),
    Column("node", pa.int32(), "node id from `meta.properties`; null without that file"),
    Column("directory_id", pa.string(), "from `meta.properties`; null before KIP-853"),
)
"""The first columns of each row that comes from a directory."""

ERROR = Column("error", pa.string(), "the problem at this place; otherwise null")

_PLACE = (
    Column("segment", pa.int64(), "first offset of the segment, from its file name"),
    Column("position", pa.int64(), "position of the batch in its file, in bytes"),
)
_SNAPSHOT_PLACE = (
    Column("snapshot_end_offset", pa.int64(), "from the snapshot's file name, exclusive"),
    Column("snapshot_epoch", pa.int32(), "from the snapshot's file name"),
    Column("position", pa.int64(), "position of the batch in its file, in bytes"),
)
_RECORD = (
    Column("batch_offset", pa.int64(), "first offset of the batch"),
    Column("offset", pa.int64(), "of the record"),
    Column("epoch", pa.int32(), "leader epoch of the batch"),
    Column("timestamp", _TIMESTAMP, "of the record; with log-append time, of the batch"),
    Column("control", pa.bool_(), "whether it is in a control batch"),
    Column(
        "control_type",
        pa.string(),
        "LeaderChange, SnapshotHeader, SnapshotFooter, KRaftVersion, Voters, or a number",
    ),
    Column("key", pa.binary(), "the key; may be null"),
    Column("value", pa.binary(), "the value; may be null"),
)
_RECORD_END = (
    Column("crc_ok", pa.bool_(), "whether the batch's CRC is correct"),
    Column("size", pa.int32(), "bytes of the record with its length; in a row with `error`, bytes skipped"),
)
RECORD_HEADERS = Column("headers", HEADERS, "the record's headers, with `includeHeaders=true`")

OF_KAFKAS_SOURCE = (
    Column("topic", pa.string(), "the topic"),
    Column("partition", pa.int32(), "0"),
    Column("timestampType", pa.int32(), "0 for CreateTime, 1 for LogAppendTime"),
)
"""Columns of Spark's Kafka source, with `includeKafkaColumns=true`."""

BATCHES = (
    *REPLICA,
    *_PLACE,
    Column("size", pa.int32(), "bytes of the batch with its header; in a row with `error`, bytes skipped"),
    Column("base_offset", pa.int64(), "first offset"),
    Column("last_offset", pa.int64(), "last offset, inclusive"),
    Column("epoch", pa.int32(), "leader epoch"),
    Column("magic", pa.int32(), "format version: 2"),
    Column("compression", pa.string(), "none, gzip, snappy, lz4, zstd, or a number"),
    Column("control", pa.bool_(), "whether it is a control batch"),
    Column("transactional", pa.bool_(), "whether it belongs to a transaction"),
    Column("timestamp_type", pa.string(), "CreateTime or LogAppendTime"),
    Column("base_timestamp", _TIMESTAMP, "base of the records' timestamps"),
    Column("max_timestamp", _TIMESTAMP, "latest timestamp of a record"),
    Column("producer_id", pa.int64(), "of an idempotent producer; otherwise -1"),
    Column("producer_epoch", pa.int32(), "of an idempotent producer; otherwise -1"),
    Column("base_sequence", pa.int32(), "sequence of its first record; otherwise -1"),
    Column("record_count", pa.int32(), "number of records in the header"),
    Column("crc", pa.int64(), "CRC-32C in the header"),
    Column("content_crc", pa.int64(), "CRC-32C of the actual bytes, from the attributes on"),
    Column("crc_ok", pa.bool_(), "whether the two are equal"),
    ERROR,
)
RECORDS = (*REPLICA, *_PLACE, *_RECORD, *_RECORD_END, ERROR)
CONTROL = (
    *REPLICA,
    *_PLACE,
    Column("batch_offset", pa.int64(), "first offset of the batch"),
    Column("offset", pa.int64(), "of the record"),
    Column("epoch", pa.int32(), "leader epoch of the batch"),
    Column("timestamp", _TIMESTAMP, "of the record"),
    Column("type", pa.string(), "LeaderChange, SnapshotHeader, SnapshotFooter, KRaftVersion, Voters, or a number"),
    Column("version", pa.int32(), "of the record's value"),
    Column("leader_id", pa.int32(), "LeaderChange: the leader of the epoch"),
    Column("voter_ids", _list(pa.int32()), "ids of the voters in LeaderChange or Voters"),
    Column("granting_voters", _list(pa.int32()), "LeaderChange: the voters that elected the leader"),
    Column("voters", VOTERS, "Voters: the set from this offset on"),
    Column("target", REPLICAS, "Voters: the target of a reassignment"),
    Column("kraft_version", pa.int32(), "KRaftVersion: the version from this offset on"),
    Column("crc_ok", pa.bool_(), "whether the batch's CRC is correct"),
    ERROR,
)
SNAPSHOTS = (
    *REPLICA,
    Column("end_offset", pa.int64(), "end of the covered records (exclusive), from the file name"),
    Column("epoch", pa.int32(), "epoch of the last covered record, from the file name"),
    Column("size", pa.int64(), "size of the file in bytes"),
    Column("sha256", pa.string(), "hash of the file, in hex"),
    Column(
        "content_sha256",
        pa.string(),
        "hash of the records' control flags, keys, values and headers",
    ),
    Column("record_count", pa.int64(), "number of application records"),
    Column("kraft_version", pa.int32(), "kraft.version at its end"),
    Column("voters", VOTERS, "voters at its end; null at kraft.version 0"),
    Column("target", REPLICAS, "target of a reassignment at its end"),
    Column("last_contained_timestamp", _TIMESTAMP, "append time of the last covered record"),
    Column("valid", pa.bool_(), "whether it is whole and correct"),
    ERROR,
)
SNAPSHOT_RECORDS = (*REPLICA, *_SNAPSHOT_PLACE, *_RECORD, *_RECORD_END, ERROR)
LATEST_BY_KEY = (
    *REPLICA,
    Column(
        "snapshot_end_offset", pa.int64(), "end of the snapshot that has the record (exclusive); null for the log's"
    ),
    Column("offset", pa.int64(), "of the record in the log; null for a snapshot's"),
    Column("epoch", pa.int32(), "leader epoch of the batch"),
    Column("timestamp", _TIMESTAMP, "of the record; with log-append time, of the batch"),
    Column("key", pa.binary(), "the key; may be null"),
    Column("value", pa.binary(), "the value; may be null"),
    ERROR,
)
QUORUM_STATE = (
    *REPLICA,
    Column("leader_id", pa.int32(), "known leader in the epoch; otherwise null"),
    Column("leader_epoch", pa.int32(), "the epoch"),
    Column("voted_id", pa.int32(), "candidate voted for in the epoch; otherwise null"),
    Column("voted_directory_id", pa.string(), "that candidate's directory id; null if unknown"),
    Column("data_version", pa.int32(), "0 for kraft.version 0, 1 for 1"),
    Column("crc_ok", pa.bool_(), "whether the CRC in line 2 matches line 1; null for Kafka's files"),
    ERROR,
)
EPOCHS = (
    *REPLICA,
    Column("epoch", pa.int32(), "a leader epoch"),
    Column("start_offset", pa.int64(), "offset of its first record"),
    ERROR,
)

TRACE = (
    Column("file", pa.string(), "the trace's file"),
    Column("run", pa.string(), "the file, or for a real node the cluster id"),
    Column("seed", pa.int64(), "of a simulated run; null for a real node"),
    Column("sequence", pa.int64(), "position of the event in the run, from 0"),
    Column("time_us", pa.int64(), "microseconds since the run began, or for a real node since 1970"),
    Column("node", pa.int32(), "id of the node; null if the world or a client acts"),
    Column("kind", pa.string(), "what happened, [a kind](docs/reference/traces.md#kinds-of-event)"),
    Column("epoch", pa.int32(), "the node's epoch"),
    Column("role", pa.string(), "the node's role"),
    Column("leader", pa.int32(), "the leader it knows in that epoch"),
    Column("log_end", pa.int64(), "end of its log, exclusive"),
    Column("synced_end", pa.int64(), "end of the fsynced log, exclusive"),
    Column("high_watermark", pa.int64(), "end of the records it knows to be committed, exclusive"),
    Column("voters", _list(pa.int32()), "ids of the newest voter set in its log"),
    Column("cause", pa.string(), "the reason, in words"),
    Column("details", pa.string(), "further fields by `kind`, as a JSON object"),
    ERROR,
)

CONTENTS: Mapping[str, tuple[Column, ...]] = {
    "records": RECORDS,
    "batches": BATCHES,
    "control": CONTROL,
    "snapshots": SNAPSHOTS,
    "snapshot-records": SNAPSHOT_RECORDS,
    "latest-by-key": LATEST_BY_KEY,
    "quorum-state": QUORUM_STATE,
    "epochs": EPOCHS,
}
"""The columns by the value of the option `content`, for all but METADATA_CONTENTS."""

METADATA = "metadata"
CHANGES = "changes"
STATES = tuple(ENTITIES)
"""One for each kind of thing."""
METADATA_CONTENTS = (METADATA, CHANGES, *STATES)
"""The values of `content` about Apache Kafka's metadata: `spark.metadata.contents` has their columns."""


def spark_schema(columns: Iterable[Column]) -> str:
    """Spark's schema of these columns as text; all columns are nullable."""
    return ", ".join(f"{_quoted(column.name)} {column.spark_type}" for column in columns)


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Arrow's schema of these columns, as Spark expects it from a data source."""
    return pa.schema([(column.name, column.type) for column in columns])


_NAMES: Mapping[pa.DataType, str] = {
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    _TIMESTAMP: "timestamp",
}


def spark_type(type: pa.DataType) -> str:
    """The name of a type in Spark SQL."""
    if pa.types.is_list(type):
        return f"array<{spark_type(type.value_type)}>"
    if pa.types.is_struct(type):
        fields = (type.field(at) for at in range(type.num_fields))
        return f"struct<{', '.join(f'{_quoted(field.name)}: {spark_type(field.type)}' for field in fields)}>"
    if pa.types.is_map(type):
        return f"map<{spark_type(type.key_type)}, {spark_type(type.item_type)}>"
    return _NAMES[type]


def _quoted(name: str) -> str:
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"
