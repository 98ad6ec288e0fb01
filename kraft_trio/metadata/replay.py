"""What each metadata record changes, as Kafka's `MetadataDelta` replays it (KIP-631).

`replay` is one function per record type behind one table.  Like Kafka, it refuses a record that is about something that
does not exist.  It applies each record by itself.  Kafka applies those of one read together, so whether it keeps the
configuration of a topic that is made and deleted within one read depends on where the read ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from uuid import UUID

import attrs

from kraft_trio.errors import ProtocolError
from kraft_trio.metadata.image import Change, Image
from kraft_trio.protocol.types import directory_id_to_text
from kraft_trio.wire import metadata_schemas as schemas

NO_LEADER_CHANGE: Final = -2
"""The leader in a PartitionChangeRecord that keeps the leader and its epoch."""
MIGRATING: Final = UUID(int=0)
"""The directory of a replica whose broker has not told it yet (KIP-858)."""
METADATA_VERSION: Final = "metadata.version"

Node = TypeVar("Node", schemas.RegisterBrokerRecord, schemas.RegisterControllerRecord)

_TOPIC_CONFIGS = 2
_FENCING: Final = {-1: False, 0: None, 1: True}
_CONTROLLED_SHUTDOWN: Final = {0: None, 1: True}
_NO_RECOVERY_CHANGE = -1


def replay(image: Image, record: Any) -> list[Change]:
    """Apply a record to the image, and return what it changed: nothing if all is as it was.

    Raises ProtocolError, and changes nothing, if the record is about something that does not exist, or has a value that
    Kafka refuses.
    """
    made = _RULES[type(record)](image, record)
    return [change for change in made if change.before != change.after]


# Topics and partitions


def _topic(image: Image, record: schemas.TopicRecord) -> list[Change]:
    # A record about a topic that exists starts it anew.
    changes = _without_partitions(image, record.topic_id)
    image.topic_ids[record.name] = record.topic_id
    return [*changes, image.put("topics", record.topic_id, record)]


def _remove_topic(image: Image, record: schemas.RemoveTopicRecord) -> list[Change]:
    name = image.topic_name(record.topic_id)
    if name is None:
        raise ProtocolError(f"RemoveTopicRecord: there is no topic with the id {directory_id_to_text(record.topic_id)}")
    changes = _without_partitions(image, record.topic_id)
    changes.append(image.put("topics", record.topic_id, None))
    if image.topic_ids.get(name) == record.topic_id:
        del image.topic_ids[name]
    configs = list(image.group("configs", (_TOPIC_CONFIGS, name)).values())
    return [*changes, *(_put_config(image, config, None) for config in configs)]


def _without_partitions(image: Image, topic_id: UUID) -> list[Change]:
    name = image.topic_name(topic_id)
    numbers = list(image.group("partitions", topic_id))
    return [image.put("partitions", number, None, group=topic_id, topic=name) for number in numbers]


def _partition(image: Image, record: schemas.PartitionRecord) -> list[Change]:
    name = _topic_name(image, record)
    return [_put_partition(image, name, _checked(record, name))]


def _partition_change(image: Image, record: schemas.PartitionChangeRecord) -> list[Change]:
    name = _topic_name(image, record)
    before = image.group("partitions", record.topic_id).get(record.partition_id)
    if before is None:
        raise ProtocolError(f"PartitionChangeRecord: the topic {name} has no partition {record.partition_id}")
    has_news = record.leader != NO_LEADER_CHANGE
    elr, last_known_elr = record.eligible_leader_replicas, record.last_known_elr
    recovery = record.leader_recovery_state
    # In the order of the class: naming the fields would take half of the time again.
    after = schemas.PartitionRecord(
        before.partition_id,
        before.topic_id,
        before.replicas if record.replicas is None else record.replicas,
        before.isr if record.isr is None else record.isr,
        before.removing_replicas if record.removing_replicas is None else record.removing_replicas,
        before.adding_replicas if record.adding_replicas is None else record.adding_replicas,
        record.leader if has_news else before.leader,
        before.leader_epoch + 1 if has_news else before.leader_epoch,
        before.partition_epoch + 1,
        before.directories if record.directories is None else record.directories,
        before.leader_recovery_state if recovery == _NO_RECOVERY_CHANGE else recovery,
        before.eligible_leader_replicas if elr is None else elr,
        before.last_known_elr if last_known_elr is None else last_known_elr,
    )
    if record.directories is not None or record.replicas is not None:
        after = _checked(after, name)
    return [_put_partition(image, name, after)]


def _clear_elr(image: Image, record: schemas.ClearElrRecord) -> list[Change]:
    if record.topic_name and record.topic_name not in image.topic_ids:
        raise ProtocolError(f"ClearElrRecord: there is no topic {record.topic_name}")
    ids = (
        [image.topic_ids[record.topic_name]]
        if record.topic_name
        else [topic.topic_id for topic in image.things("topics")]
    )
    return [
        _put_partition(
            image,
            image.topic_name(id) or "",
            attrs.evolve(
                partition,
                eligible_leader_replicas=(),
                last_known_elr=(),
                partition_epoch=partition.partition_epoch + 1,
            ),
        )
        for id in ids
        for partition in list(image.group("partitions", id).values())
        if partition.eligible_leader_replicas or partition.last_known_elr
    ]


def _topic_name(image: Image, record: schemas.PartitionRecord | schemas.PartitionChangeRecord) -> str:
    name = image.topic_name(record.topic_id)
    if name is None:
        kind, id = type(record).__name__, directory_id_to_text(record.topic_id)
        raise ProtocolError(f"{kind}: partition {record.partition_id}: there is no topic with the id {id}")
    return name


def _checked(partition: schemas.PartitionRecord, topic: str) -> schemas.PartitionRecord:
    """The partition as Kafka keeps it: with a directory for each replica."""
    directories, count = partition.directories, len(partition.replicas)
    for one in directories:
        if one.int:
            break
    else:
        return attrs.evolve(partition, directories=(MIGRATING,) * count)
    if len(directories) != count:
        raise ProtocolError(
            f"partition {topic}-{partition.partition_id}: {len(directories)} directories for {count} replicas"
        )
    return partition


def _put_partition(image: Image, topic: str, partition: schemas.PartitionRecord) -> Change:
    return image.put("partitions", partition.partition_id, partition, group=partition.topic_id, topic=topic)


# Brokers and controllers: Kafka keeps listeners, features and directories in no order


def _registered(record: schemas.RegisterBrokerRecord) -> schemas.RegisterBrokerRecord:
    return _with_sorted_directories(_sorted_by_name(record))


def _sorted_by_name(record: Node) -> Node:
    return attrs.evolve(
        record,
        end_points=tuple(sorted(record.end_points, key=lambda one: one.name)),
        features=tuple(sorted(record.features, key=lambda one: one.name)),
    )


def _with_sorted_directories(record: schemas.RegisterBrokerRecord) -> schemas.RegisterBrokerRecord:
    cordoned = record.cordoned_log_dirs
    return attrs.evolve(
        record,
        log_dirs=tuple(sorted(record.log_dirs)),
        cordoned_log_dirs=None if cordoned is None else tuple(sorted(cordoned)),
    )


def _register_broker(image: Image, record: schemas.RegisterBrokerRecord) -> list[Change]:
    return [image.put("brokers", record.broker_id, _registered(record))]


def _unregister_broker(image: Image, record: schemas.UnregisterBrokerRecord) -> list[Change]:
    return [image.put("brokers", record.broker_id, None)]


def _fence(image: Image, record: schemas.FenceBrokerRecord) -> list[Change]:
    return [_change_broker(image, record, record.id, record.epoch, {"fenced": True})]


def _unfence(image: Image, record: schemas.UnfenceBrokerRecord) -> list[Change]:
    return [_change_broker(image, record, record.id, record.epoch, {"fenced": False})]


def _broker_change(image: Image, record: schemas.BrokerRegistrationChangeRecord) -> list[Change]:
    told = {
        "fenced": _told(record, "fenced", _FENCING),
        "in_controlled_shutdown": _told(record, "in_controlled_shutdown", _CONTROLLED_SHUTDOWN),
        "log_dirs": record.log_dirs or None,
        "cordoned_log_dirs": record.cordoned_log_dirs,
    }
    told = {name: value for name, value in told.items() if value is not None}
    return [_change_broker(image, record, record.broker_id, record.broker_epoch, told)]


def _told(record: Any, name: str, meanings: Mapping[int, bool | None]) -> bool | None:
    value = getattr(record, name)
    if value not in meanings:
        raise ProtocolError(f"{type(record).__name__}: {name} {value}, expected {', '.join(map(str, meanings))}")
    return meanings[value]


def _change_broker(image: Image, record: Any, id: int, epoch: int, told: Mapping[str, Any]) -> Change:
    before: schemas.RegisterBrokerRecord | None = image.group("brokers").get(id)
    kind = type(record).__name__
    if before is None:
        raise ProtocolError(f"{kind}: broker {id} is not registered")
    if before.broker_epoch != epoch:
        raise ProtocolError(f"{kind}: broker {id} has the epoch {before.broker_epoch}, not {epoch}")
    return image.put("brokers", id, _with_sorted_directories(attrs.evolve(before, **told)))


def _register_controller(image: Image, record: schemas.RegisterControllerRecord) -> list[Change]:
    return [image.put("controllers", record.controller_id, _sorted_by_name(record))]


def _unregister_controller(image: Image, record: schemas.UnregisterControllerRecord) -> list[Change]:
    return [image.put("controllers", record.controller_id, None)]


# Settings


def _feature(image: Image, record: schemas.FeatureLevelRecord) -> list[Change]:
    after = record if record.feature_level or record.name == METADATA_VERSION else None
    return [image.put("features", record.name, after)]


def _config(image: Image, record: schemas.ConfigRecord) -> list[Change]:
    return [_put_config(image, record, None if record.value is None else record)]


def _put_config(image: Image, of: schemas.ConfigRecord, record: schemas.ConfigRecord | None) -> Change:
    return image.put("configs", of.name, record, group=(of.resource_type, of.resource_name))


def _client_quota(image: Image, record: schemas.ClientQuotaRecord) -> list[Change]:
    entity = tuple(sorted(record.entity, key=lambda one: one.entity_type))
    key = tuple((one.entity_type, one.entity_name) for one in entity), record.key
    after = None if record.remove else attrs.evolve(record, entity=entity)
    return [image.put("client_quotas", key, after)]


def _producer_ids(image: Image, record: schemas.ProducerIdsRecord) -> list[Change]:
    # Kafka keeps no more than the next id.
    return [image.put("producer_ids", "", attrs.evolve(record, broker_id=-1, broker_epoch=-1))]


# Security


def _acl(image: Image, record: schemas.AccessControlEntryRecord) -> list[Change]:
    return [image.put("acls", record.id, record)]


def _remove_acl(image: Image, record: schemas.RemoveAccessControlEntryRecord) -> list[Change]:
    if record.id not in image.group("acls"):
        raise ProtocolError(
            f"RemoveAccessControlEntryRecord: there is no entry with the id {directory_id_to_text(record.id)}"
        )
    return [image.put("acls", record.id, None)]


def _scram(image: Image, record: schemas.UserScramCredentialRecord) -> list[Change]:
    return [image.put("scram", (record.mechanism, record.name), record)]


def _remove_scram(image: Image, record: schemas.RemoveUserScramCredentialRecord) -> list[Change]:
    return [image.put("scram", (record.mechanism, record.name), None)]


def _token(image: Image, record: schemas.DelegationTokenRecord) -> list[Change]:
    return [image.put("delegation_tokens", record.token_id, record)]


def _remove_token(image: Image, record: schemas.RemoveDelegationTokenRecord) -> list[Change]:
    return [image.put("delegation_tokens", record.token_id, None)]


def _nothing(image: Image, record: Any) -> list[Change]:
    """Of records that say nothing of what exists; transactions are `history`'s."""
    return []


