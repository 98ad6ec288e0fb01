"""The key-value store's JSON gateway, compared with etcd's: puts, linearizable gets and transactions."""

from __future__ import annotations

import attrs

from benchmarks.context import Context, run_load
from benchmarks.measurement import LoadResult
from benchmarks.report import Aim, Section
from benchmarks.side_by_side import COLUMNS, ETCD, OURS, Load, Systems, compare, data_of, rows_of
from harness.ports import free_ports

METHOD = (
    "One HTTP client sends to the leader of three of each system: puts of 1 KiB, linearizable gets of one key, and "
    "transactions that compare a version and put 1 KiB. Both clusters run all the time and are loaded in turn; medians "
    "over {rounds} rounds of {seconds} s each (max: over all). The floor is a serializable get."
)
AIM = 1.0
VALUE_BYTES = 1024
OPERATIONS = ("put", "get", "txn")
IN_FLIGHT = (1, 64)


async def measure(context: Context) -> list[Section]:
    rounds, seconds = context.pick(7, 3), context.pick(8, 3)
    ports = dict(zip((1, 2, 3), free_ports(3), strict=True))
    listeners = {node: {"kraft.kv.listener": f"HTTP://127.0.0.1:{port}"} for node, port in ports.items()}
    ours = attrs.evolve(context, overrides={**context.overrides, "kraft.state.machine": "kv"})

    async def load_of(systems: Systems, system: str, in_flight: int) -> tuple[Load, list[int]]:
        if system == OURS:
            endpoint = f"127.0.0.1:{ports[await systems.kraft.leader()]}"
            pids = list(systems.kraft.pids.values())
        else:
            assert systems.etcd is not None
            endpoint = systems.etcd.endpoint(await systems.etcd.leader())
            pids = list(systems.etcd.pids.values())
        options = ("--in-flight", str(in_flight), "--value-bytes", str(VALUE_BYTES))

        async def load(operation: str, seconds: float) -> LoadResult:
            return await run_load("gateway", endpoint, *options, "--operation", operation, seconds=seconds)

        return load, pids

    sections = []
    async with Systems.started(ours, "kv", listeners) as systems:
        for operation in OPERATIONS:
            for in_flight in IN_FLIGHT:
                measured = await compare(ours, systems, in_flight, rounds, seconds, operation, load_of)
                aims: tuple[Aim, ...] = ()
                if ETCD in measured:
                    mine, etcds = measured[OURS].median, measured[ETCD].median
                    if in_flight == 1:
                        ratio, what = mine.p50_ms / etcds.p50_ms, "p50"
                    else:
                        ratio, what = etcds.per_second / mine.per_second, "time for an operation"
                    aims = (Aim(f"{what} at most {AIM} × etcd's", f"{ratio:.2f} ×", ratio <= AIM),)
                sections.append(
                    Section(
                        name=f"kv-{operation}-{in_flight}",
                        title=f"Key-value {operation} through the JSON gateway, {in_flight} in flight",
                        method=METHOD.format(rounds=rounds, seconds=seconds),
                        columns=COLUMNS,
                        rows=rows_of(measured),
                        aims=aims,
                        data=data_of(measured),
                    )
                )
    return sections
