"""`explain` of Kafka's controllers and a broker says what stops topics from being created."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.command import kraft
from harness.waiting import wait_until
from tests.interop.kafka_broker import BROKER_ID, Broker
from tests.interop.kafka_controllers import JVM_SECONDS, Controllers
from tests.interop.kafka_tools import tool

pytestmark = pytest.mark.nightly


def explained(controllers: Controllers) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        controllers.ask(1, "metadata-quorum", "explain", "--json").stdout.splitlines()[0]
    )["findings"]
    return found


def codes(controllers: Controllers) -> set[str]:
    return {finding["code"] for finding in explained(controllers)} - {"observers", "survival"}


@pytest.mark.parametrize("controllers", [(1, 2, 3)], indirect=True)
def test_what_is_wrong_with_controllers_and_brokers(controllers: Controllers, tmp_path: Path) -> None:
    wait_until("Kafka's controllers observe", lambda: controllers.replicas(2) == ([1], [2, 3]), JVM_SECONDS)
    for node_id in (2, 3):
        wait_until(
            f"{node_id} is added",
            lambda: (
                controllers.ask(
                    1,
                    "metadata-quorum",
                    "add-controller",
                    "-c",
                    str(controllers.properties(node_id)),  # noqa: B023
                ).returncode
                == 0
            ),
            JVM_SECONDS,
        )
    wait_until("all is well but for a broker", lambda: codes(controllers) == {"no-broker"}, JVM_SECONDS)
    broker = Broker(tmp_path, controllers)
    try:
        wait_until("all is well", lambda: codes(controllers) == set(), JVM_SECONDS)
        for topic in ("one", "two"):
            created = tool("TopicCommand", "--bootstrap-server", broker.endpoint, "--create", "--topic", topic)
            assert created.returncode == 0, created.stderr
        asked = kraft("metadata-quorum", "--bootstrap-server", broker.endpoint, "explain", "--json")
        [claim] = [claim for claim in json.loads(asked.stdout)["claims"] if claim["nodeId"] == BROKER_ID]
        assert (claim["leaderId"], claim["voters"], claim["contradicts"]) == (1, [1, 2, 3], []), "not of a topic"
        controllers.replace_disk(3)
        wait_until("the blank disk is seen", lambda: "other-directory" in codes(controllers), JVM_SECONDS)
        [blank] = [one for one in explained(controllers) if one["code"] == "other-directory"]
        assert blank["command"].endswith(" replace -i 3")
        replaced = controllers.ask(1, "metadata-quorum", "replace", "-i", "3", "--timeout-ms", str(JVM_SECONDS * 1000))
        assert replaced.returncode == 0, replaced.stdout + replaced.stderr
        wait_until("all is well again", lambda: codes(controllers) == set(), JVM_SECONDS)
    finally:
        broker.kill()
    wait_until("the broker is fenced", lambda: "brokers-fenced" in codes(controllers), JVM_SECONDS)
    unregister = ("--bootstrap-controller", f"127.0.0.1:{controllers.ports[1]}", "--id", str(BROKER_ID))
    done = tool("ClusterTool", "unregister", *unregister)
    assert done.returncode == 0, done.stderr
    wait_until("no broker is left", lambda: codes(controllers) == {"no-broker"}, JVM_SECONDS)
