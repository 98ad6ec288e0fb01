"""Latency of a linearizable read, one in flight: over the network, and in the process of the leader."""

from __future__ import annotations

import attrs

from benchmarks.context import Context
from benchmarks.embedded import embedded_load, embedded_row
from benchmarks.report import Aim, Section
from benchmarks.side_by_side import COLUMNS, ETCD, OURS, Systems, compare, data_of, rows_of

METHOD = (
    "One read in flight at the leader of three: ours ReadIndex, etcd's a linearizable Range of a key that is not "
    "there. Both clusters run all the time and are loaded in turn; medians over {rounds} rounds of {seconds} s each "
    "(max: over all). The floor is a request that asks no other node. Then Node.read_barrier in a process that is the "
    "leader, without and with a lease (kraft.read.lease.max.clock.drift.ppm=1000)."
)
AIM = 0.5
LEASE = {"kraft.read.lease.max.clock.drift.ppm": "1000"}


async def measure(context: Context) -> Section:
    rounds, seconds = context.pick(7, 3), context.pick(10, 3)
    async with Systems.started(attrs.evolve(context, overrides={**context.overrides, **LEASE}), "leases") as systems:
        leased = await embedded_load(context, systems.kraft, rounds, seconds)
    async with Systems.started(context, "reads") as systems:
        measured = await compare(context, systems, in_flight=1, rounds=rounds, seconds=seconds, operation="read")
        embedded = await embedded_load(context, systems.kraft, rounds, seconds)
    aims: tuple[Aim, ...] = ()
    if ETCD in measured:
        ratio = embedded.p50_ms / measured[ETCD].median.p50_ms
        aims = (Aim(f"p50 of the embedded barrier below {AIM} × etcd's", f"{ratio:.2f} ×", ratio < AIM),)
    return Section(
        name="reads",
        title="Linearizable reads, one in flight",
        method=METHOD.format(rounds=rounds, seconds=seconds),
        columns=COLUMNS,
        rows=(
            *rows_of(measured),
            embedded_row(f"{OURS}, in the leader", embedded),
            embedded_row(f"{OURS}, in the leader, with a lease", leased),
        ),
        aims=aims,
        data={**data_of(measured), "embedded": attrs.asdict(embedded), "leased": attrs.asdict(leased)},
    )
