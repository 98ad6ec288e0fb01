"""Controllers of Apache Kafka whose addresses have all changed start again (KIP-1347).

Kafka's controllers gossip nothing, so `kraft storage recover --unsafe-endpoints` rewrites the log of one of them.
"""

from __future__ import annotations

import pytest

from harness.command import kraft
from harness.ports import free_ports
from harness.waiting import wait_until
from tests.interop.kafka_controllers import JVM_SECONDS, Controllers

pytestmark = pytest.mark.nightly


def test_kafka_starts_at_the_addresses_that_recover_wrote(controllers: Controllers) -> None:
    wait_until("Kafka's second controller observes", lambda: controllers.replicas(2) == ([1], [2]), JVM_SECONDS)
    added = controllers.ask(2, "metadata-quorum", "add-controller", "-c", str(controllers.properties(2)))
    assert added.stdout.startswith("Added controller 2 "), added.stderr
    controllers.stop()

    controllers.ports = dict(zip((1, 2), free_ports(2), strict=True))
    for node_id in controllers.ports:
        controllers.write_properties(node_id)
    newest = max(controllers.ports, key=controllers.log_end)
    moved = ",".join(f"{id}@CONTROLLER://127.0.0.1:{port}" for id, port in controllers.ports.items())
    command = ("storage", "recover", "-c", str(controllers.properties(newest)), "--unsafe-endpoints", moved)
    unconfirmed = kraft(*command)
    assert unconfirmed.returncode == 1
    recovered = kraft(*command, "--cluster-id", controllers.cluster_id)
    assert recovered.returncode == 0, recovered.stderr

    for node_id in controllers.ports:
        controllers.run(node_id)
    wait_until("both vote again", lambda: controllers.replicas(newest) == ([1, 2], []), JVM_SECONDS)
