"""Keeps a node from starting in place of a controller or broker of Apache Kafka."""

from __future__ import annotations

from typing import Final

from kraft_trio.config.fields import KEY_OF_FIELD
from kraft_trio.config.node_config import NodeConfig
from kraft_trio.errors import ConfigError
from kraft_trio.protocol.kafka_records import METADATA_TOPIC
from kraft_trio.storage.directory.kafka_directory import trace_of_kafka
from kraft_trio.storage.disk.disk import Disk

_SHOWN: Final = 3
_INSTEAD: Final = "start Kafka there with bin/kafka-server-start.sh"


def refuse_kafkas_place(disk: Disk, config: NodeConfig) -> None:
    """Raise ConfigError if the file or the directory is Kafka's, and no key says that the node is meant to be there.

    Such a node would lead one day, and then no controller is active.  ControllersGuard ends it too, but only once it
    has met a controller.  Only reads.
    """
    found = why_kafkas(disk, config)
    if found is not None:
        raise ConfigError(f"{found}, or kraft.witness=true, or {KEY_OF_FIELD['unsafe_kafka_directory'].name}=true")


def why_kafkas(disk: Disk, config: NodeConfig) -> str | None:
    """What says that the file or the directory is Kafka's, and what to do; None if nothing does.  Only reads."""
    if config.witness or config.unsafe_kafka_directory or config.topic_name != METADATA_TOPIC:
        return None
    if config.keys_of_kafka:
        more = len(config.keys_of_kafka) - _SHOWN
        named = ", ".join(config.keys_of_kafka[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
        return (
            f"{named}: the file is that of a controller or broker of Apache Kafka: {_INSTEAD}; a node of kraft-trio "
            "needs a file without such keys"
        )
    observes = "controller" not in config.process_roles
    found = trace_of_kafka(disk, config.metadata_log_dir, config.topic_name, may_observe=observes)
    if found is None:
        return None
    return (
        f"{found}, so the directory is that of a controller or broker: {_INSTEAD}; a node of kraft-trio needs another "
        "directory"
    )
