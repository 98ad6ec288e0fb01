"""Authority and certificates of three nodes are replaced one node at a time while a client writes."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest
import trio
import trustme

from harness.node import NodeProcess
from harness.quorum import TOPIC, Quorum
from harness.waiting import WAIT_SECONDS, wait_until
from kraft_trio.client.admin import AdminClient
from kraft_trio.client.quorum_description import QuorumDescription
from kraft_trio.security.client_network import client_network
from tests.acceptance.conftest import MakeQuorum
from tests.support.certificates import authority, client_of, foreign_authority, issue, write_client_file, write_store

HOST = "127.0.0.1"
FETCH_TIMEOUT_MS = "10000"
"""Followers that could not fetch would elect another leader within the test, a busy machine does not."""


class Load:
    """A producer in a thread of its own that writes numbered values until it is stopped."""

    def __init__(self, servers: str, store: Path, trust: Path) -> None:
        self.acknowledged: list[bytes] = []
        self.failed: list[confluent_kafka.KafkaError] = []
        self._stopping = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "security.protocol": "SSL",
                "ssl.ca.location": str(trust),
                "ssl.certificate.location": str(store),
                "ssl.key.location": str(store),
                "acks": "all",
                "enable.idempotence": True,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()
        assert self.failed == []

    def wait_for_more(self) -> None:
        count = len(self.acknowledged)
        wait_until("the client goes on writing", lambda: len(self.acknowledged) > count)

    def _write(self) -> None:
        number = 0
        while not self._stopping.is_set():
            self._producer.produce(TOPIC, b"<value %d>" % number, partition=0, on_delivery=self._told)
            number += 1
            self._producer.poll(0.005)
        self._producer.flush(WAIT_SECONDS)

    def _told(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            value = message.value()
            assert value is not None
            self.acknowledged.append(value)


def store_of(node: NodeProcess) -> Path:
    return node.properties.with_suffix(".pem")


def trust_of(node: NodeProcess) -> Path:
    return node.properties.with_suffix(".trust")


def trust(path: Path, *authorities: trustme.CA) -> Path:
    new = path.with_suffix(".new-trust")
    new.write_bytes(b"".join(one.cert_pem.bytes() for one in authorities))
    return new.replace(path)


def secure(quorum: Quorum) -> None:
    for node in quorum.nodes.values():
        write_store(store_of(node), issue(authority(), f"node-{node.id}", HOST))
        trust(trust_of(node), authority())
        with node.properties.open("a") as file:
            file.write("listener.security.protocol.map=CONTROLLER:SSL\nssl.client.auth=required\n")
            file.write(f"ssl.keystore.location={store_of(node)}\nssl.truststore.location={trust_of(node)}\n")


def taken_over(node: NodeProcess) -> int:
    return sum(event["event"] == "certificates reloaded" for event in node.log_events())


def replace_on_each(quorum: Quorum, load: Load, replace: Callable[[NodeProcess], object]) -> None:
    for node in quorum.nodes.values():
        before = taken_over(node)
        replace(node)
        wait_until(f"{node} uses the new files", lambda node=node, before=before: taken_over(node) > before)
        load.wait_for_more()


def led(servers: str, file: str) -> tuple[int, int]:
    """The leader and its epoch."""

    async def ask() -> QuorumDescription:
        admin = AdminClient(servers, request_timeout_ms=30_000, network=client_network(file))
        described = await admin.describe_metadata_quorum()
        assert isinstance(described, QuorumDescription)
        return described

    described = trio.run(ask)
    return described.leader_id, described.leader_epoch


def is_served(node: NodeProcess, context: ssl.SSLContext) -> bool:
    """Whether the node accepts the handshake; with TLS 1.3, a client is told of its refusal when it reads."""
    with socket.create_connection((HOST, node.endpoint.port), timeout=WAIT_SECONDS) as plain:
        try:
            with context.wrap_socket(plain, server_hostname=HOST) as secured:
                secured.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
                return bool(secured.recv(4))
        except (ssl.SSLError, ConnectionError):
            return False


@pytest.mark.rotating(5)
def test_new_authority_and_certificates_cost_nothing(make_quorum: MakeQuorum, tmp_path: Path) -> None:
    quorum: Quorum = make_quorum(3, is_steady=True, controller_quorum_fetch_timeout_ms=FETCH_TIMEOUT_MS)
    secure(quorum)
    both = trust(tmp_path / "both.trust", authority(), foreign_authority())
    files = {}
    for name, ca in (("old", authority()), ("new", foreign_authority())):
        store = write_store(tmp_path / f"{name}.pem", issue(ca, name, HOST))
        keys = {"ssl.keystore.location": str(store), "ssl.truststore.location": str(both)}
        files[name] = write_client_file(tmp_path / f"{name}.properties", keys)
    quorum.start()
    before = led(quorum.bootstrap_servers, files["old"])
    load = Load(quorum.bootstrap_servers, tmp_path / "old.pem", both)
    load.wait_for_more()

    replace_on_each(quorum, load, lambda node: trust(trust_of(node), authority(), foreign_authority()))
    replace_on_each(
        quorum, load, lambda node: write_store(store_of(node), issue(foreign_authority(), f"node-{node.id}", HOST))
    )
    replace_on_each(quorum, load, lambda node: trust(trust_of(node), foreign_authority()))

    for node in quorum.nodes.values():
        assert is_served(node, client_of(issue(foreign_authority(), "new", HOST), foreign_authority()))
        assert not is_served(node, client_of(issue(authority(), "old", HOST), foreign_authority()))
    follower = next(node for node in quorum.nodes.values() if node.id != before[0])
    follower.stop()
    follower.start()
    follower.wait_until_listening()
    load.wait_for_more()
    load.stop()
    logs = wait_until("the logs are equal", lambda: equal_logs(quorum))
    assert [logs.count(value) for value in load.acknowledged] == [1] * len(load.acknowledged)
    assert led(quorum.bootstrap_servers, files["new"]) == before


def equal_logs(quorum: Quorum) -> bytes | None:
    logs = {node.log_bytes() for node in quorum.nodes.values()}
    return logs.pop() if len(logs) == 1 else None
