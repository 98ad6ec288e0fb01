"""The commands of what is found among Kafka's controllers and brokers, and who is left alone."""

from __future__ import annotations

import pytest

from kraft_trio.diagnosis.finding import Severity
from kraft_trio.diagnosis.quorum_findings import findings
from kraft_trio.diagnosis.quorum_situation import Situation
from tests.diagnosis import controllers_situations, lost_controllers_situations
from tests.diagnosis.controllers_situations import cluster, fenced, fetched_by
from tests.diagnosis.situations import says

ASKED = "host1:9093,host2:9093,host3:9093"
QUORUM = f"kraft metadata-quorum --bootstrap-controller {ASKED}"


@pytest.mark.parametrize(
    ("name", "code", "command"),
    [
        (
            "a controller that is retired",
            "retired-controller",
            f"{QUORUM} remove-controller -i 4 --if-exists --unregister",
        ),
        (
            "one broker is down",
            "brokers-fenced",
            f"bin/kafka-cluster.sh unregister --bootstrap-controller {ASKED} --id 11",
        ),
        ("one broker runs, and is fenced", "brokers-fenced", None),
        ("one broker is fenced, and answers here", "brokers-fenced", None),
        ("all brokers are fenced, and down", "brokers-fenced", None),
        ("a controller with a blank disk", "other-directory", f"{QUORUM} replace -i 3"),
    ],
)
def test_commands_name_who_is_to_go(name: str, code: str, command: str | None) -> None:
    situation, _ = (controllers_situations.SITUATIONS | lost_controllers_situations.SITUATIONS)[name]
    [finding] = [finding for finding in findings(situation) if finding.code == code]
    assert finding.command == command


def test_quorum_of_ours_has_no_brokers() -> None:
    ours = Situation((says(1), says(2), says(3)), fetched_by(7, 8), cluster=cluster(fenced(10)))
    assert {finding.severity for finding in findings(ours)} == {Severity.OK}
