"""A streaming query under load: leaders are killed, a voter is added and removed, and the query is restarted.

Finally, the query's output is compared record by record with the committed log, and with the acknowledgements that
producers got.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import attrs
import click
import trio

from harness.quorum import Quorum
from harness.waiting import wait_patiently, wait_until
from kraft_trio.client.log_client import LogClient
from kraft_trio.config.values import parse_peer
from kraft_trio.errors import KraftError, NetworkError, OutcomeUnknownError
from kraft_trio.spark import session
from scripts.common.background import Background
from scripts.common.run import running
from scripts.common.verdict import Verdict
from tests.spark.live.micro_batches import MicroBatches
from tests.spark.live.reading import command, committed_rows
from tests.spark.live.to_parquet import ToParquet

VOTERS = 3
COMING_AND_GOING = 4
"""The node that is added to the voters, and removed again."""
RESTARTS_AT = (0.35, 0.75)
VOTER_ADDED_AT = 0.25
VOTER_REMOVED_AT = 0.65
"""Parts of the whole time."""
DOWN_SECONDS = 3.0
PATIENCE_SECONDS = 300.0
"""How long anything may take on a machine that others use, too."""
RECORDS_AT_ONCE = 50
PAUSE_SECONDS = 0.1


OPTIONS = {"maxOffsetsPerPartition": "20000"}
"""Of the source."""

Query = ToParquet | MicroBatches


class Load(Background):
    """A producer in its own thread that writes numbered values, several at a time, as long as it runs."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__("load")
        self._bootstrap = [parse_peer(text) for text in bootstrap_servers.split(",")]
        self.acknowledged: dict[int, bytes] = {}
        """The committed values, by offset."""
        self.unknown = 0
        """Number of values with an unknown outcome."""
        self.unsent = 0

    def run(self) -> None:
        trio.run(self._write)

    async def _write(self) -> None:
        number = 0
        async with LogClient(self._bootstrap) as client:
            while not self.stopping.is_set():
                values = [f"{number + index}".encode() for index in range(RECORDS_AT_ONCE)]
                number += len(values)
                try:
                    offsets = await client.produce(values, 60_000)
                except OutcomeUnknownError:
                    self.unknown += len(values)
                except NetworkError:
                    self.unsent += len(values)
                else:
                    self.acknowledged.update(zip(offsets, values, strict=True))
                await trio.sleep(PAUSE_SECONDS)


@attrs.define
class Outcome:
    """What was done, and how output and log compare."""

    seconds: float
    records_committed: int
    records_acknowledged: int
    rows_written: int
    micro_batches: int
    leaders_killed: int
    query_starts: int
    unstarted_workers: int
    """How often the query was started again because the machine was too busy for Spark's Python workers to start."""
    voters_seen: list[list[int]]
    missing: int
    """Committed and not written."""
    repeated: int
    """Written more often than committed."""
    unexpected: int
    """Written and not committed."""
    acknowledged_and_lost: int

    @property
    def is_exact(self) -> bool:
        return not (self.missing or self.repeated or self.unexpected or self.acknowledged_and_lost)


def soak(quorum: Quorum, query: Query, seconds: float, kills: int) -> Outcome:
    """`quorum` has three voters and an observer, and runs.  Raises what the query or a command fails with."""
    load = Load(quorum.bootstrap_servers)
    voters_seen = [_voters(quorum)]
    began_at = time.monotonic()
    events: list[tuple[float, Callable[[], None]]] = [
        *((seconds * (kill + 0.5) / kills, lambda: _kill_leader(quorum)) for kill in range(kills)),
        (seconds * VOTER_ADDED_AT, lambda: _change(quorum, voters_seen, added=True)),
        (seconds * VOTER_REMOVED_AT, lambda: _change(quorum, voters_seen, added=False)),
    ]
    events.sort(key=lambda event: event[0])
    load.start()
    try:
        for ends_at in (*(seconds * part for part in RESTARTS_AT), seconds):
            with query.running():
                while events and events[0][0] < ends_at:
                    at, happen = events.pop(0)
                    _wait_until(began_at + at, query)
                    happen()
                _wait_until(began_at + ends_at, query)
                if ends_at == seconds:
                    load.stop()
                    query.wait_until_written(_caught_up(quorum) - 1)
    finally:
        load.stop()
    if load.error is not None:
        raise load.error
    return _compared(quorum, query, load, time.monotonic() - began_at, kills, voters_seen)


