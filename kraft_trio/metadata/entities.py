"""The kinds of things that metadata records are about, and the columns of each.

A thing's columns are the fields of the record that creates it, with names for numbers and without secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

import attrs

from kraft_trio.metadata import names
from kraft_trio.metadata.columns import TEXT, Column, ValueType, columns_of, schema_of, with_lists
from kraft_trio.metadata.image import Image
from kraft_trio.wire import metadata_schemas as schemas

TOPIC: Final = "topic"
"""The column with the topic's name: a partition's record has the topic's id alone."""


@attrs.frozen
class Entity:
    """One kind of thing."""

    name: str
    """As the option `content` and the command line have it."""
    schema: schemas.RecordSchema
    """Of the record that creates one."""
    columns: tuple[Column, ...]
    """Of one row, without those of the topic."""
    label: Callable[[dict[str, Any]], str]
    """A row's key as text, such as `orders-7` for a partition."""
    has_topic: bool = False
    """Whether the first column is the name of the topic."""

    @property
    def types(self) -> tuple[tuple[str, ValueType], ...]:
        """Names and types of all columns of a row."""
        own = tuple((column.name, column.type) for column in self.columns)
        return ((TOPIC, ValueType(TEXT)), *own) if self.has_topic else own

    def values(self, record: Any, topic: str | None = None) -> dict[str, Any]:
        """One row.  `topic` is the name of the topic if it `has_topic`."""
        row = {column.name: column.of(record) for column in self.columns}
        return {TOPIC: topic, **row} if self.has_topic else row

    def rows(self, image: Image) -> Iterator[dict[str, Any]]:
        """A row for each thing in the image."""
        for record in image.things(self.name):
            yield self.values(record, image.topic_name(record.topic_id) if self.has_topic else None)

    def with_columns(self, names: Collection[str]) -> Entity:
        """The same kind of thing, with these columns alone."""
        return attrs.evolve(self, columns=tuple(one for one in self.columns if one.name in names))


def _entity(
    name: str,
    record: type,
    label: Callable[[dict[str, Any]], str],
    has_topic: bool = False,
    named: Mapping[str, Mapping[int, str]] | None = None,
) -> Entity:
    schema = schema_of(record)
    columns = with_lists(columns_of(schema, named), ("eligible_leader_replicas", "last_known_elr"))
    unkept = _UNKEPT.get(name, frozenset())
    return Entity(name, schema, tuple(column for column in columns if column.name not in unkept), label, has_topic)


_UNKEPT: Final[Mapping[str, frozenset[str]]] = {
    "client_quotas": frozenset({"remove"}),
    "producer_ids": frozenset({"broker_id", "broker_epoch"}),
}
"""Fields of records that say nothing of what exists."""


def _quota_label(row: dict[str, Any]) -> str:
    names = {
        one["entity_type"]: "<default>" if one["entity_name"] is None else one["entity_name"] for one in row["entity"]
    }
    return f"{','.join(f'{kind}={names[kind]}' for kind in sorted(names))}:{row['key']}"


_ACL_NAMES: Final = {
    "resource_type": names.ACL_RESOURCES,
    "pattern_type": names.PATTERNS,
    "operation": names.OPERATIONS,
    "permission_type": names.PERMISSIONS,
}

ENTITIES: Final[Mapping[str, Entity]] = {
    entity.name: entity
    for entity in (
        _entity("topics", schemas.TopicRecord, "{name}".format_map),
        _entity(
            "partitions",
            schemas.PartitionRecord,
            "{topic}-{partition_id}".format_map,
            has_topic=True,
            named={"leader_recovery_state": names.RECOVERY_STATES},
        ),
        _entity("brokers", schemas.RegisterBrokerRecord, "{broker_id}".format_map),
        _entity("controllers", schemas.RegisterControllerRecord, "{controller_id}".format_map),
        _entity("features", schemas.FeatureLevelRecord, "{name}".format_map),
        _entity(
            "configs",
            schemas.ConfigRecord,
            "{resource_type}:{resource_name}:{name}".format_map,
            named={"resource_type": names.CONFIG_RESOURCES},
        ),
        _entity("acls", schemas.AccessControlEntryRecord, "{id}".format_map, named=_ACL_NAMES),
        _entity("client_quotas", schemas.ClientQuotaRecord, _quota_label),
        _entity("producer_ids", schemas.ProducerIdsRecord, "".format_map),
        _entity("delegation_tokens", schemas.DelegationTokenRecord, "{token_id}".format_map),
        _entity(
            "scram",
            schemas.UserScramCredentialRecord,
            "{name}:{mechanism}".format_map,
            named={"mechanism": names.SCRAM_MECHANISMS},
        ),
    )
}
"""By name."""
