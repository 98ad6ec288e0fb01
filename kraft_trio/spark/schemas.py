"""The columns of every table that the sources of this package give.

Each table is a tuple of columns; Spark's schema and Arrow's are made from it.  Any column may be null where what it
says could not be read; `error` then says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs
import pyarrow as pa

_TIMESTAMP = pa.timestamp("us", tz="UTC")


@attrs.frozen
class Column:
    """One column: its name, its type, and what it says."""

    name: str
    type: pa.DataType
    meaning: str

    @property
    def spark_type(self) -> str:
        """As Spark's SQL names it."""
        return spark_type(self.type)


def _list(item: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", item))


ENDPOINTS = _list(pa.struct({"name": pa.string(), "host": pa.string(), "port": pa.int32()}))
VOTERS = _list(pa.struct({"id": pa.int32(), "directory_id": pa.string(), "endpoints": ENDPOINTS}))
HEADERS = _list(pa.struct({"name": pa.string(), "value": pa.binary()}))

REPLICA = (
    Column("directory", pa.string(), "the replica's directory, as the path or glob led to it"),
    Column("cluster_id", pa.string(), "of `meta.properties`; null where there is none"),
    Column("node", pa.int32(), "the node's id, of `meta.properties`; null where there is none"),
    Column("directory_id", pa.string(), "of `meta.properties`, as Kafka writes it; null in files older than KIP-853"),
)
"""What each row of a directory begins with."""

ERROR = Column("error", pa.string(), "null, or what is wrong at this place, in words")

_PLACE = (
    Column("segment", pa.int64(), "the first offset of the segment, as its file is named"),
    Column("position", pa.int64(), "of the batch in its file, in bytes"),
)
_SNAPSHOT_PLACE = (
    Column("snapshot_end_offset", pa.int64(), "of the snapshot's name, exclusive"),
    Column("snapshot_epoch", pa.int32(), "of the snapshot's name"),
    Column("position", pa.int64(), "of the batch in its file, in bytes"),
)
_RECORD = (
    Column("batch_offset", pa.int64(), "the first offset of the batch"),
    Column("offset", pa.int64(), "of the record"),
    Column("epoch", pa.int32(), "the leader epoch of the batch"),
    Column("timestamp", _TIMESTAMP, "of the record; with log-append time, the batch's"),
    Column("control", pa.bool_(), "whether the batch is a control batch"),
    Column(
        "control_type",
        pa.string(),
        "of a control record: LeaderChange, SnapshotHeader, SnapshotFooter, KRaftVersion, Voters, or the type's number",
    ),
    Column("key", pa.binary(), "the key; null where it is null"),
    Column("value", pa.binary(), "the value; null where it is null"),
)
_RECORD_END = (
    Column("crc_ok", pa.bool_(), "whether the CRC in the batch's header is that of its bytes"),
    Column(
        "size", pa.int32(), "bytes of the record, its length included; of what was passed over, in a row with `error`"
    ),
)
RECORD_HEADERS = Column("headers", HEADERS, "the record's headers; only with `includeHeaders=true`")

BATCHES = (
    *REPLICA,
    *_PLACE,
    Column(
        "size", pa.int32(), "bytes of the batch, the header included; of what was passed over, in a row with `error`"
    ),
    Column("base_offset", pa.int64(), "the first offset"),
    Column("last_offset", pa.int64(), "the last offset, inclusive"),
    Column("epoch", pa.int32(), "the leader epoch"),
    Column("magic", pa.int32(), "the format version: 2"),
    Column("compression", pa.string(), "none, gzip, snappy, lz4, zstd; else the number"),
    Column("control", pa.bool_(), "whether it is a control batch"),
    Column("transactional", pa.bool_(), "whether it belongs to a transaction"),
    Column("timestamp_type", pa.string(), "CreateTime or LogAppendTime"),
    Column("base_timestamp", _TIMESTAMP, "what the records' times count from"),
    Column("max_timestamp", _TIMESTAMP, "the latest time of a record; with log-append time, that of all of them"),
    Column("producer_id", pa.int64(), "of an idempotent producer; -1 for none"),
    Column("producer_epoch", pa.int32(), "of an idempotent producer; -1 for none"),
    Column("base_sequence", pa.int32(), "of an idempotent producer, of the first record; -1 for none"),
    Column("record_count", pa.int32(), "how many records, as the header says"),
    Column("crc", pa.int64(), "CRC-32C as the header has it"),
    Column("content_crc", pa.int64(), "CRC-32C of the bytes from the attributes on, as they are"),
    Column("crc_ok", pa.bool_(), "whether the two are the same"),
    ERROR,
)
RECORDS = (*REPLICA, *_PLACE, *_RECORD, *_RECORD_END, ERROR)
CONTROL = (
    *REPLICA,
    *_PLACE,
    Column("batch_offset", pa.int64(), "the first offset of the batch"),
    Column("offset", pa.int64(), "of the record"),
    Column("epoch", pa.int32(), "the leader epoch of the batch"),
    Column("timestamp", _TIMESTAMP, "of the record"),
    Column(
        "type", pa.string(), "LeaderChange, SnapshotHeader, SnapshotFooter, KRaftVersion, Voters, or the type's number"
    ),
    Column("version", pa.int32(), "of the record's value"),
    Column("leader_id", pa.int32(), "LeaderChange: the leader of the epoch"),
    Column("voter_ids", _list(pa.int32()), "LeaderChange: the voters of the epoch's begin; Voters: their ids"),
    Column("granting_voters", _list(pa.int32()), "LeaderChange: the ids of those who voted for the leader"),
    Column("voters", VOTERS, "Voters: the whole set from this offset on"),
    Column("kraft_version", pa.int32(), "KRaftVersion: the version from this offset on"),
    Column("crc_ok", pa.bool_(), "whether the CRC in the batch's header is that of its bytes"),
    ERROR,
)
SNAPSHOTS = (
    *REPLICA,
    Column("end_offset", pa.int64(), "the end of what it covers, exclusive, of its name"),
    Column("epoch", pa.int32(), "of the last record it covers, of its name"),
    Column("size", pa.int64(), "bytes of the file"),
    Column("sha256", pa.string(), "of the file's bytes, in hex"),
    Column(
        "content_sha256",
        pa.string(),
        "of what its records say: the control flag, key, value and headers of each; the same whenever and however it "
        "was written",
    ),
    Column("record_count", pa.int64(), "the application's records"),
    Column("kraft_version", pa.int32(), "what held at its end"),
    Column("voters", VOTERS, "the voters at its end; null at kraft.version 0"),
    Column("last_contained_timestamp", _TIMESTAMP, "append time of the last record it covers"),
    Column("valid", pa.bool_(), "whether it is whole and every CRC, offset, epoch and record in it is right"),
    ERROR,
)
SNAPSHOT_RECORDS = (*REPLICA, *_SNAPSHOT_PLACE, *_RECORD, *_RECORD_END, ERROR)
QUORUM_STATE = (
    *REPLICA,
    Column("leader_id", pa.int32(), "the leader this replica knows in the epoch; null for none"),
    Column("leader_epoch", pa.int32(), "the epoch"),
    Column("voted_id", pa.int32(), "whom it has voted for in the epoch; null for nobody"),
    Column("voted_directory_id", pa.string(), "the directory id of that one, as Kafka writes it; null for unknown"),
    Column("data_version", pa.int32(), "0 goes with kraft.version 0, 1 with 1"),
    Column("crc_ok", pa.bool_(), "whether the CRC in line 2 is that of line 1; null in Kafka's files, which have none"),
    ERROR,
)
EPOCHS = (
    *REPLICA,
    Column("epoch", pa.int32(), "a leader epoch"),
    Column("start_offset", pa.int64(), "the offset of its first record"),
    ERROR,
)

TRACE = (
    Column("file", pa.string(), "the trace's file"),
    Column("run", pa.string(), "which run it is of: the file, for a real node's trace the cluster id"),
    Column("seed", pa.int64(), "of a simulated run; null for a real node's trace"),
    Column("sequence", pa.int64(), "the event's place in the run, from 0 on"),
    Column("time_us", pa.int64(), "in microseconds: since the run began, or for a real node since 1970"),
    Column("node", pa.int32(), "the node's id; null where the world or a client acts"),
    Column("kind", pa.string(), "what happened, see TRACE.md"),
    Column("epoch", pa.int32(), "the node's epoch"),
    Column("role", pa.string(), "the node's role"),
    Column("leader", pa.int32(), "the leader it knows in that epoch"),
    Column("log_end", pa.int64(), "the end of its log, exclusive"),
    Column("synced_end", pa.int64(), "the end of what it has fsynced, exclusive"),
    Column("high_watermark", pa.int64(), "the end of what it knows to be committed, exclusive"),
    Column("voters", _list(pa.int32()), "the ids of the newest voter set in its log"),
    Column("cause", pa.string(), "why, for a human"),
    Column("details", pa.string(), "what else there is to say, by `kind`: a JSON object"),
    ERROR,
)

CONTENTS: Mapping[str, tuple[Column, ...]] = {
    "records": RECORDS,
    "batches": BATCHES,
    "control": CONTROL,
    "snapshots": SNAPSHOTS,
    "snapshot-records": SNAPSHOT_RECORDS,
    "quorum-state": QUORUM_STATE,
    "epochs": EPOCHS,
}
"""The columns by the value of the option `content`."""


def spark_schema(columns: Iterable[Column]) -> str:
    """Spark's schema of those columns, in text; every column may be null."""
    return ", ".join(f"{_quoted(column.name)} {column.spark_type}" for column in columns)


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Arrow's schema of those columns, as Spark expects it of a data source."""
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
    """The name that Spark's SQL has for a type of these tables."""
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
