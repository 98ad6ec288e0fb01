"""The shop's cluster: what it has, and what happens to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from confluent_kafka import ElectionType, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from harness.waiting import wait_until
from kraft_trio.cli.metadata.choice_of_replica import furthest
from kraft_trio.metadata.entities import ENTITIES
from kraft_trio.metadata.image import Image
from kraft_trio.spark.metadata.replaying import Replaying
from tests.interop.kafka_broker import Broker
from tests.interop.kafka_controllers import JVM_SECONDS, Controllers
from tests.interop.kafka_tools import tool

CONTROLLERS: Final = (1, 2, 3)
BROKERS: Final = {11: "rack-a", 12: "rack-b", 13: "rack-c"}
_AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_OF_CONTROLLERS: Final = {
    **_AUTHORIZER,
    "broker.session.timeout.ms": 6000,
    "metadata.max.idle.interval.ms": 5000,
    "metadata.log.max.record.bytes.between.snapshots": 6000,
}
_PARTITIONS: Final = {
    "orders": [[(11, 12, 13)[(first + at) % 3] for at in range(3)] for first in range(12)],
    "payments": [[11, 12], [12, 13], [13, 11], [11, 12], [12, 13], [13, 11]],
    "clicks": [[11], [12], [13]],
    "carts": [[12, 13], [13, 11]],
}
"""The replicas of each topic's partitions."""


