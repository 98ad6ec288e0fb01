"""What mutual TLS on all connections costs a commit: a quorum with it compared with one without."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import attrs

from benchmarks.builds import Run, load_round
from benchmarks.context import Context
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.measurement import median_result
from benchmarks.report import Aim, Section
from tests.support.certificates import authority, client_of, issue, tls_keys, write_client_file

PLAINTEXT: Final = "plaintext"
MUTUAL_TLS: Final = "mTLS"
IN_FLIGHT: Final = (1, 64)
AIM: Final = 1.25
COLUMNS: Final = ("connections, in flight", "p50 ms", "p99 ms", "per second", "client CPU µs/op", "servers' CPU µs/op")
METHOD: Final = (
    "Single records of 1 KiB sent to the leader of three. The client's and the nodes' connections are plain TCP, or "
    "TLS 1.3 with certificates on both sides. Both quorums run all the time and are loaded in turn; medians over "
    "{rounds} rounds of {seconds} s each."
)


Runs = dict[int, dict[str, list[Run]]]
"""The rounds by how many are in flight, and by the kind of connections."""


async def measure(context: Context) -> Section:
    rounds, seconds = context.pick(7, 3), context.pick(10, 3)
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(context.fresh_directory("tls"))
        clusters = {}
        for kind in (PLAINTEXT, MUTUAL_TLS):
            context.say(f"starting three nodes: {kind}")
            clusters[kind] = await stack.enter_async_context(
                KraftCluster.started(
                    directory / kind,
                    context.overrides,
                    by_node=_keys(directory) if kind == MUTUAL_TLS else {},
                    client_tls=client_of(issue(authority(), "benchmark")) if kind == MUTUAL_TLS else None,
                )
            )
        files = _client_files(directory)
        runs: Runs = {in_flight: {kind: [] for kind in clusters} for in_flight in IN_FLIGHT}
        for in_flight, by_kind in runs.items():
            for number in range(rounds):
                for kind in by_kind if number % 2 == 0 else reversed(by_kind):
                    run = await load_round(clusters[kind], in_flight, seconds, "--command-config", files[kind])
                    by_kind[kind].append(run)
                    numbers = f"{kind} p50 {run.result.p50_ms:.2f} ms, servers' CPU {run.cpu_us:.0f} µs/op"
                    context.say(f"{in_flight} in flight, round {number + 1} of {rounds}: {numbers}")
    return section_of(runs, METHOD.format(rounds=rounds, seconds=seconds))


def _keys(directory: Path) -> Mapping[int, Mapping[str, str]]:
    """Keys of each node; the nodes reach each other by their address."""
    return {
        node: {
            "listener.security.protocol.map": "CONTROLLER:SSL",
            **tls_keys(directory, f"node-{node}", issue(authority(), f"node-{node}", "127.0.0.1")),
        }
        for node in (1, 2, 3)
    }


def _client_files(directory: Path) -> dict[str, str]:
    keys = tls_keys(directory, "client")
    return {
        PLAINTEXT: write_client_file(directory / "plaintext.properties", {"security.protocol": "PLAINTEXT"}),
        MUTUAL_TLS: write_client_file(directory / "mtls.properties", keys),
    }


def section_of(runs: Runs, method: str) -> Section:
    """Make the table: for each number in flight a row for each kind, and the ratio; the aim is for one in flight."""
    rows: list[tuple[str, ...]] = []
    ratios: dict[int, float] = {}
    for in_flight, by_kind in runs.items():
        numbers = {kind: _numbers(rounds) for kind, rounds in by_kind.items()}
        rows += [(f"{kind}, {in_flight}", *_cells(row)) for kind, row in numbers.items()]
        quotients = [mine / other for mine, other in zip(numbers[MUTUAL_TLS], numbers[PLAINTEXT], strict=True)]
        rows.append((f"ratio, {in_flight}", *(f"{quotient:.2f}" for quotient in quotients)))
        ratios[in_flight] = quotients[0]
    return Section(
        name="tls",
        title="Commits with mutual TLS",
        method=method,
        columns=COLUMNS,
        rows=tuple(rows),
        aims=(Aim(f"p50 of one in flight at most {AIM} × plaintext's", f"{ratios[1]:.2f} ×", ratios[1] <= AIM),),
        data={
            str(in_flight): {kind: [attrs.asdict(run) for run in rounds] for kind, rounds in by_kind.items()}
            for in_flight, by_kind in runs.items()
        },
    )


def _numbers(rounds: list[Run]) -> tuple[float, ...]:
    median = median_result([run.result for run in rounds])
    cpu_us = statistics.median(run.cpu_us for run in rounds)
    return median.p50_ms, median.p99_ms, median.per_second, median.client_cpu_us, cpu_us


def _cells(numbers: tuple[float, ...]) -> tuple[str, ...]:
    p50, p99, per_second, client, servers = numbers
    return f"{p50:.3f}", f"{p99:.3f}", f"{per_second:,.0f}", f"{client:.0f}", f"{servers:.0f}"
