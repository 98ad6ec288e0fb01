"""Commit latency of one record, one in flight."""

from __future__ import annotations

import statistics

from benchmarks.context import Context
from benchmarks.report import Aim, Section
from benchmarks.side_by_side import (
    AIM_CPU,
    AIM_TIME,
    COLUMNS,
    ETCD,
    OURS,
    Systems,
    compare,
    data_of,
    rows_of,
)

METHOD = (
    "One record of 1 KiB in flight, sent to the leader and acknowledged when committed by a majority of three, fsync "
    "on. Both clusters run all the time and are loaded in turn; medians over {rounds} rounds of {seconds} s each (max: "
    "over all). The floor is the same client and server with a request that commits nothing."
)


async def measure(context: Context) -> Section:
    rounds, seconds = context.pick(7, 3), context.pick(10, 3)
    async with Systems.started(context, "latency") as systems:
        measured = await compare(context, systems, in_flight=1, rounds=rounds, seconds=seconds)
    aims: tuple[Aim, ...] = ()
    if ETCD in measured:
        ours, etcds = measured[OURS], measured[ETCD]
        ratios = (
            ("p50", ours.median.p50_ms / etcds.median.p50_ms, AIM_TIME),
            ("p99", ours.median.p99_ms / etcds.median.p99_ms, AIM_TIME),
            (
                "servers' processor time",
                statistics.fmean(ours.server_cpu_us) / statistics.fmean(etcds.server_cpu_us),
                AIM_CPU,
            ),
        )
        aims = tuple(
            Aim(f"{what} at most {aim} × etcd's", f"{ratio:.2f} ×", ratio <= aim) for what, ratio, aim in ratios
        )
    return Section(
        name="latency",
        title="Commit latency, one 1 KiB record in flight",
        method=METHOD.format(rounds=rounds, seconds=seconds),
        columns=COLUMNS,
        rows=rows_of(measured),
        aims=aims,
        data=data_of(measured),
    )
