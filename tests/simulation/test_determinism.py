"""One seed is one history: within a process, in another process, whatever PYTHONHASHSEED is."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import trio

from kraft_trio.simulation import Cluster, Setup, simulate
from kraft_trio.simulation.campaign.seed_run import run_seed
from kraft_trio.simulation.faults.nemesis import PlanOptions
from tests.support import sizes

PLAN = "from tests.simulation.test_determinism import digest_of_plan; print(digest_of_plan({seed}))"
PROGRAM = "from tests.simulation.test_determinism import digest_of; print(digest_of({seed}))"


def digest_of(seed: int) -> str:
    """Some virtual seconds with appends, a partition, a crash of everybody and a pause; the digest of all of it."""

    async def main(cluster: Cluster) -> str:
        async with trio.open_nursery() as nursery, cluster.client() as client:
            nursery.start_soon(append_for_ever, client)
            leader = await cluster.wait_for_leader()
            cluster.partition({leader.key.id}, set(cluster.machines) - {leader.key.id})
            await trio.sleep(3)
            cluster.heal()
            await trio.sleep(1)
            for machine in cluster.machines.values():
                machine.crash("some")
            for machine in cluster.machines.values():
                await machine.start()
            leader = await cluster.wait_for_leader()
            cluster.machines[leader.key.id].pause()
            await trio.sleep(3)
            cluster.machines[leader.key.id].resume()
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
        return cluster.trace.digest()

    async def append_for_ever(client: object) -> None:
        from kraft_trio import KraftError, LogClient

        assert isinstance(client, LogClient)
        number = 0
        while True:
            try:
                await client.produce([b"%d" % number], timeout_ms=3000)
            except KraftError:
                pass
            number += 1
            await trio.sleep(0.2)

    return simulate(main, Setup(seed=seed, voters=5, observers=1))


@pytest.mark.rotating(3)
def test_the_same_seed_twice_in_one_process_and_other_seeds() -> None:
    first = digest_of(1)
    assert digest_of(1) == first
    assert digest_of(2) != first


@pytest.mark.nightly
def test_the_same_seed_in_other_processes_with_other_hash_seeds() -> None:
    digests = {run_in_process(hash_seed, PROGRAM.format(seed=3)) for hash_seed in ("0", "1", "4711")}
    assert digests == {digest_of(3)}


def digest_of_plan(seed: int) -> str:
    """A random plan of all kinds of fault, with its clients and its recovery."""
    outcome = run_seed(seed, PlanOptions(duration_us=5_000_000))
    assert outcome.failure is None
    return outcome.digest


def test_a_random_plan_in_other_processes_with_other_hash_seeds() -> None:
    """This process has a hash seed of its own."""
    others = ("0", "5") if sizes.IS_ALL else ("5",)
    digests = {run_in_process(hash_seed, PLAN.format(seed=7001)) for hash_seed in others}
    assert digests == {digest_of_plan(7001)}


def run_in_process(hash_seed: str, program: str) -> str:
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)
    return done.stdout.strip()
