"""The arithmetic under the published numbers."""

from __future__ import annotations

import time

import pytest

from benchmarks.etcd_messages import put_request, range_request
from benchmarks.measurement import LoadResult, Stopwatch, median_result, percentile


@pytest.mark.parametrize(
    ("count", "fraction", "expected"),
    [
        (1, 0.5, 1),
        (2, 0.5, 1),
        (3, 0.5, 2),
        (100, 0.50, 50),
        (100, 0.99, 99),
        (101, 0.99, 100),
        (1000, 0.999, 999),
        (10, 1.0, 10),
        (10, 0.001, 1),
    ],
)
def test_percentile_is_the_nearest_rank(count: int, fraction: float, expected: int) -> None:
    assert percentile([float(value) for value in range(1, count + 1)], fraction) == expected


def test_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 0.5)


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.01])
def test_percentile_names_a_fraction_that_is_none(fraction: float) -> None:
    with pytest.raises(ValueError, match=str(fraction)):
        percentile([1.0], fraction)


def test_warm_up_operations_count_for_work_but_not_for_latency() -> None:
    watch = Stopwatch("client", warm_up_seconds=0.0, seconds=1.0)
    watch.record(watch.measure_from - 0.5, watch.measure_from + 100)
    watch.record(watch.measure_from, watch.measure_from + 0.010)
    watch.record(watch.measure_from + 0.020, watch.measure_from + 0.050)
    result = watch.result()
    assert (result.operations, result.all_operations) == (2, 3)
    assert result.p50_ms == pytest.approx(10)
    assert result.max_ms == pytest.approx(30)


def test_a_load_that_got_no_answer_has_no_result() -> None:
    with pytest.raises(ValueError, match="no samples"):
        Stopwatch("client", 0.0, 0.0).result()


def test_a_results_seconds_last_until_the_last_worker_stopped() -> None:
    before = time.perf_counter()
    watch = Stopwatch("client", 0.0, 0.0)
    watch.record(watch.measure_from, watch.measure_from)
    while time.perf_counter() < before + 0.02:
        pass
    assert watch.result().seconds >= 0.019


def test_the_median_is_taken_per_number_and_the_maximum_over_all() -> None:
    rounds = [
        LoadResult(
            client="c",
            operations=100 * factor,
            seconds=1.0,
            p50_ms=factor,
            p75_ms=1.5 * factor,
            p90_ms=2 * factor,
            p99_ms=3 * factor,
            max_ms=10 * factor,
            client_cpu_us=5 * factor,
            all_operations=110 * factor,
        )
        for factor in (3, 1, 2)
    ]
    assert median_result(rounds) == LoadResult("c", 200, 1.0, 2, 3, 4, 6, 30, 10, 660)


def test_results_survive_the_load_programs_output() -> None:
    result = LoadResult("c", 7, 1.5, 0.1, 0.15, 0.2, 0.3, 0.4, 55.5, 9)
    assert LoadResult.from_json(result.to_json()) == result


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        (put_request(b"k", b"v"), b"\x0a\x01k\x12\x01v"),
        (put_request(b"k", b"x" * 127), b"\x0a\x01k\x12\x7f" + b"x" * 127),
        (put_request(b"k", b"x" * 128), b"\x0a\x01k\x12\x80\x01" + b"x" * 128),
        (put_request(b"key", b"x" * 1024), b"\x0a\x03key\x12\x80\x08" + b"x" * 1024),
        (range_request(b"a", serializable=True), b"\x0a\x01a\x38\x01"),
    ],
)
def test_etcd_requests_are_protobuf(encoded: bytes, expected: bytes) -> None:
    assert encoded == expected
