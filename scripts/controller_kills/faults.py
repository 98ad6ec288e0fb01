"""The faults: what may happen to two controllers and a witness while a majority of the disks is there."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import trio

from harness.witness_cluster import JVM_SECONDS, KAFKAS, WITNESS, WitnessCluster
from scripts.controller_kills.broker_client import BrokerClient
from scripts.controller_kills.clock import Gaps, Writer
from scripts.controller_kills.explained import Explained

ACTIVE_WITHIN_S: Final = 120.0
"""Without an active controller for so long, the quorum is stuck."""


class Stuck(Exception):
    """What had to happen has not happened in time."""


class Site:
    """What a fault needs: the cluster, the writes that tell who is active, and the client of the brokers, if any."""

    def __init__(
        self, cluster: WitnessCluster, writer: Writer, client: BrokerClient | None, explained: Explained
    ) -> None:
        self.cluster = cluster
        self.writer = writer
        self.client = client
        self.explained = explained

    @property
    def active(self) -> int:
        return self.writer.active

    @property
    def standby(self) -> int:
        """The other controller."""
        [other] = [node_id for node_id in KAFKAS if node_id != self.active]
        return other

    async def end(self, node_id: int, signal_number: signal.Signals = signal.SIGKILL) -> None:
        await trio.to_thread.run_sync(self.cluster.end, node_id, signal_number)

    async def writes_again(self, count: int = 3) -> None:
        """Wait for that many further acknowledgements.  Raises Stuck."""
        await self._again(self.writer.gaps, count, "no active controller")

    async def until_healthy(self) -> None:
        """Wait until all three run and have what is committed, and brokers do their work.  Raises Stuck."""
        try:
            await self.cluster.until_all_follow()
        except trio.TooSlowError:
            raise Stuck(f"a voter has not caught up in {JVM_SECONDS:g} s") from None
        await self.writes_again(1)
        if self.client is not None:
            await self._again(self.client.topics, 1, "no topic was created")
            await self._again(self.client.records, 1, "no record was written and read")
        await self.explained.all_well()

    async def _again(self, gaps: Gaps, count: int, otherwise: str) -> None:
        target = gaps.count + count
        with trio.move_on_after(ACTIVE_WITHIN_S):
            while gaps.count < target:
                await gaps.again.park()
            return
        raise Stuck(f"{otherwise} for {ACTIVE_WITHIN_S:g} s")


Fault: TypeAlias = Callable[[Site], Awaitable[None]]


async def _restart(site: Site, node_id: int, signal_number: signal.Signals) -> None:
    await site.end(node_id, signal_number)
    await site.writes_again()
    await site.explained.down(node_id)
    site.cluster.run(node_id)


async def kill_active(site: Site) -> None:
    """`kill -9` of the active controller"""
    await _restart(site, site.active, signal.SIGKILL)


async def stop_active(site: Site) -> None:
    """SIGTERM to the active controller"""
    await _restart(site, site.active, signal.SIGTERM)


async def kill_standby(site: Site) -> None:
    """`kill -9` of the other controller"""
    await _restart(site, site.standby, signal.SIGKILL)


async def stop_standby(site: Site) -> None:
    """SIGTERM to the other controller"""
    await _restart(site, site.standby, signal.SIGTERM)


async def kill_witness(site: Site) -> None:
    """`kill -9` of the witness"""
    await _restart(site, WITNESS, signal.SIGKILL)


async def stop_witness(site: Site) -> None:
    """SIGTERM to the witness"""
    await _restart(site, WITNESS, signal.SIGTERM)


async def roll(site: Site) -> None:
    """rolling restart of all three"""
    for node_id in (site.standby, WITNESS, site.active):
        await _restart(site, node_id, signal.SIGTERM)
        await site.until_healthy()


async def pause_active(site: Site) -> None:
    """active controller paused until another one is active"""
    paused = site.active
    site.cluster.send(paused, signal.SIGSTOP)
    try:
        await site.writes_again()  # No longer: brokers wait for the answer of a paused controller, for up to 30 s.
    finally:
        site.cluster.send(paused, signal.SIGCONT)


async def pause_witness(site: Site) -> None:
    """witness paused"""
    site.cluster.send(WITNESS, signal.SIGSTOP)
    try:
        await site.explained.down(WITNESS)
    finally:
        site.cluster.send(WITNESS, signal.SIGCONT)


async def lose_the_newer_log(site: Site) -> None:
    """`kill -9` of the active controller while the other one is behind"""
    active, behind = site.active, site.standby
    site.cluster.send(behind, signal.SIGSTOP)
    try:
        await site.writes_again()
        await site.end(active)
    finally:
        site.cluster.send(behind, signal.SIGCONT)
    await site.writes_again()
    site.cluster.run(active)


async def start_behind(site: Site) -> None:
    """other controller stopped, active controller killed, other controller started"""
    active, behind = site.active, site.standby
    await site.end(behind, signal.SIGTERM)
    await site.writes_again()
    await site.end(active)
    site.cluster.run(behind)
    await site.writes_again()
    site.cluster.run(active)


async def kill_both(site: Site) -> None:
    """`kill -9` of a controller and the witness at once"""
    await site.end(WITNESS)
    active = site.active
    await site.end(active)
    await site.explained.no_majority(active, WITNESS)
    site.cluster.run(WITNESS)
    await site.writes_again()
    site.cluster.run(active)


async def replace_disk(site: Site) -> None:
    """disk of a controller replaced by a blank one"""
    node_id = site.standby
    await _replace_disk(site, node_id, "--no-initial-controllers")


async def replace_witness_disk(site: Site) -> None:
    """disk of the witness replaced by a blank one"""
    await _replace_disk(site, WITNESS, "--no-initial-controllers")


async def _replace_disk(site: Site, node_id: int, how: str) -> None:
    cluster, old = site.cluster, site.cluster.key_of(node_id)
    await site.end(node_id)
    cluster.wipe(node_id)
    await trio.to_thread.run_sync(cluster.format, node_id, how)
    cluster.run(node_id)
    await _until_accepted(site, lambda: cluster.remove_voter(site.active, old), "voter_not_found")
    await _until_accepted(site, lambda: cluster.add_voter(site.active, cluster.key_of(node_id)), "duplicate_voter")


async def _until_accepted(site: Site, change: Callable[[], Awaitable[str]], done: str) -> None:
    """Repeat a voter change until it is made.  `done` is the error if it was made before.  Raises Stuck."""
    answer, ends_at = "", trio.current_time() + JVM_SECONDS
    while trio.current_time() < ends_at:
        answer = await change()
        if answer in ("none", done):
            return
        await trio.sleep(0.5)
    raise Stuck(f"a change of voters was refused for {JVM_SECONDS:g} s: {answer}")


FAULTS: Final[Mapping[Fault, int]] = {
    kill_active: 5,
    stop_active: 3,
    kill_standby: 2,
    stop_standby: 1,
    kill_witness: 2,
    stop_witness: 1,
    roll: 1,
    pause_active: 2,
    pause_witness: 1,
    lose_the_newer_log: 5,
    start_behind: 3,
    kill_both: 2,
}
"""With their weights."""

OF_DYNAMIC_VOTERS: Final[Mapping[Fault, int]] = {replace_disk: 2, replace_witness_disk: 1}
"""Without directory ids, a blank disk under an old id would pass for the old disk."""
