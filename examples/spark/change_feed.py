"""Writes the changes of a replicated log to Parquet, with a column for each field of its MessagePack values.

    python change_feed.py host:9093,host:9094 DIRECTORY --columns "payer string, payee string, amount bigint"

It runs until Ctrl-C and continues after a restart; with --once it ends at the current end, as for a cron job.
DIRECTORY/changes has the Parquet files, and DIRECTORY/checkpoint the position.  Every committed value occurs exactly
once.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

from kraft_trio.spark import session

OF_THE_LOG = "offset bigint, epoch int, timestamp timestamp, value_tag string"
"""`value_tag` is the class of a value written by `kraft_trio.MsgpackSerde`."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("controllers", help="any nodes of the quorum: host:port,host:port,…")
    parser.add_argument("directory", type=Path, help="where the files go")
    parser.add_argument("--columns", required=True, help="the wanted fields of the values, as Spark's DDL")
    parser.add_argument("--once", action="store_true", help="end at the current committed end")
    arguments = parser.parse_args()

    changes = (
        session(app_name="change-feed")
        .readStream.format("kraft")
        .option("bootstrapControllers", arguments.controllers)
        .option("value.format", "msgpack")
        .schema(f"{OF_THE_LOG}, {arguments.columns}")
        .load()
        .withColumn("day", f.to_date("timestamp"))
    )
    writing = (
        changes.writeStream.format("parquet")
        .partitionBy("day")
        .option("checkpointLocation", str(arguments.directory / "checkpoint"))
    )
    writing = writing.trigger(availableNow=True) if arguments.once else writing.trigger(processingTime="10 seconds")
    query = writing.start(str(arguments.directory / "changes"))
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
    print(told(query))


def told(query: StreamingQuery) -> str:
    """The position reached, for the log."""
    last = query.lastProgress
    if last is None or not last["sources"][0]["endOffset"]:
        return "nothing new"
    reached = json.loads(last["sources"][0]["endOffset"])
    return f"all changes before offset {reached['offset']} of cluster {reached['clusterId']} are written"


if __name__ == "__main__":
    main()
