"""One run of the simulator, timed: `python -m benchmarks.loads.simulated_cluster --help`."""

from __future__ import annotations

import json
import time

import click
import trio

from kraft_trio.simulation import Cluster, Setup, simulate
from kraft_trio.simulation.campaign.seed_run import run_seed
from kraft_trio.simulation.faults.nemesis import PlanOptions


@click.group()
def main() -> None:
    """Prints virtual seconds, and seconds of this process's CPU, as JSON."""


@main.command()
@click.option("--nodes", type=int, default=5)
@click.option("--appends-per-s", type=float, default=1.0, help="One client's; 0 for none.")
@click.option("--seconds", type=float, default=60.0, help="Virtual.")
def calm(nodes: int, appends_per_s: float, seconds: float) -> None:
    """No faults, all invariants: from the first leader on."""

    async def run(cluster: Cluster) -> tuple[float, float]:
        async with cluster.client() as client:
            await cluster.wait_for_leader()
            began, cpu = cluster.now_s, time.process_time()
            number = 0
            while cluster.now_s < began + seconds:
                if appends_per_s > 0:
                    await client.produce([b"%d" % number])
                    number += 1
                await trio.sleep(1 / appends_per_s if appends_per_s > 0 else seconds)
            return cluster.now_s - began, time.process_time() - cpu

    virtual_s, cpu_s = simulate(run, Setup(seed=1, voters=nodes))
    click.echo(json.dumps({"virtual_s": virtual_s, "cpu_s": cpu_s}))


@main.command()
@click.option("--nodes", type=int, default=5)
@click.option("--seed", type=int, default=0)
@click.option("--seconds", type=float, default=60.0, help="Virtual, of faults; the recovery comes on top.")
def faulty(nodes: int, seed: int, seconds: float) -> None:
    """A seed with all faults and its clients, all invariants, recovery included."""
    cpu = time.process_time()
    outcome = run_seed(seed, PlanOptions(voters=nodes, duration_us=round(seconds * 1e6)))
    if outcome.failure is not None:
        raise click.ClickException(f"seed {seed}: {outcome.failure}")
    click.echo(json.dumps({"virtual_s": outcome.virtual_s, "cpu_s": time.process_time() - cpu}))


if __name__ == "__main__":
    main()