_RULES: Final[Mapping[type, Callable[[Image, Any], list[Change]]]] = {
    schemas.TopicRecord: _topic,
    schemas.RemoveTopicRecord: _remove_topic,
    schemas.PartitionRecord: _partition,
    schemas.PartitionChangeRecord: _partition_change,
    schemas.ClearElrRecord: _clear_elr,
    schemas.RegisterBrokerRecord: _register_broker,
    schemas.UnregisterBrokerRecord: _unregister_broker,
    schemas.FenceBrokerRecord: _fence,
    schemas.UnfenceBrokerRecord: _unfence,
    schemas.BrokerRegistrationChangeRecord: _broker_change,
    schemas.RegisterControllerRecord: _register_controller,
    schemas.UnregisterControllerRecord: _unregister_controller,
    schemas.FeatureLevelRecord: _feature,
    schemas.ConfigRecord: _config,
    schemas.ClientQuotaRecord: _client_quota,
    schemas.ProducerIdsRecord: _producer_ids,
    schemas.AccessControlEntryRecord: _acl,
    schemas.RemoveAccessControlEntryRecord: _remove_acl,
    schemas.UserScramCredentialRecord: _scram,
    schemas.RemoveUserScramCredentialRecord: _remove_scram,
    schemas.DelegationTokenRecord: _token,
    schemas.RemoveDelegationTokenRecord: _remove_token,
    schemas.ZkMigrationStateRecord: _nothing,
    schemas.NoOpRecord: _nothing,
    schemas.BeginTransactionRecord: _nothing,
    schemas.EndTransactionRecord: _nothing,
    schemas.AbortTransactionRecord: _nothing,
}
"""What each type of record does.  A test holds this against the schemas."""

