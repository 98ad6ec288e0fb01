"""The command behind `scripts/kill-controllers`."""

from __future__ import annotations

import random
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import click
import trio

from harness.kafka import kafka_version, why_no_kafka
from harness.witness_cluster import BROKERS, JVM_SECONDS, KAFKAS, MARK, NODES, WITNESS, WitnessCluster
from scripts.controller_kills.broker_client import BrokerClient
from scripts.controller_kills.clock import Writer
from scripts.controller_kills.explained import Explained
from scripts.controller_kills.faults import FAULTS, OF_DYNAMIC_VOTERS, Fault, Site, Stuck
from scripts.controller_kills.witness_log import leaderships_s

MARGIN_S = 3.0
"""How much longer than the election a client of the brokers may have to wait."""


@click.command(context_settings={"max_content_width": 120})
@click.option(
    "--seconds", type=click.FloatRange(min=0), default=60.0, show_default=True, help="How long faults happen."
)
@click.option("--seed", type=int, help="Decides the order of the faults (default: a random one).")
@click.option("--static", is_flag=True, help="Use controller.quorum.voters, that is, kraft.version 0.")
@click.option(
    "--brokers",
    type=click.IntRange(0, len(BROKERS)),
    default=len(BROKERS),
    show_default=True,
    help="How many brokers of Kafka's work with the controllers.",
)
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="A directory for the nodes.")
def main(seconds: float, seed: int | None, static: bool, brokers: int, keep: Path | None) -> None:
    """Kill two of Apache Kafka's controllers and their witness at random, and write all the time.

    Meanwhile, a client of the brokers creates, alters and deletes topics, and writes and reads records.  Before, during
    and after each fault, `explain` must say what is so.

    The exit code is 1 if the quorum got stuck, an acknowledged write is missing, or the logs differ.  It is 1, too, if
    `explain` is wrong, or the client waits three seconds longer than there is no active controller.  It is 2 without
    Apache Kafka.
    """
    if reason := why_no_kafka():
        click.echo(reason, err=True)
        sys.exit(2)
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    voters = "static" if static else "dynamic"
    click.echo(f"Kafka {'.'.join(map(str, kafka_version()))}, {voters} voters, seed {seed}")
    with ExitStack() as stack:
        home = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kraft-controllers-")))
        home.mkdir(parents=True, exist_ok=True)
        run = Run(WitnessCluster(home, static=static), seconds, random.Random(seed), brokers)
        stack.callback(run.cluster.stop)
        trio.run(run.main)
    sys.exit(bool(run.problems))


class Run:
    """One run: faults one after another, then the comparison of the logs."""

    def __init__(self, cluster: WitnessCluster, seconds: float, chance: random.Random, brokers: int) -> None:
        self.cluster = cluster
        self._brokers = brokers
        self._explained = Explained(cluster)
        self.problems: list[str] = []
        self._seconds = seconds
        self._random = chance
        self._faults = FAULTS if cluster.static else {**FAULTS, **OF_DYNAMIC_VOTERS}
        self._gaps_s: dict[Fault, list[float]] = defaultdict(list)
        self._client_gaps_s: dict[Fault, list[float]] = defaultdict(list)

    async def main(self) -> None:
        await trio.to_thread.run_sync(self.cluster.start)
        writer = Writer(self.cluster)
        client = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            try:
                client = await self._start_brokers(nursery)
                site = Site(self.cluster, writer, client, self._explained)
                await self._break(site)
                await self.cluster.until_all_follow()
            except (Stuck, trio.TooSlowError) as stuck:
                self._problem(str(stuck))
            nursery.cancel_scope.cancel()
        if client is not None:
            await self._compare_records(client)
        await self._stop()
        self._compare(writer)
        self._tell(writer)

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
                click.echo(
                    f"{fault.__name__}: {gap_s:.1f} s without an active controller, {client_gap_s:.1f} s without a new "
                    f"topic or record, healthy after {took_s:.1f} s"
                )
                for wrong in self._explained.wrong:
                    self._problem(wrong)
                self._explained.wrong.clear()
                if client_gap_s > gap_s + MARGIN_S:
                    self._problem(f"the client of the brokers waited {client_gap_s - gap_s:.1f} s longer")
            await trio.sleep(self._random.uniform(0, 3))

    @staticmethod
    def _forget_gaps(site: Site) -> tuple[float, float]:
        """The longest gaps of the controllers and of the brokers' client, in seconds."""
        client = site.client
        of_client_s = 0.0 if client is None else max(client.topics.forget(), client.records.forget())
        return site.writer.gaps.forget(), of_client_s

    # At the end

    async def _compare_records(self, client: BrokerClient) -> None:
        missing = await client.missing()
        click.echo(f"{client.topics.count} topics created, {len(client.acknowledged)} records written")
        for failure, times in client.failures.most_common(10):
            click.echo(f"the brokers' client failed {times} times: {failure}")
        if missing:
            self._problem(f"{len(missing)} acknowledged records are missing, the first is {missing[0]!r}")

    async def _stop(self) -> None:
        for node_id in (*BROKERS, *NODES):
            if self.cluster.is_running(node_id):
                await trio.to_thread.run_sync(self.cluster.end, node_id)

    def _compare(self, writer: Writer) -> None:
        """Compare what is on the disks.  A log whose disk was replaced begins later."""
        logs = {node_id: self.cluster.batches(node_id) for node_id in NODES}
        common_end = min(max(log, default=0) for log in logs.values())
        for node_id in KAFKAS:
            mine, theirs = logs[node_id], logs[WITNESS]
            start = max(min(mine, default=0), min(theirs, default=0))
            offsets = [at for at in sorted(mine.keys() | theirs.keys()) if start <= at <= common_end]
            differ = [at for at in offsets if mine.get(at) != theirs.get(at)]
            click.echo(f"node {node_id} and the witness share {len(offsets)} batches; {len(differ)} differ")
            if differ or not offsets:
                self._problem(f"the logs of node {node_id} and the witness differ at {min(differ, default=0)}")
        shared = b"".join(batch for log in logs.values() for at, batch in log.items() if at <= common_end)
        missing = [value for value in writer.acknowledged if f"{MARK}{value}".encode() not in shared]
        click.echo(f"{len(writer.acknowledged)} writes acknowledged, {len(missing)} of them missing")
        if missing:
            self._problem(f"acknowledged writes are missing, the first is {missing[0]}")

    def _problem(self, problem: str) -> None:
        self.problems.append(problem)
        click.echo(f"PROBLEM: {problem}")

    def _tell(self, writer: Writer) -> None:
        codes = ", ".join(f"{code} {times}" for code, times in self._explained.codes.most_common())
        click.echo(f"explain told {self._explained.times} situations: {codes}")
        led_s = leaderships_s(self.cluster.said(WITNESS))
        longest = max(led_s, default=0.0)
        click.echo(f"the witness was elected {len(led_s)} times, and led for {longest:.1f} s at most")
        click.echo(
            "\n| fault | times | median without an active controller | longest | longest of the brokers' client |"
        )
        click.echo("|---|---|---|---|---|")
        for fault, gaps_s in sorted(self._gaps_s.items(), key=lambda item: item[0].__name__):
            name = (fault.__doc__ or fault.__name__).strip()
            of_client_s = max(self._client_gaps_s[fault])
            click.echo(
                f"| {name} | {len(gaps_s)} | {median(gaps_s):.1f} s | {max(gaps_s):.1f} s | {of_client_s:.1f} s |"
            )


if __name__ == "__main__":
    main()
