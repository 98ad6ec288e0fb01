"""The logs of Kafka's own controllers are held against the specification (scripts/trace-check --logs)."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.waiting import wait_until
from scripts.model_checking.tlc import TlcMissingError, jar
from scripts.trace_checking.checking import check
from scripts.trace_checking.retelling import retold
from scripts.trace_checking.steps import steps_of
from scripts.trace_checking.written import read_replica
from tests.interop.kafka_controllers import JVM_SECONDS, Controllers

WHOLE_LOG = {
    "metadata.log.max.record.bytes.between.snapshots": 100_000_000,
    "metadata.log.max.snapshot.interval.ms": 0,
    "controller.quorum.election.timeout.ms": 500,
    "controller.quorum.fetch.timeout.ms": 1000,
}


@pytest.mark.nightly
def test_logs_of_killed_controllers_and_changed_voters(tmp_path: Path) -> None:
    try:
        tlc_jar = jar(fetch=False)
    except TlcMissingError as missing:
        pytest.skip(str(missing))
    controllers = Controllers(tmp_path, (1, 2, 3, 4), voters=(1, 2, 3), settings=WHOLE_LOG)

    def leader(*asked: int) -> int:
        return wait_until(
            "they have a leader", lambda: next(filter(None, map(controllers.leader, asked)), 0), JVM_SECONDS
        )

    def voters(wanted: list[int], *asked: int) -> None:
        def are_voters() -> bool:
            return any((found := controllers.replicas(node_id)) and found[0] == wanted for node_id in asked)

        wait_until(f"the voters are {wanted}", are_voters, JVM_SECONDS)

    try:
        controllers.start()
        first = leader(1, 2, 3)
        controllers.kill(first)
        others = [node_id for node_id in (1, 2, 3) if node_id != first]
        second = wait_until(
            "another one leads",
            lambda: next((n for n in map(controllers.leader, others) if n in others), 0),
            JVM_SECONDS,
        )
        controllers.run(first)

        def is_added() -> bool:
            arguments = ("add-controller", "-c", str(controllers.properties(4)))
            return controllers.ask(second, "metadata-quorum", *arguments).returncode == 0

        wait_until("the observer is a voter", is_added, JVM_SECONDS)
        voters([1, 2, 3, 4], 1, 2, 3)
        removed = controllers.ask(second, "metadata-quorum", "remove-controller", "-i", str(second))
        assert removed.returncode == 0, removed.stderr
        rest = [node_id for node_id in (1, 2, 3, 4) if node_id != second]
        voters(rest, *rest)
        wait_until("the rest has a leader", lambda: any(controllers.leader(n) in rest for n in rest), JVM_SECONDS)
    finally:
        controllers.stop()
    replicas = [read_replica(controllers.partition(node_id).parent) for node_id in (1, 2, 3, 4)]
    assert len({batch.epoch for replica in replicas for batch in replica.log}) >= 3
    [verdict] = check(tlc_jar, [steps_of(retold(replicas))]).verdicts
    assert verdict.refusal is None, verdict.refusal.told()
