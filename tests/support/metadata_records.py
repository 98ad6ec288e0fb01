"""Metadata records of Kafka's controllers (KIP-631), as they are in a log."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kraft_trio.protocol.types import VersionRange
from kraft_trio.wire.metadata_schemas import SCHEMAS
from kraft_trio.wire.schema_writer import entity_writer

TOPIC_ID = UUID(int=5)


def metadata_record(name: str, /, **fields: Any) -> bytes:
    """A record of version 0, by its name without "Record"."""
    [(key, schema)] = [(key, schema) for key, schema in SCHEMAS.items() if schema.name == f"{name}Record"]
    chunks: list[Any] = []
    entity_writer(schema.shape(0))(
        chunks, {**{field.name: field.default for field in schema.shape(0).tagged}, **fields}
    )
    return bytes([1, key, 0]) + b"".join(bytes(chunk) for chunk in chunks)


def register(broker_id: int, *, fenced: bool = True) -> bytes:
    return metadata_record(
        "RegisterBroker",
        brokerId=broker_id,
        incarnationId=UUID(int=broker_id),
        brokerEpoch=1,
        endPoints=[],
        features=[],
        rack=None,
        fenced=fenced,
    )


def change(broker_id: int, fenced: int) -> bytes:
    return metadata_record("BrokerRegistrationChange", brokerId=broker_id, brokerEpoch=1, fenced=fenced)


def topic(name: str, topic_id: UUID = TOPIC_ID) -> bytes:
    return metadata_record("Topic", name=name, topicId=topic_id)


def partition(replicas: list[int], topic_id: UUID = TOPIC_ID) -> bytes:
    numbers = {"partitionId": 0, "leader": replicas[0], "leaderRecoveryState": 0, "leaderEpoch": 0, "partitionEpoch": 0}
    return metadata_record(
        "Partition",
        topicId=topic_id,
        replicas=replicas,
        isr=replicas,
        removingReplicas=[],
        addingReplicas=[],
        **numbers,
    )


def register_controller(controller_id: int, **features: VersionRange) -> bytes:
    """Of a controller with these features; an underscore in a name is a dot."""
    return metadata_record(
        "RegisterController",
        controllerId=controller_id,
        incarnationId=UUID(int=controller_id),
        zkMigrationReady=False,
        endPoints=[],
        features=[
            {
                "name": name.replace("_", "."),
                "minSupportedVersion": levels.minimum,
                "maxSupportedVersion": levels.maximum,
            }
            for name, levels in features.items()
        ],
    )


def unregister_controller(controller_id: int) -> bytes:
    return metadata_record("UnregisterController", controllerId=controller_id)


NO_OP = metadata_record("NoOp")
