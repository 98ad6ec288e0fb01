"""The metrics: their names in the KIPs and in Prometheus, and what they mean.

They come from KIP-595, KIP-853, KIP-859 and KIP-1180, with some of our own.  The Prometheus names are those that the
usual rules of the Prometheus JMX exporter give to Kafka's MBeans, so that dashboards for Kafka's controllers work with
these nodes too.  Metrics that Kafka does not have begin with `kraft_`.

There are two sets of usual rules.  They differ in MBeans whose attributes are the metrics, such as
`kafka.server:type=raft-metrics`: Strimzi's make `kafka_server_raftmetrics_…` of it, and the exporter's own example for
KRaft, its defaults and Strimzi's metrics reporter `kafka_server_raft_metrics_…`.  Both names are served.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import attrs

_METADATA_LOADER: Final = "kafka_server_metadataloader"
_SNAPSHOT_EMITTER: Final = "kafka_server_snapshotemitter"
_KAFKA_CONTROLLER: Final = "kafka_controller_kafkacontroller"

NODE_LABEL: Final = "node_id"
"""The label of every sample, because the metrics of several nodes may end up in one place."""

COLLECTED_AT: Final = "kraft_metrics_collected_timestamp_seconds"
"""A metric of our own: when the values were collected, in seconds since 1970 by the node's clock."""


@attrs.frozen
class OtherName:
    """Another name of a metric in Prometheus.  Its labels hold the text value, if the metric has one."""

    name: str
    labels: tuple[str, ...] = ()


@attrs.frozen
class Metric:
    """One metric.  All of them are gauges.  Rates and latencies cover the last 30 to 60 seconds."""

    name: str
    """The name in the KIP, if it defines the metric."""
    meaning: str
    prometheus_name: str
    """The name that the metrics file is read by."""
    unit: str = ""
    label: str = ""
    """The label that holds a text value in Prometheus; the sample is then 1."""
    tags: tuple[tuple[str, str], ...] = ()
    """Labels with fixed values, as KIP-1180 tags a metric with its feature."""
    dimensions: tuple[str, ...] = ()
    """Labels of which there is one sample for each combination.  Without them, the value is the smallest."""
    role: str = ""
    """Restricts the metric to nodes with this process role; empty for all nodes."""
    other_names: tuple[OtherName, ...] = ()


def _attribute(bean: str, name: str, meaning: str, **more: Any) -> Metric:
    """The metric of an MBean `kafka.server:type={bean}` with an attribute of that name, which is a number."""
    suffix = name.replace("-", "_")
    other_name = OtherName(f"kafka_server_{bean.replace('-', '_')}_{suffix}")
    prometheus_name = f"kafka_server_{bean.replace('-', '')}_{suffix}"
    return Metric(name, meaning, prometheus_name, other_names=(other_name,), **more)


def _raft(name: str, meaning: str, *, unit: str = "") -> Metric:
    return _attribute("raft-metrics", name, meaning, unit=unit)


def _raft_text(name: str, meaning: str, *other_names: OtherName) -> Metric:
    """An attribute with a text, which the exporters leave out unless a rule names it."""
    suffix = name.replace("-", "_")
    return Metric(name, meaning, f"kafka_server_raftmetrics_{suffix}", label=suffix, other_names=other_names)


def _own(name: str, meaning: str, *, unit: str = "") -> Metric:
    return Metric(name, meaning, f"kraft_{name.replace('-', '_')}", unit)


