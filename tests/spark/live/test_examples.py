"""The programs of examples/spark that read live quorums, as a user runs them."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
from pyspark.sql import SparkSession

from harness.quorum import Quorum, produce_batch
from kraft_trio.application.serde import MsgpackSerde
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from tests.acceptance.conftest import MakeQuorum
from tests.spark.live.programs import run_program
from tests.support.programs import REPOSITORY

EXAMPLES = REPOSITORY / "examples" / "spark"


@attrs.define
class Transfer:
    payer: str
    payee: str
    amount: int


def transfer(quorum: Quorum, *transfers: Transfer) -> None:
    records = [NewRecord(MsgpackSerde(Transfer).encode(one)) for one in transfers]
    produce_batch(quorum.leader(), encode_batch(records, timestamp_ms=1_780_000_000_000))


def test_a_change_feed_is_parquet_with_a_column_for_each_field(
    spark: SparkSession, make_quorum: MakeQuorum, tmp_path: Path
) -> None:
    quorum = make_quorum(1)
    quorum.start()
    columns = ("--columns", "payer string, payee string, amount bigint")
    command = (quorum.bootstrap_servers, str(tmp_path), *columns, "--once")
    transfer(quorum, Transfer("alice", "bob", 30), Transfer("bob", "carol", 10))
    run_program(EXAMPLES / "change_feed.py", *command)
    transfer(quorum, Transfer("carol", "alice", 5))
    printed = run_program(EXAMPLES / "change_feed.py", *command)
    assert printed == f"all changes before offset 6 of cluster {quorum.cluster_id} are written\n"
    changes = spark.read.parquet(str(tmp_path / "changes")).orderBy("offset")
    assert [(row.value_tag, row.payer, row.payee, row.amount, str(row.day)) for row in changes.collect()] == [
        ("Transfer", "alice", "bob", 30, "2026-05-28"),
        ("Transfer", "bob", "carol", 10, "2026-05-28"),
        ("Transfer", "carol", "alice", 5, "2026-05-28"),
    ]


def test_a_dashboard_tells_who_leads_and_how_the_replicas_are(
    spark: SparkSession,
    make_quorum: MakeQuorum,
) -> None:
    quorum = make_quorum(2, observers=1, is_steady=True)
    quorum.start()
    end = quorum.wait_until_caught_up()
    leader, answer = quorum.described_by_leader()
    dashboard = EXAMPLES / "quorum_dashboard.py"
    printed = run_program(dashboard, quorum.bootstrap_servers, "--every", "1 second", "--polls", "2")
    polls = [int(number) for number in re.findall(r"^== poll (\d+)$", printed, re.MULTILINE)]
    assert polls == sorted(set(polls))
    assert polls[-1] >= 2
    assert "\nreplicas\n+" in printed
    assert "outages" not in printed, "an empty table is not shown"
    [led] = spark.table("leadership").collect()
    assert (led.epoch, led.leader) == (answer.leader_epoch, leader.id)
    assert led.seen_from < led.seen_to
    replicas = {row.node: (row.role, row.log_end, row.lag) for row in spark.table("replicas").collect()}
    roles = {1: "voter", 2: "voter", 3: "observer", leader.id: "leader"}
    assert replicas == {node: (role, end, 0) for node, role in roles.items()}
    assert spark.table("outages").count() == 0
    for view in ("replicas", "leadership", "lag", "outages"):
        plan = spark.table(view)._jdf.queryExecution().analyzed().toString()
        assert plan.count("MemoryPlan") == 1, "a view that reads the polls twice may see two states of them"

    quorum.kill_all()
    run_program(dashboard, quorum.bootstrap_servers, "--every", "1 second", "--polls", "1")
    outages = spark.table("outages").collect()
    assert outages
    assert all(str(quorum.nodes[1].endpoint) in outage.problem for outage in outages)
