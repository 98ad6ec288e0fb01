"""The metrics: their names in the KIPs and in Prometheus, and what they mean.

They come from KIP-595, KIP-853, KIP-859 and KIP-1180, with some of our own.  The Prometheus names are those that the
usual rules of the JMX exporter give to Kafka's metrics (`kafka_server_raftmetrics_...`), so dashboards for Kafka's
controllers work with these nodes too.  Metrics that Kafka does not have begin with `kraft_`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import attrs

_RAFT_METRICS: Final = "kafka_server_raftmetrics"
_BROKER_METADATA_METRICS: Final = "kafka_server_brokermetadatametrics"
_METADATA_LOADER: Final = "kafka_server_metadataloader"
_SNAPSHOT_EMITTER: Final = "kafka_server_snapshotemitter"
_KAFKA_CONTROLLER: Final = "kafka_controller_kafkacontroller"

NODE_LABEL: Final = "node_id"
"""The label of every sample, because the metrics of several nodes may end up in one place."""

COLLECTED_AT: Final = "kraft_metrics_collected_timestamp_seconds"
"""A metric of our own: when the values were collected, in seconds since 1970 by the node's clock."""


@attrs.frozen
class Metric:
    """One metric.  All of them are gauges.  Rates and latencies cover the last 30 to 60 seconds."""

    name: str
    """The name in the KIP, if it defines the metric."""
    meaning: str
    prometheus_name: str
    unit: str = ""
    label: str = ""
    """The label that holds a text value in Prometheus; the sample is then 1."""
    tags: tuple[tuple[str, str], ...] = ()
    """Labels with fixed values, as KIP-1180 tags a metric with its feature."""
    role: str = ""
    """Restricts the metric to nodes with this process role; empty for all nodes."""


def _raft(name: str, meaning: str, *, unit: str = "", is_text: bool = False) -> Metric:
    suffix = name.replace("-", "_")
    return Metric(name, meaning, f"{_RAFT_METRICS}_{suffix}", unit, suffix if is_text else "")


def _own(name: str, meaning: str, *, unit: str = "") -> Metric:
    return Metric(name, meaning, f"kraft_{name.replace('-', '_')}", unit)


METRICS: Final[tuple[Metric, ...]] = (
    _raft(
        "current-state",
        "The node's role: leader, follower, observer, candidate, prospective, unattached or resigned.  A follower "
        "outside the voter set is an observer.",
        is_text=True,
    ),
    _raft("current-leader", "Id of the leader; -1 if unknown."),
    _raft("current-epoch", "Highest epoch that this node knows."),
    _raft("current-vote", "Id of the candidate for which this node voted in that epoch; -1 if it has not voted."),
    _raft(
        "current-vote-directory-id",
        "Directory id of that candidate; AAAAAAAAAAAAAAAAAAAAAA if there is no vote or the id is unknown.",
        is_text=True,
    ),
    _raft("high-watermark", "End of the committed records that this node knows of (exclusive); -1 if unknown."),
    _raft("log-end-offset", "End of this node's log (exclusive)."),
    _raft("log-end-epoch", "Epoch of the last record in this node's log."),
    _own("log-start-offset", "First offset of this node's log (inclusive); earlier records are in snapshots only."),
    _own("log-size-bytes", "Size of this node's log segments.", unit="bytes"),
    _own("number-of-failed-requests", "Requests that hit a bug in this process; its log has the tracebacks."),
    _own("number-of-log-trims", "How often this process has trimmed its log."),
    _own("number-of-snapshots", "Snapshots that this node has, taken or fetched."),
    Metric(
        "latest-snapshot-generated-bytes",
        "Size of the newest snapshot, taken or fetched; 0 without a snapshot.",
        f"{_SNAPSHOT_EMITTER}_latestsnapshotgeneratedbytes",
        "bytes",
    ),
    Metric(
        "latest-snapshot-generated-age-ms",
        "Time since this process took its last snapshot, or since its start.  Only with a state machine.",
        f"{_SNAPSHOT_EMITTER}_latestsnapshotgeneratedagems",
        "ms",
    ),
    _own("snapshot-download-ratio", "Fraction of the current snapshot download that is complete, 0 to 1."),
    _raft("number-of-voters", "Voters in the newest voter set of this node's log."),
    _raft("number-of-observers", "Leader only: replicas outside the voter set that fetched in the last 5 minutes."),
    _raft(
        "number-of-offline-voters",
        "Leader only: other voters that have not fetched for controller.quorum.fetch.timeout.ms.",
    ),
    _raft(
        "uncommitted-voter-change",
        "1 while the newest voter set in this node's log is uncommitted; otherwise 0, also while the high watermark is "
        "unknown.",
    ),
    _raft(
        "number-unknown-voter-connections",
        "Other voters without an endpoint on the listener that this node would use to reach them.",
    ),
    Metric(
        "finalized-level",
        "The committed kraft.version, as far as this node knows.",
        f"{_METADATA_LOADER}_finalizedlevel",
        tags=(("featurename", "kraftVersion"),),
    ),
    Metric(
        "ignored-static-voters",
        "1 if controller.quorum.voters is set but ignored because the log names the voters; otherwise 0.",
        f"{_KAFKA_CONTROLLER}_ignoredstaticvoters",
        role="controller",
    ),
    Metric(
        "ignored-static-voters",
        "1 if controller.quorum.voters is set but ignored because the log names the voters; otherwise 0.",
        f"{_BROKER_METADATA_METRICS}_ignored_static_voters",
        role="broker",
    ),
    Metric(
        "is-observer",
        "1 while this controller is not a voter; otherwise 0.",
        f"{_KAFKA_CONTROLLER}_isobserver",
        role="controller",
    ),
    _raft(
        "election-latency-avg",
        "Mean time from becoming prospective to knowing the new leader, which may be this node.",
        unit="ms",
    ),
    _raft("election-latency-max", "Maximum of that time.", unit="ms"),
    _raft(
        "commit-latency-avg",
        "Leader only: mean time from appending a batch to committing it.",
        unit="ms",
    ),
    _raft("commit-latency-max", "Leader only: maximum of that time.", unit="ms"),
    _raft("fetch-records-rate", "Records fetched from the leader and appended.", unit="per second"),
    _raft("append-records-rate", "Records appended by this node as the leader.", unit="per second"),
    _raft(
        "poll-idle-ratio-avg",
        "Fraction of time in which the event loop was idle, 0 to 1, from samples of 50 ms.",
    ),
    _own(
        "log-lines-lost",
        "Log lines that this process could not write, because nobody read them or the disk was full.",
    ),
    _own(
        "event-loop-busy-max-ms",
        "Longest time that the event loop did not poll for I/O, by the wall clock.",
        unit="ms",
    ),
    _own(
        "event-loop-cpu-max-ms",
        "Most CPU time that the event loop's thread spent without polling for I/O, since the start.",
        unit="ms",
    ),
    _own("number-of-event-loop-stalls", "How often that CPU time reached 50 ms, since the start."),
)
"""All metrics in display order.  A metric that two roles name differently occurs twice."""


def metrics_of(roles: Collection[str]) -> tuple[Metric, ...]:
    """The metrics of a node with these `process.roles`."""
    return tuple(metric for metric in METRICS if not metric.role or metric.role in roles)
