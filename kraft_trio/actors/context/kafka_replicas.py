"""Which replicas run Apache Kafka, and which records the leader refuses for their sake."""

from __future__ import annotations

from typing import Final

import trio

from kraft_trio.actors.context.replica_progress import OBSERVER_FORGOTTEN_AFTER_S
from kraft_trio.config import NodeConfig
from kraft_trio.errors import ProtocolError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.kafka_records import ANY, READABLE_ONLY, RecordDemand, record_demand
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batches.batch_header import BatchHeader
from kraft_trio.storage.batches.kafka_readable import why_kafka_cannot_read
from kraft_trio.storage.disk.disk import Buffer
from kraft_trio.wire.apis.api_versions import SOFTWARE_NAME

log = get_logger(__name__)

MAX_KNOWN: Final = 1000
"""Limit for known replicas.  Beyond it, the one that has been silent longest is forgotten."""


class KafkaReplicas:
    """The replicas of Apache Kafka that this node knows, across epochs.

    A connection names its client's software in ApiVersions (KIP-511), and a replica's Fetch tells the id.  A voter
    counts until it is removed or fetches with this library, an observer until it has been silent for five minutes.  A
    voter of Kafka that has not fetched from this process is not known: `kraft.kafka.records=readable` helps then.
    """

    def __init__(self, config: NodeConfig) -> None:
        self._setting = config.kafka_records
        self._topic_name = config.topic_name
        self._heard_s: dict[ReplicaKey, float] = {}
        self.may_refuse = config.kafka_records == READABLE_ONLY
        """Whether `refusal` may refuse a batch.  The leader asks only then."""

    def fetched(self, replica: ReplicaKey, software: str) -> None:
        """Note a Fetch, from a connection that named this software; empty if it named none."""
        if software in ("", SOFTWARE_NAME):
            if self._heard_s and software and self._heard_s.pop(replica, None) is not None:
                log.info("replica no longer runs Apache Kafka", replica=str(replica))
            return
        if replica not in self._heard_s:
            log.info("replica runs Apache Kafka", replica=str(replica), software=software, records=self._setting)
            if len(self._heard_s) >= MAX_KNOWN:
                del self._heard_s[min(self._heard_s, key=lambda key: self._heard_s[key])]
        self._heard_s[replica] = trio.current_time()
        self.may_refuse = True

    def spares(self, replica: ReplicaKey | None) -> bool:
        """Whether that replica is known to run Kafka, and gets only snapshots that it can read."""
        return replica in self._heard_s and self._setting != ANY

    def is_known(self, node_id: int) -> bool:
        """Whether that node is known to run Kafka."""
        return any(replica.id == node_id for replica in self._heard_s)

    def refusal(self, records: Buffer, header: BatchHeader, voters: VoterSet) -> str | None:
        """Say why the log must not take this batch of a client; None if it may."""
        match record_demand(self._setting, self._topic_name, kafka_reads=self._reads(voters)):
            case RecordDemand.NO_RECORDS:
                return (
                    f"controllers of Apache Kafka replicate {self._topic_name} and read their own records only "
                    "(kraft.kafka.records)"
                )
            case RecordDemand.READABLE:
                try:
                    reason = why_kafka_cannot_read(records, 0, header)
                except ProtocolError as error:
                    reason = str(error)
                return (
                    None if reason is None else f"{reason}, which ends replicas of Apache Kafka (kraft.kafka.records)"
                )
            case RecordDemand.NOTHING:
                return None

    def _reads(self, voters: VoterSet) -> bool:
        """Whether a replica of Kafka reads the log.  Forgets those that have left."""
        since_s = trio.current_time() - OBSERVER_FORGOTTEN_AFTER_S
        for replica in [key for key, at in self._heard_s.items() if at < since_s and not voters.is_voter(key)]:
            del self._heard_s[replica]
        self.may_refuse = bool(self._heard_s) or self._setting == READABLE_ONLY
        return bool(self._heard_s)
