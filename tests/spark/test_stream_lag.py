"""The lag of streaming queries, from the progress that Spark reports."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryProgress

from kraft_trio.spark.live.lag import LagListener, SourceLag, lags_of

JAVA = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@167ddffa"
OURS = {
    "description": JAVA,
    "startOffset": None,
    "endOffset": {"clusterId": "c", "offset": 10, "epoch": 1, "beganAt": 0, "losses": 0},
    "latestOffset": {"source": "kraft[one:9093]", "clusterId": "c", "offset": 33},
    "numInputRows": 7,
    "inputRowsPerSecond": 0.0,
    "processedRowsPerSecond": 0.1,
}


def progress(*sources: dict[str, Any], name: str | None = "copy") -> StreamingQueryProgress:
    """As Spark 4.3 reports it."""
    told = {
        "id": "eae8abd9-82af-49e7-acc1-6aae241efb17",
        "runId": "df9175c1-7635-4e6d-ba4f-e368596b7ab3",
        "name": name,
        "timestamp": "2026-11-26T02:13:47.639Z",
        "batchId": 4,
        "batchDuration": 57,
        "numInputRows": 7,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.1,
        "durationMs": {},
        "stateOperators": [],
        "sources": [dict(source) for source in sources],
        "sink": {"description": "NoopTable", "numOutputRows": 7},
        "observedMetrics": {"kraft": {"rows": 7, "retries": 2}},
    }
    return StreamingQueryProgress.fromJson(json.loads(json.dumps(told)))


def test_a_lag_is_what_is_committed_and_not_read() -> None:
    [lag] = lags_of(progress(OURS))
    assert (lag.query, lag.source, lag.cluster_id) == ("copy", "kraft[one:9093]", "c")
    assert (lag.end_offset, lag.latest_offset, lag.lag) == (10, 33, 23)
    assert lag.observed == {"kraft": {"rows": 7, "retries": 2}}
    assert str(lag) == (
        "copy, micro-batch 4: kraft[one:9093] at offset 10 of 33, 23 behind; kraft: {'rows': 7, 'retries': 2}"
    )


def test_a_leader_that_knows_less_is_no_negative_lag() -> None:
    [lag] = lags_of(progress({**OURS, "latestOffset": {**OURS["latestOffset"], "offset": 9}}, name=None))
    assert lag.lag == 0
    assert lag.query == "eae8abd9-82af-49e7-acc1-6aae241efb17"


@pytest.mark.parametrize(
    "other",
    [
        {"latestOffset": None},
        {"latestOffset": "no JSON"},
        {"latestOffset": {"topic": {"0": 9}}, "endOffset": {"topic": {"0": 9}}},
        {"endOffset": None},
    ],
)
def test_other_sources_are_passed_over(other: dict[str, Any]) -> None:
    assert lags_of(progress({**OURS, **other}, OURS)) == lags_of(progress(OURS))


def test_a_listener_tells_of_each_source() -> None:
    told: list[SourceLag] = []
    LagListener(told.append).onQueryProgress(QueryProgressEvent(progress(OURS, OURS)))
    assert told == lags_of(progress(OURS)) * 2