_OF_TOPICS: Final = (schemas.TopicRecord, schemas.RemoveTopicRecord)
RECORDS_OF: Final[Mapping[str, tuple[type, ...]]] = {
    "topics": _OF_TOPICS,
    "partitions": (*_OF_TOPICS, schemas.PartitionRecord, schemas.PartitionChangeRecord, schemas.ClearElrRecord),
    "brokers": (
        schemas.RegisterBrokerRecord,
        schemas.UnregisterBrokerRecord,
        schemas.FenceBrokerRecord,
        schemas.UnfenceBrokerRecord,
        schemas.BrokerRegistrationChangeRecord,
    ),
    "controllers": (schemas.RegisterControllerRecord, schemas.UnregisterControllerRecord),
    "features": (schemas.FeatureLevelRecord,),
    "configs": (*_OF_TOPICS, schemas.ConfigRecord),
    "client_quotas": (schemas.ClientQuotaRecord,),
    "producer_ids": (schemas.ProducerIdsRecord,),
    "acls": (schemas.AccessControlEntryRecord, schemas.RemoveAccessControlEntryRecord),
    "scram": (schemas.UserScramCredentialRecord, schemas.RemoveUserScramCredentialRecord),
    "delegation_tokens": (schemas.DelegationTokenRecord, schemas.RemoveDelegationTokenRecord),
}
"""The types of records on which each kind of thing depends, so that others need not be decoded."""
