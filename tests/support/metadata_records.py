"""Metadata records of Kafka's controllers (KIP-631), as they are in a log."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kraft_trio.protocol.types import VersionRange
from kraft_trio.wire.metadata_schemas import (
    SCHEMAS,
    BrokerRegistrationChangeRecord,
    NoOpRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RegisteredFeature,
    TopicRecord,
    UnregisterControllerRecord,
)
from kraft_trio.wire.schema_writer import message_writer

TOPIC_ID = UUID(int=5)


def metadata_record(record: Any) -> bytes:
    """A record of version 0."""
    [(key, schema)] = [(key, schema) for key, schema in SCHEMAS.items() if schema.record is type(record)]
    chunks: list[bytes] = []
    message_writer(schema.structure(0), schema.name)(chunks, record)
    return bytes([1, key, 0]) + b"".join(chunks)


def register(broker_id: int, *, fenced: bool = True) -> bytes:
    return metadata_record(
        RegisterBrokerRecord(
            broker_id=broker_id,
            is_migrating_zk_broker=False,
            incarnation_id=UUID(int=broker_id),
            broker_epoch=1,
            end_points=(),
            features=(),
            rack=None,
            fenced=fenced,
            in_controlled_shutdown=False,
        )
    )


def change(broker_id: int, fenced: int) -> bytes:
    return metadata_record(
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=1, in_controlled_shutdown=0, fenced=fenced)
    )


def topic(name: str, topic_id: UUID = TOPIC_ID) -> bytes:
    return metadata_record(TopicRecord(name=name, topic_id=topic_id))


def partition(replicas: list[int], topic_id: UUID = TOPIC_ID) -> bytes:
    return metadata_record(
        PartitionRecord(
            partition_id=0,
            topic_id=topic_id,
            replicas=tuple(replicas),
            isr=tuple(replicas),
            removing_replicas=(),
            adding_replicas=(),
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=(),
        )
    )


def register_controller(controller_id: int, **features: VersionRange) -> bytes:
    """Of a controller with these features; an underscore in a name is a dot."""
    return metadata_record(
        RegisterControllerRecord(
            controller_id=controller_id,
            incarnation_id=UUID(int=controller_id),
            zk_migration_ready=False,
            end_points=(),
            features=tuple(
                RegisteredFeature(name.replace("_", "."), levels.minimum, levels.maximum)
                for name, levels in features.items()
            ),
        )
    )


def unregister_controller(controller_id: int) -> bytes:
    return metadata_record(UnregisterControllerRecord(controller_id))


NO_OP = metadata_record(NoOpRecord())