class Shop:
    """Three controllers, three brokers, and an administrator's client."""

    def __init__(
        self, directory: Path, say: Callable[[str], None], settings: Mapping[str, object] | None = None
    ) -> None:
        """`settings` are further ones of the controllers.  Nothing runs before `play`."""
        self._directory = directory
        self._say = say
        self.controllers = Controllers(
            directory, CONTROLLERS, voters=CONTROLLERS, settings={**_OF_CONTROLLERS, **(settings or {})}
        )
        self.brokers: dict[int, Broker] = {}
        self.active = 0
        """The active controller."""

    def play(self) -> None:
        """Everything that happens.  Afterwards, nothing runs.  Raises Overdue."""
        for step in (
            self._start,
            self._create_topics,
            self._configure,
            self._secure,
            self._lose_a_broker_for_a_while,
            self._reassign,
            self._make_a_topic_again,
            self._fail_over,
            self._lose_a_broker,
        ):
            self._say((step.__doc__ or "").rstrip("."))
            step()
        self._until("a snapshot is taken", lambda _: bool(self.controllers.checkpoints(self.active)))
        self.stop()

    def stop(self) -> None:
        """Kill what runs, the controllers first: they are not to see the brokers end."""
        self.controllers.stop()
        for broker in self.brokers.values():
            broker.kill()

    def copy(self, target: Path) -> int:
        """Copy the directory of the active controller that has been stopped, and return its size in bytes.

        Indexes are left out: Kafka makes them again.
        """
        shutil.copytree(
            self.controllers.partition(self.active).parent,
            target,
            ignore=shutil.ignore_patterns(".lock", "*.index", "*.timeindex", "*.snapshot", "*-offset-checkpoint"),
        )
        return sum(path.stat().st_size for path in target.rglob("*") if path.is_file())

    # What happens

    def _start(self) -> None:
        """The controllers and brokers start."""
        self.controllers.start()
        self.active = wait_until("the controllers elect a leader", lambda: self.controllers.leader(1), JVM_SECONDS)
        for id, rack in BROKERS.items():
            settings = {**_AUTHORIZER, "broker.rack": rack, "broker.heartbeat.interval.ms": 1000}
            self.brokers[id] = Broker(self._directory, self.controllers, settings, id)
        self._until("all brokers are up", lambda image: _unfenced(image) == set(BROKERS))
        servers = ",".join(broker.endpoint for broker in self.brokers.values())
        self._client = {"bootstrap.servers": servers, "log_level": 0}
        self._admin = AdminClient(self._client)

    def _create_topics(self) -> None:
        """Topics are created, and an order is written."""
        for topic, replicas in _PARTITIONS.items():
            self._create(topic, replicas)
        self._until(
            "all partitions exist", lambda image: len(_partitions(image)) == sum(map(len, _PARTITIONS.values()))
        )
        producer = Producer({**self._client, "enable.idempotence": True})
        producer.produce("orders", b"the first order")
        assert producer.flush(JVM_SECONDS) == 0

    def _configure(self) -> None:
        """Configurations and quotas are set."""
        self._set(ResourceType.TOPIC, "payments", "retention.ms", "86400000")
        self._set(ResourceType.TOPIC, "payments", "retention.ms", "604800000")
        self._set(ResourceType.TOPIC, "orders", "min.insync.replicas", "2")
        self._set(ResourceType.TOPIC, "carts", "cleanup.policy", "compact")
        self._set(ResourceType.BROKER, "11", "log.cleaner.threads", "2")
        for entity, limit in (("clients", "producer_byte_rate=1048576"), ("users", "consumer_byte_rate=2097152")):
            asked = ["--entity-type", entity, "--entity-name", "web", "--alter", "--add-config", limit]
            self._run("ConfigCommand", *asked)

    def _secure(self) -> None:
        """Access control entries and SCRAM credentials are written."""
        writes = (ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:web", AclOperation.WRITE)
        reads = (ResourceType.TOPIC, "pay", ResourcePatternType.PREFIXED, "User:billing", AclOperation.READ)
        acls = [
            AclBinding(kind, name, pattern, principal, "*", operation, AclPermissionType.ALLOW)
            for kind, name, pattern, principal, operation in (writes, reads)
        ]
        self._done(self._admin.create_acls(acls))
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        users = [UserScramCredentialUpsertion(name, how, b"shop") for name in ("web", "billing")]
        self._done(self._admin.alter_user_scram_credentials(users))

    def _lose_a_broker_for_a_while(self) -> None:
        """Broker 12 is killed and fenced, comes back, and leads again."""
        self.brokers[12].kill()
        self._until("broker 12 is fenced", lambda image: _unfenced(image) == {11, 13})
        self._until("orders-7 is led by another", lambda image: _partitions(image)["orders-7"]["isr"] == [13, 11])
        self.brokers[12].run()
        self._until("all replicas are in sync", _all_in_sync)
        self._admin.elect_leaders(ElectionType.PREFERRED).result(JVM_SECONDS)
        self._until("preferred replicas lead", _preferred_lead)

    def _reassign(self) -> None:
        """A partition is reassigned."""
        file = self._directory / "reassignment.json"
        moved = {"topic": "payments", "partition": 1, "replicas": [11, 12]}
        file.write_text(json.dumps({"version": 1, "partitions": [moved]}))
        self._run("reassign.ReassignPartitionsCommand", "--execute", "--reassignment-json-file", str(file))
        self._until(
            "payments-1 has moved",
            lambda image: (
                (now := _partitions(image)["payments-1"])["replicas"] == [11, 12] and set(now["isr"]) == {11, 12}
            ),
        )

    def _make_a_topic_again(self) -> None:
        """A topic is deleted, and made again under the same name."""
        self._done(self._admin.delete_topics(["carts"]))
        self._until("carts is gone", lambda image: "carts" not in image.topic_ids)
        self._create("carts", _PARTITIONS["carts"])
        self._until("carts is back", lambda image: "carts" in image.topic_ids)

    def _fail_over(self) -> None:
        """The active controller is killed, and starts again; another one leads."""
        before = self.active
        self.controllers.kill(before)
        asked = next(id for id in CONTROLLERS if id != before)

        def another() -> int | None:
            leader = self.controllers.leader(asked)
            return None if leader == before else leader

        self.active = wait_until("another controller leads", another, JVM_SECONDS)
        self.controllers.run(before)
        self._set(ResourceType.TOPIC, "payments", "retention.ms", "1209600000")
        self._until("the configuration is changed", lambda image: "1209600000" in _configs(image))
        end = _replayed(self.controllers.partition(self.active).parent).end
        wait_until(
            "it has caught up",
            lambda: _replayed(self.controllers.partition(before).parent).end >= end,
            JVM_SECONDS,
            interval_seconds=1,
        )

    def _lose_a_broker(self) -> None:
        """Broker 13 is killed, and stays away."""
        self.brokers[13].kill()
        self._until("broker 13 is fenced", lambda image: _unfenced(image) == {11, 12})
        self._until("clicks-2 has no leader", lambda image: _partitions(image)["clicks-2"]["leader"] == -1)

    # How

    def _until(self, what: str, holds: Callable[[Image], bool]) -> None:
        """Wait until it holds in the metadata that the active controller has written.  Raises Overdue."""
        directory = self.controllers.partition(self.active).parent
        wait_until(what, lambda: holds(_replayed(directory).history.image), JVM_SECONDS, interval_seconds=0.5)

    def _create(self, topic: str, replicas: list[list[int]]) -> None:
        new = NewTopic(topic, num_partitions=len(replicas), replica_assignment=replicas)
        self._done(self._admin.create_topics([new]))

    def _set(self, kind: ResourceType, name: str, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        self._done(self._admin.incremental_alter_configs([resource]))

    def _run(self, name: str, *arguments: str) -> None:
        done = tool(name, "--bootstrap-server", self.brokers[11].endpoint, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr

    @staticmethod
    def _done(futures: Mapping[Any, Any]) -> None:
        for future in futures.values():
            future.result(JVM_SECONDS)


def _replayed(directory: Path) -> Replaying:
    replaying = Replaying(furthest([str(directory)]))
    replaying.run()  # a batch that is being written is read the next time
    return replaying


def _partitions(image: Image) -> dict[str, dict[str, Any]]:
    return {ENTITIES["partitions"].label(row): row for row in ENTITIES["partitions"].rows(image)}


def _unfenced(image: Image) -> set[int]:
    return {row["broker_id"] for row in ENTITIES["brokers"].rows(image) if not row["fenced"]}


def _configs(image: Image) -> set[str]:
    return {row["value"] for row in ENTITIES["configs"].rows(image)}


def _all_in_sync(image: Image) -> bool:
    return all(set(row["isr"]) == set(row["replicas"]) for row in _partitions(image).values())


def _preferred_lead(image: Image) -> bool:
    return all(row["leader"] == row["replicas"][0] for row in _partitions(image).values())
