"""Apache Kafka's tools and controllers with SSL, SASL_PLAINTEXT and SASL_SSL, and our tools and nodes with them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from harness.command import kraft
from harness.kafka import java
from harness.node import NodeProcess
from harness.ports import free_ports
from harness.quorum import TOPIC, Quorum
from harness.waiting import wait_until
from kraft_trio.cli import run as run_command_line
from kraft_trio.config.jaas import PLAIN_MODULE
from tests.acceptance.conftest import MakeQuorum
from tests.interop.kafka_controllers import JVM_SECONDS, Controllers

pytestmark = pytest.mark.nightly

PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="secret";'
PLAIN = f'{PLAIN_MODULE} required username="alice" password="secret" user_alice="secret";'


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Keys of Kafka's for a certificate, and for the authority that signed it."""
    home = tmp_path_factory.mktemp("stores")
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    # Java reads no other form of a private key.
    pkcs8 = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (home / "node.pem").write_bytes(b"".join([pkcs8, *(blob.bytes() for blob in certificate.cert_chain_pems)]))
    authority.cert_pem.write_to_path(home / "authority.pem")
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(home / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(home / "authority.pem"),
    }


def write(path: Path, settings: dict[str, str]) -> Path:
    with path.open("a") as file:
        file.writelines(f"{key}={value}\n" for key, value in settings.items())
    return path


def client_file(path: Path, protocol: str, stores: dict[str, str], mechanism: str, jaas: str) -> str:
    path.unlink(missing_ok=True)
    security = {"security.protocol": protocol, **(stores if "SSL" in protocol else {})}
    sasl = {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas} if "SASL" in protocol else {}
    return str(write(path, {**security, **sasl}))


@pytest.fixture(scope="module")
def servers(make_module_quorum: MakeQuorum, stores: dict[str, str]) -> dict[str, str]:
    """Three nodes that authenticate each other both ways; the addresses of node 1 by their security protocol."""
    quorum: Quorum = make_module_quorum(3, is_steady=True)
    found: dict[str, str] = {}
    for node in quorum.nodes.values():
        addresses = dict(zip(PROTOCOLS, (f"127.0.0.1:{port}" for port in free_ports(len(PROTOCOLS))), strict=True))
        found = found or addresses
        controller = f"listeners=CONTROLLER://{node.endpoint}"
        listeners = ",".join([controller, *(f"{name}://{address}" for name, address in addresses.items())])
        node.properties.write_text(node.properties.read_text().replace(controller, listeners))
        write(
            node.properties,
            {
                "listener.security.protocol.map": ",".join(
                    ["CONTROLLER:SASL_SSL", *(f"{it}:{it}" for it in PROTOCOLS)]
                ),
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
                "sasl.jaas.config": SCRAM,
                "ssl.client.auth": "required",
                **stores,
            },
        )
        user = "SCRAM-SHA-512=[name=alice,password=secret]"
        assert run_command_line(["storage", "add-scram", "-c", str(node.properties), user]) == 0
    quorum.start()
    return found


def tool(main: str, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        java(f"org.apache.kafka.tools.{main}", *arguments),
        input=text,
        capture_output=True,
        text=True,
        timeout=JVM_SECONDS,
        check=False,
    )


@pytest.fixture(scope="module")
def written() -> list[str]:
    """What the tests of this module have written to the servers."""
    return []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_kafkas_tools_write_read_and_describe(
    servers: dict[str, str], written: list[str], stores: dict[str, str], tmp_path: Path, protocol: str
) -> None:
    file = client_file(tmp_path / "client", protocol, stores, "SCRAM-SHA-512", SCRAM)
    asked = ["--bootstrap-server", servers[protocol]]
    written.append(f"by {protocol}")
    produced = tool("ConsoleProducer", *asked, "--topic", TOPIC, "--producer.config", file, text=f"{written[-1]}\n")
    assert produced.returncode == 0, produced.stderr
    reading = ["--topic", TOPIC, "--partition", "0", "--offset", "earliest", "--max-messages", str(len(written))]
    read = tool("consumer.ConsoleConsumer", *asked, *reading, "--consumer.config", file)
    # Before them, Kafka 4.4 says that an option is deprecated.
    assert read.stdout.splitlines()[-len(written) :] == written, read.stderr
    described = tool("MetadataQuorumCommand", *asked, "--command-config", file, "describe", "--status")
    assert "LeaderId:" in described.stdout, described.stderr


@pytest.fixture(params=["SSL", "SASL_SSL"])
def controllers(request: pytest.FixtureRequest, stores: dict[str, str], tmp_path: Path) -> Iterator[Controllers]:
    """One of Kafka's controllers.  Kafka has no SCRAM between controllers that are not running yet."""
    secured = {
        "listener.security.protocol.map": f"CONTROLLER:{request.param}",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": PLAIN,
        "ssl.client.auth": "required",
        **stores,
    }

    class Secured(Controllers):
        def write_properties(self, node_id: int) -> None:
            super().write_properties(node_id)
            write(self.properties(node_id), secured)

    made = Secured(tmp_path, (1,))
    made.start()
    yield made
    made.stop()


def test_a_node_observes_kafkas_controllers_and_our_tools_describe_them(
    controllers: Controllers, stores: dict[str, str], tmp_path: Path
) -> None:
    protocol = "SASL_SSL" if "CONTROLLER:SASL_SSL" in controllers.properties(1).read_text() else "SSL"
    file = client_file(tmp_path / "client", protocol, stores, "PLAIN", PLAIN)
    node = NodeProcess(7, tmp_path / "node-7", *free_ports(1))
    node.write_properties(
        {
            "node.id": 7,
            "process.roles": "broker",
            "listeners": f"CLIENT://{node.endpoint}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controllers.ports[1]}",
            "listener.security.protocol.map": f"CONTROLLER:{protocol},CLIENT:PLAINTEXT",
            "metadata.log.dir": node.directory,
            **(
                {"sasl.mechanism.controller.protocol": "PLAIN", "sasl.jaas.config": PLAIN} if "SASL" in protocol else {}
            ),
            **stores,
        }
    )
    kraft("storage", "format", "-t", controllers.cluster_id, "-N", "-c", str(node.properties))
    node.start()
    try:

        def described() -> bool:
            shown = controllers.ask(1, "metadata-quorum", "--command-config", file, "describe", "--replication").stdout
            lag = [line.split() for line in shown.splitlines() if line.startswith("7 ")]
            return bool(lag) and lag[0][-1] == "Observer" and int(lag[0][2]) > 0

        wait_until("the observer has fetched", described)
        explained = controllers.ask(1, "metadata-quorum", "--command-config", file, "explain")
        assert "1 of 1 voter is up" in explained.stdout, explained.stderr
        row = next(line.split() for line in explained.stdout.splitlines() if line.startswith("1 "))
        assert [end.isdecimal() for end in row[-2:]] == [True, True], "what the leader of Kafka tells of itself"
    finally:
        node.kill()
