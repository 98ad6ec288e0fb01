"""Who belongs to a cluster of Apache Kafka, as its metadata records tell (KIP-631, KIP-919).

A controller tells clients of registered controllers, and of no brokers; a broker names none of them as the controller,
but any broker.  So brokers are known from the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from kraft_trio.protocol.features import ANY_LEVEL

REGISTER_BROKER: Final = 0
UNREGISTER_BROKER: Final = 1
TOPIC: Final = 2
PARTITION: Final = 3
FENCE_BROKER: Final = 7
UNFENCE_BROKER: Final = 8
REMOVE_TOPIC: Final = 9
BROKER_REGISTRATION_CHANGE: Final = 17
REGISTER_CONTROLLER: Final = 27
UNREGISTER_CONTROLLER: Final = 29

FOLDED: Final = frozenset(
    {
        REGISTER_BROKER,
        UNREGISTER_BROKER,
        TOPIC,
        PARTITION,
        FENCE_BROKER,
        UNFENCE_BROKER,
        REMOVE_TOPIC,
        BROKER_REGISTRATION_CHANGE,
        REGISTER_CONTROLLER,
        UNREGISTER_CONTROLLER,
    }
)
"""The API keys of the records that count here."""

MAX_TOPICS: Final = 10_000
"""Topics of which it is known how many replicas they have.  Those beyond it are ignored."""


@attrs.frozen
class RegisteredBroker:
    """A broker that the active controller knows.  A fenced one gets no partitions and is named to no client."""

    id: int
    is_fenced: bool
    is_stopping: bool = False
    """Whether it has asked for a controlled shutdown."""


@attrs.frozen
class KafkaCluster:
    """The brokers by ascending id, the topic that has the most replicas, and who has registered as a controller."""

    brokers: tuple[RegisteredBroker, ...] = ()
    widest_topic: tuple[str, int] | None = None
    """Its name, and how many replicas its widest partition has; None if no topic is known."""
    is_read: bool = True
    """Whether the metadata was read to its end.  What was not read may have changed all of this."""
    problem: str | None = None
    """Why the controllers refuse to have it read; None if they do not."""
    controllers: frozenset[int] = frozenset()
    """The ids of registered controllers of Kafka's."""
    witnesses: frozenset[int] = frozenset()
    """The ids of registered witnesses of ours."""


class ClusterFold:
    """Applies committed records in their order.  One for a cluster."""

    def __init__(self) -> None:
        self._brokers: dict[int, RegisteredBroker] = {}
        self._topics: dict[str, tuple[str, int]] = {}
        """Name and most replicas by topic id."""
        self._controllers: dict[int, bool] = {}
        """Whether the registered controller of that id is a witness."""

    def add(self, api_key: int, fields: Mapping[str, Any]) -> None:
        """Apply a record of FOLDED.  The fields are named and encoded as in `MetadataFrame.fields`."""
        if api_key == REGISTER_BROKER:
            id = fields["brokerId"]
            stopping = fields.get("inControlledShutdown", False)
            self._brokers[id] = RegisteredBroker(id, fields["fenced"], stopping)
        elif api_key == UNREGISTER_BROKER:
            self._brokers.pop(fields["brokerId"], None)
        elif api_key == REGISTER_CONTROLLER:
            self._controllers[fields["controllerId"]] = _is_witness(fields["features"])
        elif api_key == UNREGISTER_CONTROLLER:
            self._controllers.pop(fields["controllerId"], None)
        elif api_key in (FENCE_BROKER, UNFENCE_BROKER):
            self._change(fields["id"], is_fenced=api_key == FENCE_BROKER)
        elif api_key == BROKER_REGISTRATION_CHANGE:
            # 1: from now on; -1: no longer; 0, which is not told: as before.
            told = {"is_fenced": fields.get("fenced", 0), "is_stopping": fields.get("inControlledShutdown", 0)}
            self._change(fields["brokerId"], **{name: value > 0 for name, value in told.items() if value})
        elif api_key == TOPIC and len(self._topics) < MAX_TOPICS:
            self._topics[fields["topicId"]] = fields["name"], 0
        elif api_key == REMOVE_TOPIC:
            self._topics.pop(fields["topicId"], None)
        elif api_key == PARTITION and fields["topicId"] in self._topics:
            name, most = self._topics[fields["topicId"]]
            self._topics[fields["topicId"]] = name, max(most, len(fields["replicas"]))

    def _change(self, id: int, **changes: bool) -> None:
        if id in self._brokers:
            self._brokers[id] = attrs.evolve(self._brokers[id], **changes)

    def cluster(self, *, is_read: bool) -> KafkaCluster:
        """What the records so far say."""
        widest = max(self._topics.values(), key=lambda topic: topic[1], default=None)
        return KafkaCluster(
            tuple(broker for _, broker in sorted(self._brokers.items())),
            widest,
            is_read,
            controllers=frozenset(id for id, is_witness in self._controllers.items() if not is_witness),
            witnesses=frozenset(id for id, is_witness in self._controllers.items() if is_witness),
        )


def _is_witness(features: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a controller claims any level of a feature (`protocol.features`), as no controller of Kafka's does."""
    return any(feature["maxSupportedVersion"] == ANY_LEVEL.maximum for feature in features)
