"""Apache Kafka's metadata records (KIP-631), as `kraft_trio.wire.fields` declares messages.

All of Kafka 4.4's records are here.  Newer versions of a record only add fields, so older releases have the same ones.
Kafka's names of the fields are these in camel case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final

import attrs

from kraft_trio.wire.fields import Bool, Bytes, Float64, Int8, Int16, Int32, Int64, Place, String, Uint16, Uuid
from kraft_trio.wire.schema import Structure, structure_of
from kraft_trio.wire.schema_reader import Reader, message_reader


@attrs.frozen
class RegisteredEndpoint:
    name: String
    host: String
    port: Uint16
    security_protocol: Int16


@attrs.frozen
class RegisteredFeature:
    name: String
    min_supported_version: Int16
    max_supported_version: Int16


@attrs.frozen
class RegisterBrokerRecord:
    broker_id: Int32
    is_migrating_zk_broker: Annotated[Bool, Place(since=2)]
    incarnation_id: Uuid
    broker_epoch: Int64
    end_points: tuple[RegisteredEndpoint, ...]
    features: tuple[RegisteredFeature, ...]
    rack: String | None
    fenced: Bool
    in_controlled_shutdown: Annotated[Bool, Place(since=1)]
    log_dirs: Annotated[tuple[Uuid, ...], Place(since=3, tag=0)] = ()
    cordoned_log_dirs: Annotated[tuple[Uuid, ...] | None, Place(since=4, tag=1)] = None


@attrs.frozen
class UnregisterBrokerRecord:
    broker_id: Int32
    broker_epoch: Int64


@attrs.frozen
class TopicRecord:
    name: String
    topic_id: Uuid


@attrs.frozen
class PartitionRecord:
    partition_id: Int32
    topic_id: Uuid
    replicas: tuple[Int32, ...]
    isr: tuple[Int32, ...]
    removing_replicas: tuple[Int32, ...]
    adding_replicas: tuple[Int32, ...]
    leader: Int32
    leader_epoch: Int32
    partition_epoch: Int32
    directories: Annotated[tuple[Uuid, ...], Place(since=1)]
    leader_recovery_state: Annotated[Int8, Place(tag=0)] = 0
    eligible_leader_replicas: Annotated[tuple[Int32, ...] | None, Place(since=2, tag=1)] = None
    last_known_elr: Annotated[tuple[Int32, ...] | None, Place(since=2, tag=2)] = None


@attrs.frozen
class ConfigRecord:
    resource_type: Int8
    resource_name: String
    name: String
    value: String | None


@attrs.frozen
class PartitionChangeRecord:
    partition_id: Int32
    topic_id: Uuid
    isr: Annotated[tuple[Int32, ...] | None, Place(tag=0)] = None
    leader: Annotated[Int32, Place(tag=1)] = -2
    replicas: Annotated[tuple[Int32, ...] | None, Place(tag=2)] = None
    removing_replicas: Annotated[tuple[Int32, ...] | None, Place(tag=3)] = None
    adding_replicas: Annotated[tuple[Int32, ...] | None, Place(tag=4)] = None
    leader_recovery_state: Annotated[Int8, Place(tag=5)] = -1
    directories: Annotated[tuple[Uuid, ...] | None, Place(since=1, tag=8)] = None
    eligible_leader_replicas: Annotated[tuple[Int32, ...] | None, Place(since=2, tag=6)] = None
    last_known_elr: Annotated[tuple[Int32, ...] | None, Place(since=2, tag=7)] = None


@attrs.frozen
class FenceBrokerRecord:
    id: Int32
    epoch: Int64


@attrs.frozen
class UnfenceBrokerRecord:
    id: Int32
    epoch: Int64


@attrs.frozen
class RemoveTopicRecord:
    topic_id: Uuid


@attrs.frozen
class DelegationTokenRecord:
    owner: String
    requester: String
    renewers: tuple[String, ...]
    issue_timestamp: Int64
    max_timestamp: Int64
    expiration_timestamp: Int64
    token_id: String


@attrs.frozen
class UserScramCredentialRecord:
    name: String
    mechanism: Int8
    salt: Bytes
    stored_key: Bytes
    server_key: Bytes
    iterations: Int32


@attrs.frozen
class FeatureLevelRecord:
    name: String
    feature_level: Int16


@attrs.frozen
class QuotaEntity:
    entity_type: String
    entity_name: String | None


@attrs.frozen
class ClientQuotaRecord:
    entity: tuple[QuotaEntity, ...]
    key: String
    value: Float64
    remove: Bool


@attrs.frozen
class ProducerIdsRecord:
    broker_id: Int32
    broker_epoch: Int64
    next_producer_id: Int64


@attrs.frozen
class BrokerRegistrationChangeRecord:
    broker_id: Int32
    broker_epoch: Int64
    fenced: Annotated[Int8, Place(tag=0)] = 0
    in_controlled_shutdown: Annotated[Int8, Place(since=1, tag=1)] = 0
    log_dirs: Annotated[tuple[Uuid, ...], Place(since=2, tag=2)] = ()
    cordoned_log_dirs: Annotated[tuple[Uuid, ...] | None, Place(since=3, tag=3)] = None


@attrs.frozen
class AccessControlEntryRecord:
    id: Uuid
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@attrs.frozen
class RemoveAccessControlEntryRecord:
    id: Uuid


@attrs.frozen
class NoOpRecord:
    pass


@attrs.frozen
class ZkMigrationStateRecord:
    zk_migration_state: Int8


@attrs.frozen
class RemoveUserScramCredentialRecord:
    name: String
    mechanism: Int8


@attrs.frozen
class BeginTransactionRecord:
    name: Annotated[String | None, Place(tag=0)] = None


@attrs.frozen
class EndTransactionRecord:
    pass


@attrs.frozen
class AbortTransactionRecord:
    reason: Annotated[String | None, Place(tag=0)] = None


@attrs.frozen
class RemoveDelegationTokenRecord:
    token_id: String


@attrs.frozen
class RegisterControllerRecord:
    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool
    end_points: tuple[RegisteredEndpoint, ...]
    features: tuple[RegisteredFeature, ...]


@attrs.frozen
class ClearElrRecord:
    topic_name: String


@attrs.frozen
class UnregisterControllerRecord:
    controller_id: Int32


@attrs.frozen
class RecordSchema:
    """A kind of record.  `type_name` is how Kafka's tools print it, as in TOPIC_RECORD."""

    record: type[Any]
    max_version: int

    @property
    def name(self) -> str:
        return self.record.__name__

    @property
    def type_name(self) -> str:
        return record_type_name(self.record)

    def structure(self, version: int) -> Structure:
        """Its fields in that version.  Raises ValueError unless 0 <= version <= `max_version`."""
        if not 0 <= version <= self.max_version:
            raise ValueError(f"{self.name}: version {version}, expected 0 to {self.max_version}")
        return _structure(self, version)

    def reader(self, version: int) -> Reader:
        """The function that reads that version.  Raises ValueError as `structure` does."""
        return _reader(self, version, self.structure(version))


