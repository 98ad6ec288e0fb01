"""One seed, one history of the network: again, in another process, and whatever strings hash to."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys

import pytest
import trio

from kraft_trio.simulation.deterministic import run_deterministically
from kraft_trio.simulation.network.latency import Latency
from kraft_trio.simulation.network.message import Message
from tests.simulation.echo_world import EchoWorld

HOSTS = ("a", "b", "c", "d")


def history(seed: int) -> str:
    """Ten seconds of requests in all directions under faults of every kind: the digest of every frame of it."""
    world = EchoWorld(HOSTS, seed)
    digest = hashlib.blake2b()

    def note(message: Message) -> None:
        digest.update(f"{trio.current_time()!r} {message!r}".encode() + message.raw)

    world.network.on_message = note

    async def ask(source: str, target: str) -> None:
        chance = random.Random(f"{seed}/{source}/{target}")
        while True:
            await world.ask(source, target, reconnect=chance.random() < 0.2, within_s=chance.uniform(0.05, 2.0))
            await trio.sleep(chance.uniform(0.0, 0.1))

    async def disturb() -> None:
        chance = random.Random(f"{seed}/faults")
        network = world.network
        faults = (
            lambda: network.isolate(chance.choice(HOSTS)),
            lambda: network.partition(["a", "b"], ["c", "d"], silent=chance.random() < 0.5),
            lambda: network.ring(*HOSTS),
            lambda: network.clog("a", "b"),
            lambda: network.one_way("c", "a"),
            lambda: network.requests_only("b", "c"),
            network.heal,
            lambda: network.disconnect_host("d", silent=chance.random() < 0.5),
        )
        while True:
            await trio.sleep(chance.uniform(0.1, 2.0))
            chance.choice(faults)()
            if not any(host == "d" for host, _ in network.listeners):
                await world.serve_soon("d")

    async def main() -> None:
        long_tailed = Latency.long_tailed(0.001, 0.01, 0.5)
        world.network.set_default_link(latency=long_tailed, loss=0.05, reset=0.02, cut_frames=0.02, duplicates=0.02)
        async with world.running():
            world.nursery.start_soon(disturb)
            for source in HOSTS:
                for target in HOSTS:
                    world.nursery.start_soon(ask, source, target)
            await trio.sleep(10)

    run_deterministically(main, seed=seed)
    assert set(world.network.faults) == {"loss", "reset", "cut", "duplicate"}
    assert len(world.heard) > 500
    return digest.hexdigest()


@pytest.mark.rotating(2)
def test_a_seed_gives_one_history_and_another_seed_another() -> None:
    assert history(1) == history(1)
    assert history(1) != history(2)


@pytest.mark.nightly
def test_the_history_is_the_same_in_every_process() -> None:
    code = f"from {__name__} import history; print(history(1))"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("0", "1", "4242")
    }
    assert digests == {history(1) + "\n"}


def test_what_happens_on_one_link_changes_nothing_on_another() -> None:
    """So that a history can be made smaller: what is left of it stays as it was."""

    def arrivals(*others: tuple[str, str]) -> list[float]:
        world = EchoWorld(HOSTS)
        arrived: list[float] = []

        def note(message: Message) -> None:
            if message.delivered and message.target == "b":
                arrived.append(trio.current_time())

        world.network.on_message = note

        async def ask(source: str, target: str) -> None:
            for second in range(1, 20):
                await trio.sleep_until(second)
                await world.ask(source, target)

        async def main() -> None:
            world.network.set_default_link(latency=Latency.uniform(0.0, 0.5), loss=0.2)
            async with world.running(), trio.open_nursery() as nursery:
                for pair in (*others, ("a", "b")):
                    nursery.start_soon(ask, *pair)

        run_deterministically(main, seed=0)
        return arrived

    alone = arrivals()
    assert len(set(alone)) > 10
    assert arrivals(("c", "d"), ("d", "a")) == alone
