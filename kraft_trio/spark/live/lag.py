"""How far streaming queries are behind the quorums that they read, from the progress that Spark reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)


@attrs.frozen
class SourceLag:
    """One source of a query after a micro-batch."""

    query: str
    """The query's name, or its id without one."""
    batch_id: int
    source: str
    """The source in readable form; Spark's own description names a Java object."""
    cluster_id: str | None
    end_offset: int
    """The offset up to which the query has read, exclusive."""
    latest_offset: int
    """The committed end at the leader when the micro-batch was planned, exclusive."""
    observed: Mapping[str, Mapping[str, Any]]
    """What `DataFrame.observe` has measured in the micro-batch, by the name given to it."""

    @property
    def lag(self) -> int:
        """Committed offsets that are not read yet."""
        return max(0, self.latest_offset - self.end_offset)

    def __str__(self) -> str:
        measured = "".join(f"; {name}: {dict(values)}" for name, values in self.observed.items())
        place = f"offset {self.end_offset} of {self.latest_offset}, {self.lag} behind"
        return f"{self.query}, micro-batch {self.batch_id}: {self.source} at {place}{measured}"


def lags_of(progress: StreamingQueryProgress) -> list[SourceLag]:
    """The lag of each source of a query that is `format("kraft")`."""
    observed = {name: row.asDict() for name, row in progress.observedMetrics.items()}
    found = []
    for one in progress.sources:
        latest, end = _fields(one.latestOffset), _fields(one.endOffset)
        if "source" in latest and "offset" in end:
            found.append(
                SourceLag(
                    progress.name or str(progress.id),
                    progress.batchId,
                    latest["source"],
                    latest["clusterId"],
                    end["offset"],
                    latest["offset"],
                    observed,
                )
            )
    return found


def _fields(offset: str | None) -> dict[str, Any]:
    try:
        fields = json.loads(offset or "null")
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


class LagListener(StreamingQueryListener):
    """Tells `on_lag` of each source after each micro-batch: `spark.streams.addListener(LagListener(print))`.

    Spark calls it in a thread of its own, one event at a time.
    """

    def __init__(self, on_lag: Callable[[SourceLag], object]) -> None:
        self._on_lag = on_lag

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        for lag in lags_of(event.progress):
            self._on_lag(lag)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        pass
