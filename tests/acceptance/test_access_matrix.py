"""The same principals ask the same of this project's node and of Kafka's, and are told the same."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from uuid import UUID

import confluent_kafka
import confluent_kafka.admin as kafka_admin
import pytest
import trio

from harness.kafka import java, why_no_kafka
from harness.ports import free_ports
from harness.quorum import random_uuid
from harness.waiting import wait_until
from kraft_trio.config.jaas import PLAIN_MODULE
from kraft_trio.config.values import STANDARD_AUTHORIZER
from kraft_trio.errors import KraftError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.security.authorization import ANONYMOUS
from kraft_trio.security.client_network import client_network
from kraft_trio.wire.api import METADATA
from kraft_trio.wire.apis.metadata import MetadataRequest, MetadataTopic
from kraft_trio.wire.connection import Connection
from tests.acceptance.conftest import MakeQuorum
from tests.support.access_matrix import (
    CLIENTS,
    CONTROLLERS,
    GRANTED,
    NOT_SERVED,
    PRINCIPALS,
    RULES,
    SUPER_USER,
    Row,
    outcome_of,
    rows,
    told_by_kafka,
    told_by_ours,
)

PASSWORD = "secret"
WITHOUT_LOGIN = {CLIENTS: "OPEN", CONTROLLERS: "STRANGE"}
"""The listener where nobody authenticates, next to the one with SASL."""
ANSWER_SECONDS = 20
JVM_SECONDS = 90

Outcomes = Mapping[tuple[str, str, str], str]
"""By listener, row and principal."""


def listener_keys(ports: Mapping[str, int]) -> dict[str, object]:
    users = " ".join(f'user_{one.removeprefix("User:")}="{PASSWORD}"' for one in PRINCIPALS if one != ANONYMOUS)
    jaas = f'{PLAIN_MODULE} required username="admin" password="{PASSWORD}" {users};'
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "controller.listener.names": "CONTROLLER,STRANGE",
        "listener.security.protocol.map": (
            "CLIENT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,OPEN:PLAINTEXT,STRANGE:PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": jaas,
        "listener.name.controller.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": SUPER_USER,
    }


def ports_of_listeners() -> dict[str, int]:
    return dict(zip((CONTROLLERS, CLIENTS, "OPEN", "STRANGE"), free_ports(4), strict=True))


async def outcomes(directory: Path, ports: Mapping[str, int]) -> Outcomes:
    """Send each row by each principal on a connection of its own to both kinds of listeners."""
    table = rows(await topic_id_of(directory, ports))
    found = {}
    for kind in (CLIENTS, CONTROLLERS):
        for principal in PRINCIPALS:
            for name, row in table.items():
                connection = await connected(directory, ports, kind, principal)
                try:
                    found[kind, name, principal] = await asked(connection, row)
                finally:
                    await connection.aclose()
    return found


async def asked(connection: Connection, row: Row) -> str:
    try:
        with trio.fail_after(ANSWER_SECONDS):
            return outcome_of(row.request, await connection.request(row.api, row.request))
    except KraftError:
        return NOT_SERVED


async def connected(directory: Path, ports: Mapping[str, int], kind: str, principal: str) -> Connection:
    file, listener = None, WITHOUT_LOGIN[kind]
    if principal != ANONYMOUS:
        user, listener = principal.removeprefix("User:"), kind
        path = directory / f"{user}.properties"
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={PLAIN_MODULE} required username="{user}" password="{PASSWORD}";\n'
        )
        file = str(path)
    stream = await client_network(file).connect(Endpoint("127.0.0.1", ports[listener]))
    return await Connection.negotiated(stream, "client", 1 << 20)


async def topic_id_of(directory: Path, ports: Mapping[str, int]) -> UUID:
    connection = await connected(directory, ports, CLIENTS, SUPER_USER)
    try:
        told = await connection.request(METADATA, MetadataRequest((MetadataTopic("orders"),)))
    finally:
        await connection.aclose()
    return told.topics[0].topic_id


@pytest.fixture
def ours(make_quorum: MakeQuorum, tmp_path: Path) -> Outcomes:
    quorum = make_quorum(1, is_steady=True, kraft_topic_name="orders")
    node = quorum.nodes[1]
    ports = {**ports_of_listeners(), CONTROLLERS: node.endpoint.port}
    (tmp_path / "acl.toml").write_text(RULES)
    keys = {**listener_keys(ports), "kraft.acl.file": tmp_path / "acl.toml"}
    kept = [line for line in node.properties.read_text().splitlines() if line.split("=")[0] not in keys]
    node.properties.write_text("\n".join([*kept, *(f"{key}={value}" for key, value in keys.items()), ""]))
    quorum.start()
    wait_until("the topic has a leader", lambda: trio.run(is_led, tmp_path, ports))
    return trio.run(outcomes, tmp_path, ports)


@pytest.fixture
def kafkas(tmp_path: Path) -> Iterator[Outcomes]:
    ports = ports_of_listeners()
    properties = tmp_path / "kafka.properties"
    keys = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "inter.broker.listener.name": CLIENTS,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports[CONTROLLERS]}",
        "log.dirs": tmp_path / "kafka",
        "offsets.topic.replication.factor": 1,
        **listener_keys(ports),
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    formatting = ["format", "-t", random_uuid(), "-c", str(properties), "--standalone"]
    subprocess.run(java("kafka.tools.StorageTool", *formatting), check=True, capture_output=True, timeout=JVM_SECONDS)
    with (tmp_path / "kafka.log").open("wb") as log:
        process = subprocess.Popen(java("kafka.Kafka", str(properties)), stdout=log, stderr=log, cwd=tmp_path)
    try:
        grant(ports)
        wait_until("the topic has a leader", lambda: trio.run(is_led, tmp_path, ports), JVM_SECONDS)
        yield trio.run(outcomes, tmp_path, ports)
    finally:
        process.kill()
        process.wait(JVM_SECONDS)


def grant(ports: Mapping[str, int]) -> None:
    """Make the topic "orders" and the rules."""
    admin = kafka_admin.AdminClient(
        {
            "bootstrap.servers": f"127.0.0.1:{ports[CLIENTS]}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": PASSWORD,
            "log_level": 0,
        }
    )
    wait_until("Kafka answers", lambda: brokers_of(admin), JVM_SECONDS)
    topic = kafka_admin.NewTopic("orders", num_partitions=1, replication_factor=1)
    for made in admin.create_topics([topic]).values():
        made.result(JVM_SECONDS)
    bindings = [
        kafka_admin.AclBinding(
            kafka_admin.ResourceType.TOPIC if named else kafka_admin.ResourceType.BROKER,
            named or "kafka-cluster",
            kafka_admin.ResourcePatternType.LITERAL,
            principal,
            "*",
            kafka_admin.AclOperation[operation],
            kafka_admin.AclPermissionType.ALLOW,
        )
        for principal, (named, operations) in GRANTED.items()
        for operation in operations
    ]
    for bound in admin.create_acls(bindings).values():
        bound.result(JVM_SECONDS)


def brokers_of(admin: kafka_admin.AdminClient) -> bool:
    try:
        return bool(admin.list_topics(timeout=2).brokers)
    except confluent_kafka.KafkaException:
        return False


async def is_led(directory: Path, ports: Mapping[str, int]) -> bool:
    try:
        connection = await connected(directory, ports, CLIENTS, SUPER_USER)
    except KraftError:
        return False
    try:
        told = await connection.request(METADATA, MetadataRequest((MetadataTopic("orders"),)))
    finally:
        await connection.aclose()
    return any(partition.leader_id >= 0 for topic in told.topics for partition in topic.partitions)


def as_the_table_says(told: Callable[[str, str, Row, str], str]) -> Outcomes:
    return {
        (kind, name, principal): told(kind, name, row, principal)
        for kind in (CLIENTS, CONTROLLERS)
        for name, row in rows(UUID(int=0)).items()
        for principal in PRINCIPALS
    }


def test_each_principal_is_told_what_the_table_says(ours: Outcomes) -> None:
    assert ours == as_the_table_says(told_by_ours)


@pytest.mark.interop
@pytest.mark.nightly
@pytest.mark.skipif(why_no_kafka() is not None, reason=str(why_no_kafka()))
def test_kafka_tells_each_principal_what_the_table_says(kafkas: Outcomes) -> None:
    assert kafkas == as_the_table_says(told_by_kafka)