def _wait_until(moment: float, query: Query) -> None:
    """Until that time; raises what the query fails with meanwhile."""
    while (left := moment - time.monotonic()) > 0:
        query.check()
        time.sleep(min(left, 1.0))


def _kill_leader(quorum: Quorum) -> None:
    """The node is started again a moment later, and comes back when it can."""
    leader = wait_patiently("a leader", quorum.leader, PATIENCE_SECONDS)
    leader.kill()
    time.sleep(DOWN_SECONDS)
    leader.start()


def _voters(quorum: Quorum) -> list[int]:
    described = wait_patiently("a leader", quorum.described_by_leader, PATIENCE_SECONDS)[1]
    return sorted(voter.key.id for voter in described.voters)


def _caught_up(quorum: Quorum) -> int:
    """The end of the log that all nodes have."""
    return wait_patiently("all nodes catch up", quorum.wait_until_caught_up, PATIENCE_SECONDS)


def _change(quorum: Quorum, voters_seen: list[list[int]], *, added: bool) -> None:
    """Add or remove a voter, again where a leader was lost meanwhile; notes who they are then."""
    node = quorum.nodes[COMING_AND_GOING]
    quorum_options = ("metadata-quorum", "--bootstrap-controller", quorum.bootstrap_servers)
    adding = (*quorum_options, "--command-config", str(node.properties), "add-controller")
    removing = (*quorum_options, "remove-controller", "-i", str(node.id))

    def changed() -> bool:
        with suppress(AssertionError, KraftError):
            command(*(adding if added else removing))
        return (node.id in _voters(quorum)) == added

    wait_until(f"node {node.id} is {'a' if added else 'no'} voter", changed, PATIENCE_SECONDS)
    voters_seen.append(_voters(quorum))


def _compared(
    quorum: Quorum, query: Query, load: Load, seconds: float, kills: int, voters_seen: list[list[int]]
) -> Outcome:
    _caught_up(quorum)
    committed = committed_rows(quorum.nodes[1])
    written = query.rows()
    values = dict(committed)
    times = Counter(written)
    return Outcome(
        seconds=round(seconds, 1),
        records_committed=len(committed),
        records_acknowledged=len(load.acknowledged),
        rows_written=len(written),
        micro_batches=query.micro_batches,
        leaders_killed=kills,
        query_starts=query.starts,
        unstarted_workers=query.unstarted_workers,
        voters_seen=voters_seen,
        missing=sum(row not in times for row in committed),
        repeated=sum(count - 1 for count in times.values()),
        unexpected=sum(values.get(offset) != value for offset, value in times),
        acknowledged_and_lost=sum(values.get(offset) != value for offset, value in load.acknowledged.items()),
    )


@click.command()
@click.option("--seconds", default=600.0, show_default=True, help="How long the load lasts, in seconds.")
@click.option("--kills", default=10, show_default=True, help="Number of leaders to kill.")
@click.option("--without-spark", is_flag=True, help="Call the reader as Spark does, without Java.")
def main(seconds: float, kills: int, without_spark: bool) -> None:
    """Run the soak and print the results as JSON; exit with 1 unless output and log are equal."""
    with running("spark-soak", "query") as run:
        quorum = Quorum(run.home, VOTERS, observers=1)
        spark = None if without_spark else session("local[2]", "spark-soak", {"spark.local.dir": str(run.home)})
        try:
            for node in quorum.nodes.values():
                node.start()
            query = MicroBatches(quorum, **OPTIONS) if spark is None else ToParquet(spark, quorum, run.home, **OPTIONS)
            outcome = soak(quorum, query, seconds, kills)
        finally:
            if spark is not None:
                spark.stop()
            quorum.kill_all()
        click.echo(json.dumps({**attrs.asdict(outcome), "exact": outcome.is_exact}, indent=2))
        broken = () if outcome.is_exact else ("its output and the log differ",)
        run.judged(Verdict("the output of the query", broken=broken, held="is the log"))


if __name__ == "__main__":
    main()