METRICS: Final[tuple[Metric, ...]] = (
    _raft_text(
        "current-state",
        "leader, follower, observer (a follower outside the voter set), candidate, prospective, prospective-voted, "
        "unattached, unattached-voted or resigned.",
        OtherName("kafka_server_raft_metrics_current_state", ("state",)),
        # Strimzi's metrics reporter names the label `current_state`, releases 0 of the JMX exporter with its example
        # `state`.
        OtherName("kafka_server_raft_metrics_current_state_info", ("current_state", "state")),
    ),
    _raft("current-leader", "Id of the leader of the epoch, also if this node has lost it; -1 if unknown."),
    _raft("current-epoch", "Highest known epoch."),
    _raft("current-vote", "Id of the candidate voted for in that epoch; -1 without a vote."),
    _raft_text("current-vote-directory-id", "Directory id of that candidate; AAAAAAAAAAAAAAAAAAAAAA if unknown."),
    _raft("high-watermark", "End of the records known to be committed (exclusive); -1 if unknown."),
    _raft("log-end-offset", "End of the log (exclusive)."),
    _raft("log-end-epoch", "Epoch of the last record."),
    _own("log-start-offset", "First offset of the log; earlier records are in snapshots only."),
    _own("log-size-bytes", "Size of the log segments.", unit="bytes"),
    _own("number-of-failed-requests", "Requests that hit a bug in this process; its log has the tracebacks."),
    _own("number-of-log-trims", "Trims of the log by this process."),
    _own("number-of-snapshots", "Snapshots on disk."),
    Metric(
        "latest-snapshot-generated-bytes",
        "Size of the newest snapshot; 0 without one.",
        f"{_SNAPSHOT_EMITTER}_latestsnapshotgeneratedbytes",
        "bytes",
    ),
    Metric(
        "latest-snapshot-generated-age-ms",
        "Time since this process took a snapshot, or since its start; only with a state machine.",
        f"{_SNAPSHOT_EMITTER}_latestsnapshotgeneratedagems",
        "ms",
    ),
    _own("snapshot-download-ratio", "Completed fraction of the current snapshot download."),
    _raft("number-of-voters", "Voters in the newest set of the log."),
    _raft("number-of-observers", "Leader only: other replicas that fetched in the last 5 minutes."),
    _raft(
        "number-of-offline-voters",
        "Leader only: other voters without contact for controller.quorum.fetch.timeout.ms.  The start of the epoch is "
        "contact.  So is a Fetch or FetchSnapshot, if it shows that the voter gets the leader's answers.",
    ),
    _raft(
        "uncommitted-voter-change",
        "1 while the log's newest voter set is uncommitted, or its leader does not know yet; no value while another "
        "node does not know.",
    ),
    _raft(
        "number-unknown-voter-connections",
        "Voters without an endpoint on the listener by which this node reaches peers.",
    ),
    Metric(
        "finalized-level",
        "Committed kraft.version.",
        f"{_METADATA_LOADER}_finalizedlevel",
        tags=(("featureName", "kraftVersion"),),
    ),
    Metric(
        "ignored-static-voters",
        "1 if controller.quorum.voters is set but ignored, because the log names the voters.",
        f"{_KAFKA_CONTROLLER}_ignoredstaticvoters",
        role="controller",
    ),
    _attribute(
        "broker-metadata-metrics",
        "ignored-static-voters",
        "1 if controller.quorum.voters is set but ignored, because the log names the voters.",
        role="broker",
    ),
    Metric(
        "active-controller-count",
        "1 while this controller leads, unless it is a witness.",
        f"{_KAFKA_CONTROLLER}_activecontrollercount",
        role="controller",
    ),
    Metric(
        "is-observer",
        "1 while this controller is not a voter.",
        f"{_KAFKA_CONTROLLER}_isobserver",
        role="controller",
    ),
    _raft(
        "election-latency-avg",
        "Mean time from becoming prospective to knowing the new leader.",
        unit="ms",
    ),
    _raft("election-latency-max", "Maximum of that time.", unit="ms"),
    _raft(
        "commit-latency-avg",
        "Leader only: mean time from append to commit.",
        unit="ms",
    ),
    _raft("commit-latency-max", "Leader only: maximum of that time.", unit="ms"),
    _own(
        "sync-latency-p99-ms",
        "99th percentile of the time from a write to the log until it is synced, over the last 512 syncs.",
        unit="ms",
    ),
    _raft("fetch-records-rate", "Records fetched from the leader.", unit="per second"),
    _raft("append-records-rate", "Records appended by this node as the leader.", unit="per second"),
    _raft(
        "poll-idle-ratio-avg",
        "Fraction of time in which the event loop was idle.",
    ),
    _own(
        "log-lines-lost",
        "Log lines dropped because nobody read them or the disk was full.",
    ),
    _own(
        "event-loop-busy-max-ms",
        "Longest time between two polls for I/O, by the wall clock.",
        unit="ms",
    ),
    _own(
        "event-loop-cpu-max-ms",
        "Most CPU time of the event loop between two polls, since the start.",
        unit="ms",
    ),
    _own("number-of-event-loop-stalls", "How often that CPU time reached 50 ms, since the start."),
    _own("number-of-connections", "Connections to this node that are open."),
    _own(
        "number-of-refused-connections",
        "New connections refused because there were too many, since the start.",
    ),
    _own(
        "number-of-cut-connections",
        "Connections closed because they were idle or too slow, or had to make room, since the start.",
    ),
    _own("number-of-malformed-requests", "Connections closed because of an invalid request, since the start."),
    _own("number-of-failed-tls-handshakes", "TLS handshakes that peers failed or gave up, since the start."),
    _own("number-of-failed-authentications", "Logins by SASL or HTTP that peers failed or gave up, since the start."),
    _own("number-of-expired-sessions", "Connections closed because of connections.max.reauth.ms, since the start."),
    _own("number-of-denied-requests", "Requests that the authorizer denied, since the start."),
    _own(
        "number-of-refused-voter-changes",
        "Voter changes refused because kraft.voter.changes.max.waiting waited already, since the start.",
    ),
    _own("is-witness", "1 on a witness (`kraft.witness`)."),
    _own(
        "is-registered", "Whether the active controller of Kafka has registered this witness; only after one was met."
    ),
    _own(
        "number-of-restored-voters",
        "Times that a voter came back to this leader without records that it had acknowledged, since the start.",
    ),
    _own(
        "state-machine-stopped",
        "1 if the state machine has stopped at a record that it cannot decode or read, otherwise 0.",
    ),
    _own("number-of-throttled-voter-changes", "Voter changes refused because they came too fast, since the start."),
    _own("number-of-refused-waits", "Fetches answered at once because too many waited, since the start."),
    _own(
        "number-of-refused-streams",
        "Streams of kraft.http.listener that were refused, or ended for one of another address, since the start.",
    ),
    _own(
        "number-of-paused-connections",
        "How often a connection was not read because answers were outstanding or not taken, since the start.",
    ),
    _own(
        "number-of-refused-batches",
        "Produced batches refused because their records are damaged or exceed a limit, since the start.",
    ),
    _own("number-of-refused-epochs", "Messages refused because their epoch was too far ahead, since the start."),
    _own(
        "number-of-refused-addresses",
        "Requests of leaders refused because nobody else knew their address, since the start.",
    ),
    _own("request-memory-bytes", "The part of queued.max.request.bytes in use.", unit="bytes"),
    _own("number-of-slowed-requests", "Requests that had to wait for such memory, since the start."),
    _own("number-of-shortened-log-texts", "Texts cut in log lines of this process, since the start."),
    Metric(
        "certificate-expiry-timestamp-seconds",
        "When each certificate expires that this node shows or trusts",
        "kraft_certificate_expiry_timestamp_seconds",
        "seconds since 1970",
        dimensions=("listener", "store", "subject", "serial"),
    ),
    _own("number-of-producer-ids", "Idempotent producers that the log remembers."),
)
"""All metrics in display order.  A metric that two roles name differently occurs twice."""


def metrics_of(roles: Collection[str]) -> tuple[Metric, ...]:
    """The metrics of a node with these `process.roles`."""
    return tuple(metric for metric in METRICS if not metric.role or metric.role in roles)