def record_type_name(record: type[Any]) -> str:
    """How Kafka's tools print the class of a record, as in TOPIC_RECORD."""
    return _type_name(record.__name__)


@cache
def _type_name(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


@cache
def record_reader(api_key: int, version: int) -> Reader:
    """The function that reads a record's message.  Raises ValueError for an unknown record or version."""
    if api_key not in SCHEMAS:
        raise ValueError(f"metadata record: no record has the API key {api_key}")
    return SCHEMAS[api_key].reader(version)


@cache
def _structure(schema: RecordSchema, version: int) -> Structure:
    return structure_of(schema.record, version, flexible=True)


@cache
def _reader(schema: RecordSchema, version: int, structure: Structure) -> Reader:
    return message_reader(structure, schema.name)


SCHEMAS: Final[Mapping[int, RecordSchema]] = {
    0: RecordSchema(RegisterBrokerRecord, 4),
    1: RecordSchema(UnregisterBrokerRecord, 0),
    2: RecordSchema(TopicRecord, 0),
    3: RecordSchema(PartitionRecord, 2),
    4: RecordSchema(ConfigRecord, 0),
    5: RecordSchema(PartitionChangeRecord, 2),
    7: RecordSchema(FenceBrokerRecord, 0),
    8: RecordSchema(UnfenceBrokerRecord, 0),
    9: RecordSchema(RemoveTopicRecord, 0),
    10: RecordSchema(DelegationTokenRecord, 0),
    11: RecordSchema(UserScramCredentialRecord, 0),
    12: RecordSchema(FeatureLevelRecord, 0),
    14: RecordSchema(ClientQuotaRecord, 0),
    15: RecordSchema(ProducerIdsRecord, 0),
    17: RecordSchema(BrokerRegistrationChangeRecord, 3),
    18: RecordSchema(AccessControlEntryRecord, 0),
    19: RecordSchema(RemoveAccessControlEntryRecord, 0),
    20: RecordSchema(NoOpRecord, 0),
    21: RecordSchema(ZkMigrationStateRecord, 0),
    22: RecordSchema(RemoveUserScramCredentialRecord, 0),
    23: RecordSchema(BeginTransactionRecord, 0),
    24: RecordSchema(EndTransactionRecord, 0),
    25: RecordSchema(AbortTransactionRecord, 0),
    26: RecordSchema(RemoveDelegationTokenRecord, 0),
    27: RecordSchema(RegisterControllerRecord, 0),
    28: RecordSchema(ClearElrRecord, 0),
    29: RecordSchema(UnregisterControllerRecord, 0),
}
"""By API key."""
