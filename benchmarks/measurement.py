"""What a load program measured, and the little statistics over it."""

from __future__ import annotations

import json
import resource
import statistics
import time
from collections.abc import Sequence

import attrs


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """The nearest-rank percentile of an ascending sequence; `fraction` in (0, 1].

    Raises ValueError when there is nothing to take it of.
    """
    if not ordered:
        raise ValueError("no samples: a percentile needs at least one")
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction {fraction}: expected a number above 0 and up to 1")
    rank = -int(-fraction * len(ordered) // 1)
    return ordered[rank - 1]


@attrs.frozen
class LoadResult:
    """One run of one load program.  Latencies are those of single operations, from call to acknowledgement."""

    client: str
    operations: int
    """Operations acknowledged in the measured time."""
    seconds: float
    p50_ms: float
    p75_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float
    client_cpu_us: float
    """Processor time of the load program for one operation, in microseconds: what the client takes from the servers."""
    all_operations: int
    """Operations acknowledged since the load program began, the warm-up included."""

    @property
    def per_second(self) -> float:
        return self.operations / self.seconds

    def to_json(self) -> str:
        return json.dumps(attrs.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> LoadResult:
        return cls(**json.loads(text))


class Stopwatch:
    """Collects the latencies of operations that *began* at or after the end of the warm-up.

    Owned by one load program; call `record` from one thread at a time, or from several that only share the list.
    """

    def __init__(self, client: str, warm_up_seconds: float, seconds: float) -> None:
        self._client = client
        self._latencies_s: list[float] = []
        self._warm_up_operations = 0
        begin = time.perf_counter()
        self.measure_from = begin + warm_up_seconds
        self.end = self.measure_from + seconds
        self._cpu_s_at_start: float | None = None

    def begin(self, began: float) -> None:
        """Count processor time from here on, if the operation that begins is not of the warm-up.

        `record` does so, too, but the first operation of an overloaded open loop may end late.
        """
        if began >= self.measure_from and self._cpu_s_at_start is None:
            self._cpu_s_at_start = own_cpu_seconds()

    def record(self, began: float, ended: float) -> None:
        """Count one acknowledged operation; both times are time.perf_counter() seconds."""
        self.begin(began)
        if began >= self.measure_from:
            self._latencies_s.append(ended - began)
        else:
            self._warm_up_operations += 1

    def result(self) -> LoadResult:
        """The result; call it when every worker has stopped.  Raises ValueError when nothing was acknowledged."""
        seconds = time.perf_counter() - self.measure_from
        cpu_s = own_cpu_seconds() - (self._cpu_s_at_start or 0.0)
        ordered = sorted(self._latencies_s)
        return LoadResult(
            client=self._client,
            operations=len(ordered),
            seconds=seconds,
            p50_ms=percentile(ordered, 0.50) * 1000,
            p75_ms=percentile(ordered, 0.75) * 1000,
            p90_ms=percentile(ordered, 0.90) * 1000,
            p99_ms=percentile(ordered, 0.99) * 1000,
            max_ms=ordered[-1] * 1000,
            client_cpu_us=cpu_s / len(ordered) * 1e6,
            all_operations=len(ordered) + self._warm_up_operations,
        )


def own_cpu_seconds() -> float:
    """User and system time this process has used."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


@attrs.frozen
class ProducerResult:
    """One run of an ordinary client that batches by itself."""

    client: str
    records: int
    """Records acknowledged."""
    failed: int
    """Records the client gave up."""
    seconds: float
    """From the first record given to the client to the last acknowledgement."""
    client_cpu_us: float
    """Processor time of the load program for one record, in microseconds."""

    @property
    def per_second(self) -> float:
        return self.records / self.seconds

    def to_json(self) -> str:
        return json.dumps(attrs.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ProducerResult:
        return cls(**json.loads(text))


def median_result(results: Sequence[LoadResult]) -> LoadResult:
    """The median of each number over the rounds of one measurement (not one of the rounds)."""
    return LoadResult(
        client=results[0].client,
        operations=round(statistics.median(result.operations for result in results)),
        seconds=statistics.median(result.seconds for result in results),
        p50_ms=statistics.median(result.p50_ms for result in results),
        p75_ms=statistics.median(result.p75_ms for result in results),
        p90_ms=statistics.median(result.p90_ms for result in results),
        p99_ms=statistics.median(result.p99_ms for result in results),
        max_ms=max(result.max_ms for result in results),
        client_cpu_us=statistics.median(result.client_cpu_us for result in results),
        all_operations=sum(result.all_operations for result in results),
    )
