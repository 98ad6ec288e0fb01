"""The key-value store compared with etcd: the JSON gateways of both, and `Node.execute` and barriers in our leader."""

from __future__ import annotations

import attrs

from benchmarks.context import Context, run_load
from benchmarks.embedded import embedded_load, embedded_row
from benchmarks.measurement import LoadResult
from benchmarks.report import Aim, Section
from benchmarks.side_by_side import COLUMNS, ETCD, OURS, Load, Systems, compare, data_of, rows_of
from harness.ports import free_ports

METHOD = (
    "One HTTP client sends to the leader of three of each system: puts of 1 KiB, linearizable gets of one key, and "
    "transactions that compare a version and put 1 KiB. Both clusters run all the time and are loaded in turn; medians "
    "over {rounds} rounds of {seconds} s each (max: over all). The floor is a serializable get. The last row, if there "
    "is one, is the same without a gateway, in a process that is the leader: Node.execute of a put, or "
    "Node.read_barrier."
)
AIM = 1.0
EMBEDDED = {"put": "execute", "get": "barrier"}
"""What the leader's own process does for the same."""
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
                etcds = measured[ETCD].median if ETCD in measured else None
                aims = [_aim("", measured[OURS].median, etcds, in_flight)] if etcds is not None else []
                rows = list(rows_of(measured))
                data = data_of(measured)
                if operation in EMBEDDED:
                    embedded = await embedded_load(
                        context, systems.kraft, rounds, seconds, EMBEDDED[operation], in_flight
                    )
                    rows.append(embedded_row(f"{OURS}, {EMBEDDED[operation]} in the leader", embedded))
                    data["embedded"] = attrs.asdict(embedded)
                    if etcds is not None:
                        aims.append(_aim(f"{EMBEDDED[operation]} in the leader: ", embedded, etcds, in_flight))
                sections.append(
                    Section(
                        name=f"kv-{operation}-{in_flight}",
                        title=f"Key-value {operation} through the JSON gateway, {in_flight} in flight",
                        method=METHOD.format(rounds=rounds, seconds=seconds),
                        columns=COLUMNS,
                        rows=tuple(rows),
                        aims=tuple(aims),
                        data=data,
                    )
                )
    return sections


def _aim(what: str, mine: LoadResult, etcds: LoadResult, in_flight: int) -> Aim:
    """The latency of one request in flight, or the time that each of many takes."""
    if in_flight == 1:
        ratio, measure = mine.p50_ms / etcds.p50_ms, "p50"
    else:
        ratio, measure = etcds.per_second / mine.per_second, "time for an operation"
    return Aim(f"{what}{measure} at most {AIM} × etcd's", f"{ratio:.2f} ×", ratio <= AIM)
