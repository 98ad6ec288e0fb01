"""`explain` while a way fails that it does not need itself: from a broker, and from a controller to a witness."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
import trio

from harness.command import kraft
from harness.kafka import kafka_version
from harness.ports import free_ports
from harness.relay import Relay
from harness.waiting import wait_until
from harness.witness_cluster import KAFKAS, NODES, WITNESS, WitnessCluster
from kraft_trio.wire.api import FETCH
from tests.interop.kafka_broker import BROKER_ID, Broker, create_topic
from tests.interop.kafka_controllers import JVM_SECONDS, Controllers

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(kafka_version() < (4, 1), reason="needs controllers with several listeners in the voter set"),
]

PROTOCOLS: Final = "CONTROLLER:PLAINTEXT,BROKERS:PLAINTEXT,PLAINTEXT:PLAINTEXT"


@pytest.fixture
def relay() -> Iterator[Relay]:
    made = Relay()
    yield made
    made.close()


def explain(*addresses: str) -> dict[str, tuple[str, str | None]]:
    """Text and command of each finding, by code."""
    asked = kraft("metadata-quorum", "--bootstrap-controller", ",".join(addresses), "explain", "--json")
    told = json.loads(asked.stdout.splitlines()[0])["findings"]
    return {one["code"]: (one["text"], one["command"]) for one in told}


def until_told(
    what: str, addresses: tuple[str, ...], is_so: Callable[[dict[str, tuple[str, str | None]]], bool]
) -> None:
    wait_until(what, lambda: is_so(explain(*addresses)), JVM_SECONDS, interval_seconds=0.2)


# A broker


class WithListenerOfBrokers(Controllers):
    """One controller.  Brokers reach it through the relay alone."""

    def __init__(self, directory: Path, relay: Relay) -> None:
        super().__init__(directory, (1,))
        [relay.target] = free_ports(1)
        self._relay = relay

    def write_properties(self, node_id: int) -> None:
        super().write_properties(node_id)
        own, path = f"CONTROLLER://127.0.0.1:{self.ports[node_id]}", self.properties(node_id)
        replaced = {
            "listeners": f"{own},BROKERS://127.0.0.1:{self._relay.target}",
            "advertised.listeners": f"{own},BROKERS://127.0.0.1:{self._relay.port}",
            "controller.listener.names": "CONTROLLER,BROKERS",
            "listener.security.protocol.map": PROTOCOLS,
        }
        kept = [line for line in path.read_text().splitlines() if line.partition("=")[0] not in replaced]
        path.write_text("\n".join([*kept, *(f"{key}={value}" for key, value in replaced.items()), ""]))


def test_a_broker_is_cut_off_from_the_active_controller(tmp_path: Path, relay: Relay) -> None:
    controllers = WithListenerOfBrokers(tmp_path, relay)
    broker = None
    try:
        controllers.start()
        settings = {
            "controller.listener.names": "BROKERS",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{relay.port}",
            "listener.security.protocol.map": PROTOCOLS,
        }
        broker = Broker(tmp_path, controllers, settings)
        both = (f"127.0.0.1:{controllers.ports[1]}", broker.endpoint)
        create_topic(broker.endpoint, "before", JVM_SECONDS)
        until_told("all is well", both, lambda told: set(told) == {"survival", "observers"})

        relay.hold()
        until_told("the broker is cut off", both, lambda told: "cut-off-broker" in told)
        text, command = explain(*both)["cut-off-broker"]
        assert f"Broker {BROKER_ID} answers, but gets no answer from the active controller" in text
        assert "check the network from it to the controllers" in text
        assert command is None
        until_told("it is fenced", both, lambda told: "brokers-fenced" in told)
        text, command = explain(*both)["brokers-fenced"]
        assert f"Broker {BROKER_ID} answers here, but does not fetch" in text
        assert "unregister" not in text, "it runs"
        assert command is None

        relay.release()
        create_topic(broker.endpoint, "after", JVM_SECONDS)
        until_told("all is well again", both, lambda told: set(told) == {"survival", "observers"})
    finally:
        if broker is not None:
            broker.kill()
        controllers.stop()


# A witness


def test_a_witness_leads_because_the_other_controller_does_not_reach_it(tmp_path: Path, relay: Relay) -> None:
    """The controller votes for it, and never gets the records that only the witness has."""
    cluster = WitnessCluster(tmp_path)
    relay.target = cluster.ports[WITNESS]
    addresses = tuple(f"127.0.0.1:{cluster.ports[node_id]}" for node_id in NODES)
    relay.hold({FETCH.key})

    async def until_the_witness_is_behind_the_relay() -> None:
        await cluster.until_all_follow()
        await trio.to_thread.run_sync(cluster.end, WITNESS)
        with cluster.witness.properties.open("a") as properties:
            properties.write(f"advertised.listeners=CONTROLLER://127.0.0.1:{relay.port}\n")
        cluster.run(WITNESS)
        with trio.fail_after(JVM_SECONDS):
            while True:
                answers = [await cluster.describe(node_id) for node_id in KAFKAS]
                nodes = [node for answer in answers if answer is not None for node in answer.nodes]
                if any(endpoint.port == relay.port for node in nodes for _, endpoint in node.endpoints):
                    return
                await trio.sleep(0.2)

    async def until_only_the_witness_has_all() -> tuple[int, int]:
        """The active controller of before, which is dead then, and the other one."""
        active = await cluster.until_all_follow()
        behind = sum(KAFKAS) - active
        cluster.send(behind, signal.SIGSTOP)
        await cluster.active("answered", besides=behind)
        await cluster.active("missed", besides=behind)
        await trio.to_thread.run_sync(cluster.end, active)
        cluster.send(behind, signal.SIGCONT)
        return active, behind

    try:
        cluster.start()
        trio.run(until_the_witness_is_behind_the_relay)
        until_told("all is well", addresses, lambda told: set(told) == {"survival", "no-broker"})
        active, behind = trio.run(until_only_the_witness_has_all)
        until_told("the witness leads", addresses, lambda told: "witness-leads" in told)
        told: dict[str, tuple[str, str | None]] = {}

        def found() -> bool:
            told.clear()
            told.update(explain(*addresses))
            return "witness-leads" in told

        wait_until("it leads again", found, JVM_SECONDS)
        text, _ = told["witness-leads"]
        assert f"Node {WITNESS} leads, and is a witness" in text
        assert f"Start the other voters ({active})." in text
        assert f"Node {behind} answers here: see whether it reaches node {WITNESS}" in text

        relay.release()
        until_told(
            "the other controller is active",
            addresses,
            lambda told: set(told) == {"survival", "voter-behind", "no-broker"},
        )
        cluster.run(active)
        until_told("all is well again", addresses, lambda told: set(told) == {"survival", "no-broker"})
    finally:
        cluster.stop()
