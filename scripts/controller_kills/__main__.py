"""The command behind `scripts/kill-controllers`."""

from __future__ import annotations

import random
from pathlib import Path

import click
import trio

from harness.kafka import kafka_version, why_no_kafka
from harness.witness_cluster import BROKERS, WitnessCluster
from scripts.common.run import command, impossible, keep_option, running, seed_option
from scripts.controller_kills.kills import Kills


@command
@click.option(
    "--seconds", type=click.FloatRange(min=0), default=60.0, show_default=True, help="How long faults happen."
)
@seed_option("the order of the faults")
@click.option("--static", is_flag=True, help="Use controller.quorum.voters, that is, kraft.version 0.")
@click.option(
    "--brokers",
    type=click.IntRange(0, len(BROKERS)),
    default=len(BROKERS),
    show_default=True,
    help="How many brokers of Kafka's work with the controllers.",
)
@keep_option
def main(seconds: float, seed: int, static: bool, brokers: int, keep: Path | None) -> None:
    """Kill two of Apache Kafka's controllers and their witness at random, and write all the time.

    Meanwhile, a client of the brokers creates, alters and deletes topics, and writes and reads records.  Before, during
    and after each fault, `explain` must say what is so.

    The exit code is 1 if the quorum got stuck, an acknowledged write is missing, or the logs differ.  It is 1, too, if
    `explain` is wrong, or the client waits three seconds longer than there is no active controller.  It is 2 without
    Apache Kafka.
    """
    if reason := why_no_kafka():
        impossible(reason)
    with running("controllers", "fault or comparison", keep) as run:
        run.say(f"Kafka {'.'.join(map(str, kafka_version()))}, {'static' if static else 'dynamic'} voters, seed {seed}")
        cluster = WitnessCluster(run.home, static=static)
        try:
            trio.run(Kills(run, cluster, seconds, random.Random(seed), brokers).main)
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
