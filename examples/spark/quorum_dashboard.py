"""Shows live tables of a quorum's health, from a stream that polls the leader.

    python quorum_dashboard.py host:9093,host:9094 --every "2 seconds"

While the stream runs, any SQL of the session can read these tables.  `polls` has a row per replica and poll.  On top of
it, `replicas` shows the present, `leadership` who led each epoch and when, `lag` the lag by minute, and `outages` the
polls without a leader.  The program prints them after each poll until Ctrl-C, newest first.  They stay in memory:
50,000 rows a day for three replicas.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
import trio
from pyspark.sql import SparkSession

from kraft_trio import AdminClient, NoLeader, QuorumDescription
from kraft_trio.config.values import parse_peer
from kraft_trio.spark import session

POLL = (
    "polled_at timestamp, leader int, epoch int, high_watermark bigint, node int, role string, log_end bigint, "
    "lag bigint, silent_ms bigint, problem string"
)

# Each view reads `polls` once: the stream may add a poll between two reads.
VIEWS = {
    "replicas": """
        select node, role, log_end, lag, silent_ms from (select *, max(polled_at) over () as latest from polls)
        where polled_at = latest and node is not null order by role, node""",
    "leadership": """
        select epoch, leader, min(polled_at) as seen_from, max(polled_at) as seen_to from polls
        where leader is not null group by epoch, leader order by epoch desc""",
    "lag": """
        select date_trunc('minute', polled_at) as minute, node, max(lag) as max_lag, max(silent_ms) as max_silent_ms
        from polls where node is not null group by all order by minute desc, node""",
    "outages": """
        select polled_at, problem from polls where problem is not null order by polled_at desc""",
}
ROWS_SHOWN = 6
PATIENCE_MS = 10_000  # How long a node may take to answer: one on a busy machine is slow, and no outage.
CLEAR_SCREEN = "\033[2J\033[H"


def poll(controllers: str, ticks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Ask the leader once per tick; without a leader, the single row holds each node's view."""
    client = AdminClient([parse_peer(text) for text in controllers.split(",")], request_timeout_ms=PATIENCE_MS)
    for _ in (row for batch in ticks for row in range(batch.num_rows)):
        quorum = trio.run(client.describe_metadata_quorum)
        polled_at = time.time_ns() // 1000
        if isinstance(quorum, NoLeader):
            rows: list[dict[str, object]] = [{"problem": "; ".join(map(str, quorum.views))}]
        else:
            rows = described(quorum)
        yield pa.RecordBatch.from_pylist([{"polled_at": polled_at, **row} for row in rows], ARROW_POLL)


def described(quorum: QuorumDescription) -> list[dict[str, object]]:
    of_quorum = {
        "leader": quorum.leader_id,
        "epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
    }
    return [
        {
            **of_quorum,
            "node": state.key.id,
            "role": role if state.key.id != quorum.leader_id else "leader",
            "log_end": state.log_end_offset,
            "lag": quorum.lag(state),
            "silent_ms": max(0, quorum.now_ms - state.last_fetch_timestamp_ms),
        }
        for role, states in (("voter", quorum.voters), ("observer", quorum.observers))
        for state in states
    ]


ARROW_POLL = pa.schema(
    [
        ("polled_at", pa.timestamp("us", tz="UTC")),
        ("leader", pa.int32()),
        ("epoch", pa.int32()),
        ("high_watermark", pa.int64()),
        ("node", pa.int32()),
        ("role", pa.string()),
        ("log_end", pa.int64()),
        ("lag", pa.int64()),
        ("silent_ms", pa.int64()),
        ("problem", pa.string()),
    ]
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("controllers", help="any nodes of the quorum")
    parser.add_argument("--every", default="5 seconds", help="how often the leader is asked")
    parser.add_argument("--polls", type=int, help="end after this many polls (default: never)")
    arguments = parser.parse_args()

    spark = session(app_name="quorum-dashboard")
    spark.sparkContext.setLogLevel("ERROR")  # Between the tables Spark's warnings are in the way.
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
    polls = ticks.mapInArrow(partial(poll, arguments.controllers), POLL)
    query = polls.writeStream.format("memory").queryName("polls").trigger(processingTime=arguments.every).start()
    for name, sql in VIEWS.items():
        spark.sql(f"create or replace temporary view {name} as {sql}")
    shown = 0
    try:
        while query.isActive and (arguments.polls is None or shown < arguments.polls):
            progress = query.lastProgress
            if progress is None or progress["batchId"] < shown:
                query.awaitTermination(1)
                continue
            shown = progress["batchId"] + 1
            show(spark, shown)
        if (failure := query.exception()) is not None:
            raise failure
    except KeyboardInterrupt:
        pass
    finally:
        query.stop()


def show(spark: SparkSession, polls: int) -> None:
    """Print the tables; on a terminal, replace the previous ones."""
    if sys.stdout.isatty():
        print(CLEAR_SCREEN, end="")
    print(f"\n== poll {polls}")
    for name in VIEWS:
        rows = spark.table(name)
        if not rows.isEmpty():
            print(f"\n{name}")
            rows.show(ROWS_SHOWN, truncate=False)


if __name__ == "__main__":
    main()
