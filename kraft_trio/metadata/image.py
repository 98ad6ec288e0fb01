"""The state of a cluster of Apache Kafka's, as its metadata records say.

Each thing is kept as the record that would create it as it is now, which is also what Kafka's controllers write into a
snapshot.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, TypeAlias
from uuid import UUID

import attrs

from kraft_trio.wire.metadata_schemas import TopicRecord

Key: TypeAlias = Hashable


@attrs.frozen
class Change:
    """One thing that a record has created, changed or deleted."""

    entity: str
    """The kind of thing, a name in `entities.ENTITIES`."""
    before: Any
    """A record; None if the change creates the thing."""
    after: Any
    """A record; None if the change deletes the thing."""
    topic: str | None = None
    """Of a partition: the name of its topic."""


@attrs.define
class Image:
    """Everything that exists, by kind.  Only `replay` changes it."""

    tables: dict[str, dict[Key, dict[Key, Any]]] = attrs.field(factory=dict)
    """By kind, group and key.  What is deleted together is a group: a topic's partitions, a resource's configuration.
    Things of other kinds are in the group None."""
    topic_ids: dict[str, UUID] = attrs.field(factory=dict)
    """The id of the topic that has the name now."""

    def group(self, entity: str, group: Key = None) -> dict[Key, Any]:
        """The things of one group by key, in the order in which they were created."""
        return self.tables.get(entity, {}).get(group, {})

    def things(self, entity: str) -> Iterator[Any]:
        """All things of one kind, group by group."""
        for group in self.tables.get(entity, {}).values():
            yield from group.values()

    def put(self, entity: str, key: Key, record: Any, *, group: Key = None, topic: str | None = None) -> Change:
        """Keep the record, or with None forget what was kept."""
        groups = self.tables.setdefault(entity, {})
        table = groups.setdefault(group, {})
        before = table.get(key)
        if record is not None:
            table[key] = record
        else:
            table.pop(key, None)
            if not table:
                del groups[group]
        return Change(entity, before, record, topic)

    def copy(self) -> Image:
        """The same things, which are values; what changes in one image does not change in the other."""
        tables = {
            entity: {group: dict(things) for group, things in groups.items()} for entity, groups in self.tables.items()
        }
        return Image(tables, dict(self.topic_ids))

    def topic_name(self, id: UUID) -> str | None:
        """The name of a topic that exists."""
        found: TopicRecord | None = self.group("topics").get(id)
        return None if found is None else found.name
