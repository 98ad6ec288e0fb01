"""Topics of the client APIs: on the wire a topic lists its partitions, in our values each partition names its topic."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final, Protocol, TypeVar
from uuid import UUID

NO_TOPIC_ID: Final = UUID(int=0)


class _OfTopic(Protocol):
    @property
    def topic_name(self) -> str: ...

    @property
    def topic_id(self) -> UUID: ...


PartitionT = TypeVar("PartitionT", bound=_OfTopic)


def by_topic(partitions: Sequence[PartitionT]) -> list[tuple[str, UUID, Sequence[PartitionT]]]:
    """Groups neighbouring partitions of one topic, in order."""
    if len(partitions) == 1:
        only = partitions[0]
        return [(only.topic_name, only.topic_id, partitions)]
    groups = groupby(partitions, key=lambda partition: (partition.topic_name, partition.topic_id))
    return [(name, topic_id, list(members)) for (name, topic_id), members in groups]


class _OfNamedTopic(Protocol):
    @property
    def topic_name(self) -> str: ...


NamedT = TypeVar("NamedT", bound=_OfNamedTopic)


def by_name(partitions: Sequence[NamedT]) -> list[tuple[str, list[NamedT]]]:
    """Groups neighbouring partitions of one topic in an API without topic ids."""
    groups = groupby(partitions, key=lambda partition: partition.topic_name)
    return [(name, list(members)) for name, members in groups]
