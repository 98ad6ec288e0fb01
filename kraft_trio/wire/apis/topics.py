"""Topics of the client APIs: pairs of a topic's name and a partition, which the wire lists by topic."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias
from uuid import UUID

from kraft_trio.wire.fields import Int32, String, Via

NO_TOPIC_ID: Final = UUID(int=0)

_Pairs: TypeAlias = tuple[tuple[str, int], ...] | None
_Topics: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...] | None


def _by_topic(pairs: _Pairs) -> _Topics:
    if pairs is None:
        return None
    topics: dict[str, list[int]] = {}
    for name, partition in pairs:
        topics.setdefault(name, []).append(partition)
    return tuple((name, tuple(partitions)) for name, partitions in topics.items())


def _pairs(topics: _Topics) -> _Pairs:
    return None if topics is None else tuple((name, partition) for name, members in topics for partition in members)


PartitionsByTopic: TypeAlias = Annotated[
    _Pairs,
    Via(
        tuple[tuple[Annotated[String, "name"], Annotated[tuple[Int32, ...], "partitions"]], ...] | None,
        read=_pairs,
        write=_by_topic,
    ),
    "topics",
]
"""The partitions that a request asks about; None asks about all."""
