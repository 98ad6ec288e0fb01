"""The course of `scripts/kill-controllers`."""

from __future__ import annotations

import random
from collections import defaultdict
from statistics import median
from typing import Final

import trio

from harness.witness_cluster import BROKERS, JVM_SECONDS, KAFKAS, MARK, NODES, WITNESS, WitnessCluster
from scripts.common.run import Run
from scripts.common.verdict import Verdict
from scripts.controller_kills.broker_client import BrokerClient
from scripts.controller_kills.clock import Writer
from scripts.controller_kills.explained import Explained
from scripts.controller_kills.faults import FAULTS, OF_DYNAMIC_VOTERS, Fault, Site, Stuck
from scripts.controller_kills.witness_log import leaderships_s

MARGIN_S: Final = 3.0
"""How much longer than the election a client of the brokers may have to wait."""


class Kills:
    """Faults one after another, then the comparison of the logs."""

    def __init__(self, run: Run, cluster: WitnessCluster, seconds: float, chance: random.Random, brokers: int) -> None:
        self.cluster = cluster
        self._run = run
        self._brokers = brokers
        self._explained = Explained(cluster)
        self._seconds = seconds
        self._random = chance
        self._faults = FAULTS if cluster.static else {**FAULTS, **OF_DYNAMIC_VOTERS}
        self._gaps_s: dict[Fault, list[float]] = defaultdict(list)
        self._client_gaps_s: dict[Fault, list[float]] = defaultdict(list)
        self._wrong: dict[Fault, list[str]] = defaultdict(list)

    async def main(self) -> None:
        """Start the cluster, break it, and judge what is left."""
        await trio.to_thread.run_sync(self.cluster.start)
        writer = Writer(self.cluster)
        client = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            try:
                client = await self._start_brokers(nursery)
                await self._break(Site(self.cluster, writer, client, self._explained))
                await self.cluster.until_all_follow()
            except (Stuck, trio.TooSlowError) as stuck:
                self._run.judged(Verdict("the quorum", broken=(str(stuck),)))
            nursery.cancel_scope.cancel()
        self._judge_faults()
        if client is not None:
            await self._judge_records(client)
        await self._stop()
        self._judge_logs(writer)
        self._tell()

    async def _start_brokers(self, nursery: trio.Nursery) -> BrokerClient | None:
        """Start them with their client.  Raises TooSlowError."""
        if not self._brokers:
            return None
        await self.cluster.until_all_follow()
        await trio.to_thread.run_sync(self.cluster.add_brokers, self._brokers)
        client = BrokerClient(self.cluster.broker_servers, self._brokers)
        await client.create_ledger(JVM_SECONDS)
        nursery.start_soon(client.run)
        return client

    async def _break(self, site: Site) -> None:
        await site.writes_again()
        await site.until_healthy()
        self._forget_gaps(site)
        ends_at = trio.current_time() + self._seconds
        while trio.current_time() < ends_at:
            [fault] = self._random.choices(list(self._faults), list(self._faults.values()))
            began_s = trio.current_time()
            try:
                await fault(site)
                await site.until_healthy()
            finally:
                gap_s, client_gap_s = self._forget_gaps(site)
                self._gaps_s[fault].append(gap_s)
                self._client_gaps_s[fault].append(client_gap_s)
                took_s = trio.current_time() - began_s
                self._run.say(
                    f"{fault.__name__}: {gap_s:.1f} s without an active controller, {client_gap_s:.1f} s without a new "
                    f"topic or record, healthy after {took_s:.1f} s"
                )
                wrong = [*self._explained.wrong]
                self._explained.wrong.clear()
                if client_gap_s > gap_s + MARGIN_S:
                    wrong.append(f"the client of the brokers waited {client_gap_s - gap_s:.1f} s longer")
                for problem in wrong:
                    self._run.say(f"PROBLEM: {problem}")
                self._wrong[fault] += wrong
            await trio.sleep(self._random.uniform(0, 3))

    @staticmethod
    def _forget_gaps(site: Site) -> tuple[float, float]:
        """The longest gaps of the controllers and of the brokers' client, in seconds."""
        client = site.client
        of_client_s = 0.0 if client is None else max(client.topics.forget(), client.records.forget())
        return site.writer.gaps.forget(), of_client_s

    # At the end

    def _judge_faults(self) -> None:
        for fault, gaps_s in sorted(self._gaps_s.items(), key=lambda item: item[0].__name__):
            figures = {
                "times": str(len(gaps_s)),
                "median without an active controller": f"{median(gaps_s):.1f} s",
                "longest": f"{max(gaps_s):.1f} s",
                "longest of the brokers' client": f"{max(self._client_gaps_s[fault]):.1f} s",
            }
            self._run.judged(
                Verdict((fault.__doc__ or "").strip(), figures, tuple(self._wrong[fault]), held="survived")
            )

    async def _judge_records(self, client: BrokerClient) -> None:
        missing = await client.missing()
        for failure, times in client.failures.most_common(10):
            self._run.say(f"the brokers' client failed {times} times: {failure}")
        self._run.say(f"{client.topics.count} topics created, {len(client.acknowledged)} records written")
        self._judge_missing("records of the brokers' client", missing)

    def _judge_missing(self, what: str, missing: list[bytes] | list[str]) -> None:
        broken = (f"{len(missing)} acknowledged ones are missing, the first is {missing[0]!r}",) if missing else ()
        self._run.judged(Verdict(what, broken=broken, held="none is missing"))

    async def _stop(self) -> None:
        for node_id in (*BROKERS, *NODES):
            if self.cluster.is_running(node_id):
                await trio.to_thread.run_sync(self.cluster.end, node_id)

    def _judge_logs(self, writer: Writer) -> None:
        """Compare what is on the disks.  A log whose disk was replaced begins later."""
        logs = {node_id: self.cluster.batches(node_id) for node_id in NODES}
        common_end = min(max(log, default=0) for log in logs.values())
        for node_id in KAFKAS:
            mine, theirs = logs[node_id], logs[WITNESS]
            start = max(min(mine, default=0), min(theirs, default=0))
            offsets = [at for at in sorted(mine.keys() | theirs.keys()) if start <= at <= common_end]
            differ = [at for at in offsets if mine.get(at) != theirs.get(at)]
            is_wrong = differ or not offsets
            broken = (f"{len(differ)} batches differ, the first at {min(differ, default=0)}",) if is_wrong else ()
            what = f"logs of node {node_id} and the witness"
            self._run.judged(Verdict(what, broken=broken, held=f"share {len(offsets)} batches"))
        shared = b"".join(batch for log in logs.values() for at, batch in log.items() if at <= common_end)
        missing = [value for value in writer.acknowledged if f"{MARK}{value}".encode() not in shared]
        self._run.say(f"{len(writer.acknowledged)} writes acknowledged, {len(missing)} of them missing")
        self._judge_missing("writes", missing)

    def _tell(self) -> None:
        codes = ", ".join(f"{code} {times}" for code, times in self._explained.codes.most_common())
        self._run.say(f"explain told {self._explained.times} situations: {codes}")
        led_s = leaderships_s(self.cluster.said(WITNESS))
        longest = max(led_s, default=0.0)
        self._run.say(f"the witness was elected {len(led_s)} times, and led for {longest:.1f} s at most")
