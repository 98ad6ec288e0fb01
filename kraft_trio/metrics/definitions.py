"""The metrics of KIP-595, KIP-853 and KIP-859, and some of our own: names there and in Prometheus, and meanings.

In Prometheus each is named as the usual rules of the JMX exporter name Kafka's own (`kafka_server_raftmetrics_...`), so
that dashboards made for Kafka's controllers show these nodes too; those that Kafka does not have begin with `kraft_`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import attrs

_RAFT_METRICS: Final = "kafka_server_raftmetrics"
_BROKER_METADATA_METRICS: Final = "kafka_server_brokermetadatametrics"
_SNAPSHOT_EMITTER: Final = "kafka_server_snapshotemitter"
_KAFKA_CONTROLLER: Final = "kafka_controller_kafkacontroller"

NODE_LABEL: Final = "node_id"
"""The label that every sample has: several nodes of one machine may be read into one place."""

COLLECTED_AT: Final = "kraft_metrics_collected_timestamp_seconds"
"""Our own: when the values were collected, in seconds since 1970 by the node's wall clock."""


@attrs.frozen
class Metric:
    """One metric.  All are gauges; a rate or a latency covers the last 30 to 60 seconds."""

    name: str
    """As the KIP has it, where it is of one."""
    meaning: str
    prometheus_name: str
    unit: str = ""
    label: str = ""
    """The value is text: in Prometheus it stands in this label, and the sample is 1."""
    role: str = ""
    """Only nodes with this one of `process.roles` have it; empty: all have."""


def _raft(name: str, meaning: str, *, unit: str = "", is_text: bool = False) -> Metric:
    suffix = name.replace("-", "_")
    return Metric(name, meaning, f"{_RAFT_METRICS}_{suffix}", unit, suffix if is_text else "")


def _own(name: str, meaning: str, *, unit: str = "") -> Metric:
    return Metric(name, meaning, f"kraft_{name.replace('-', '_')}", unit)


METRICS: Final[tuple[Metric, ...]] = (
    _raft(
        "current-state",
        "leader, follower, observer, candidate, prospective, unattached or resigned; a follower that is no voter is an "
        "observer.",
        is_text=True,
    ),
    _raft("current-leader", "The leader's id; -1 while this node knows none."),
    _raft("current-epoch", "The newest epoch this node knows."),
    _raft("current-vote", "Whom this node has voted for in that epoch, itself included; -1 for nobody."),
    _raft(
        "current-vote-directory-id",
        "The directory id of the same; AAAAAAAAAAAAAAAAAAAAAA for nobody, or for one whose directory id is not known.",
        is_text=True,
    ),
    _raft("high-watermark", "Exclusive end of what this node knows to be committed; -1 while it knows of nothing."),
    _raft("log-end-offset", "Exclusive end of this node's log."),
    _raft("log-end-epoch", "The epoch of the last record of this node's log."),
    _own("log-start-offset", "The first offset of this node's log (inclusive); what is below is in a snapshot alone."),
    _own("log-size-bytes", "What the segments of this node's log take.", unit="bytes"),
    _own("number-of-failed-requests", "How many requests have met a bug in this process; its log has tracebacks."),
    _own("number-of-log-trims", "How many times this process has trimmed its log."),
    _own("number-of-snapshots", "How many snapshots this node has, whoever took them."),
    Metric(
        "latest-snapshot-generated-bytes",
        "The size of the newest snapshot, taken or fetched; 0 where there is none.",
        f"{_SNAPSHOT_EMITTER}_latestsnapshotgeneratedbytes",
        "bytes",
    ),
    Metric(
        "latest-snapshot-generated-age-ms",
        "Only with a state machine: how long ago this process took its last snapshot, or began.",
        f"{_SNAPSHOT_EMITTER}_latestsnapshotgeneratedagems",
        "ms",
    ),
    _own("snapshot-download-ratio", "How much of a snapshot that is being fetched is here, 0 to 1."),
    _raft("number-of-voters", "How many voters the newest voter set in this node's log has."),
    _raft(
        "number-of-observers", "Leader only: how many replicas that are no voters have fetched in the last 5 minutes."
    ),
    _raft(
        "number-of-offline-voters",
        "Leader only: how many other voters have not fetched for controller.quorum.fetch.timeout.ms.",
    ),
    _raft(
        "uncommitted-voter-change",
        "1 while the newest voter set in this node's log is not committed; 0 otherwise, and while the high watermark "
        "is unknown.",
    ),
    _raft(
        "number-unknown-voter-connections",
        "How many other voters have no endpoint of the listener by which this node would reach them.",
    ),
    Metric(
        "ignored-static-voters",
        "1 while controller.quorum.voters is set and ignored, as the log names the voters; 0 otherwise.",
        f"{_KAFKA_CONTROLLER}_ignoredstaticvoters",
        role="controller",
    ),
    Metric(
        "ignored-static-voters",
        "1 while controller.quorum.voters is set and ignored, as the log names the voters; 0 otherwise.",
        f"{_BROKER_METADATA_METRICS}_ignored_static_voters",
        role="broker",
    ),
    Metric(
        "is-observer",
        "1 while this controller is none of the voters, 0 otherwise.",
        f"{_KAFKA_CONTROLLER}_isobserver",
        role="controller",
    ),
    _raft(
        "election-latency-avg",
        "From this node's becoming prospective until it knew a new leader, itself included: the mean.",
        unit="ms",
    ),
    _raft("election-latency-max", "The longest of the same.", unit="ms"),
    _raft(
        "commit-latency-avg",
        "Leader only: from the append of a batch until the high watermark had passed it: the mean.",
        unit="ms",
    ),
    _raft("commit-latency-max", "The longest of the same.", unit="ms"),
    _raft("fetch-records-rate", "Records that this node fetched from its leader and appended.", unit="per second"),
    _raft("append-records-rate", "Records that this node appended as the leader.", unit="per second"),
    _raft(
        "poll-idle-ratio-avg",
        "The share of time in which the node's event loop had nothing to do, 0 to 1, by samples of 50 ms.",
    ),
    _own(
        "log-lines-lost",
        "How many lines of its log this process could not write, as nobody read them or there was no room for them.",
    ),
    _own(
        "event-loop-busy-max-ms",
        "The longest time for which the node's event loop looked for no I/O, by the wall clock.",
        unit="ms",
    ),
    _own(
        "event-loop-cpu-max-ms",
        "The longest of the same since the start, by the CPU time of the event loop's thread.",
        unit="ms",
    ),
    _own("number-of-event-loop-stalls", "How often that was 50 ms of CPU time or more, since the start."),
)
"""Every metric, in the order in which they are shown.  One that two roles name differently is there twice."""


def metrics_of(roles: Collection[str]) -> tuple[Metric, ...]:
    """The metrics of a node with these `process.roles`."""
    return tuple(metric for metric in METRICS if not metric.role or metric.role in roles)
