"""The table of configuration keys: each field carries its key, its kind of value, its unit and its meaning.

A key that Kafka has keeps its name, its meaning and, unless the field says otherwise, its default.  The keys that Kafka
does not have begin with `kraft.`.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import attrs

from kraft_trio.config import values
from kraft_trio.config.key import KEY, MAX_INT32, MAX_INT64, Integer, Key, Truth, config_key
from kraft_trio.config.values import Listener, StaticVoter
from kraft_trio.protocol.types import Endpoint
from kraft_trio.protocol.waits import LEAST_TIMEOUT_MS

_KIBIBYTE = 1024
_MEBIBYTE = 1024 * 1024


@attrs.frozen(kw_only=True)
class ConfigFields:
    """One field for each key."""

    node_id: int = config_key("node.id", Integer(0), "This node's replica id, unique in the cluster.")
    process_roles: tuple[str, ...] = config_key(
        "process.roles",
        values.ROLES,
        "`controller` may be a voter; `broker` alone is an observer.",
        default=("controller",),
    )
    listeners: tuple[Listener, ...] = config_key("listeners", values.LISTENERS, "Where this node listens.", default=())
    advertised_listeners: tuple[Listener, ...] = config_key(
        "advertised.listeners",
        values.ADVERTISED_LISTENERS,
        "What others are told to connect to; taken from `listeners` when not set.",
        default=(),
    )
    controller_listener_names: tuple[str, ...] = config_key(
        "controller.listener.names",
        values.LISTENER_NAMES,
        "The listeners of the quorum's own traffic, which no other listener serves; the first is the one this node "
        "uses towards others.",
        default=("CONTROLLER",),
    )
    quorum_voters: tuple[StaticVoter, ...] = config_key(
        "controller.quorum.voters",
        values.STATIC_VOTERS,
        "The static voters (kraft.version 0).  Ignored once the log or the bootstrap checkpoint names voters.",
        default=(),
    )
    quorum_bootstrap_servers: tuple[Endpoint, ...] = config_key(
        "controller.quorum.bootstrap.servers",
        values.BOOTSTRAP_SERVERS,
        "Where a node that knows no leader asks for one.",
        default=(),
    )
    metadata_log_dir: str = config_key(
        "metadata.log.dir",
        values.DIRECTORY,
        "The node's directory; the first of `log.dirs`, or `log.dir`, when not set.",
    )
    security_protocol_map: tuple[tuple[str, str], ...] = config_key(
        "listener.security.protocol.map",
        values.PROTOCOL_MAP,
        "Accepted for Kafka's files; only PLAINTEXT is served.",
        default=(),
    )
    election_timeout_ms: int = config_key(
        "controller.quorum.election.timeout.ms",
        Integer(LEAST_TIMEOUT_MS),
        "The least time without a leader before a voter campaigns; the real one is random, up to twice this.",
        default=1000,
        unit="ms",
    )
    fetch_timeout_ms: int = config_key(
        "controller.quorum.fetch.timeout.ms",
        Integer(LEAST_TIMEOUT_MS),
        "How long a follower goes without an answer from its leader before it campaigns; a leader that hears from no "
        "majority for 1.5 times this resigns.",
        default=2000,
        unit="ms",
    )
    election_backoff_max_ms: int = config_key(
        "controller.quorum.election.backoff.max.ms",
        Integer(0),
        "The longest wait of a successor after a leader's resignation.",
        default=1000,
        unit="ms",
    )
    append_linger_ms: int = config_key(
        "controller.quorum.append.linger.ms",
        Integer(0),
        "How long an append of the embedding application waits for others to share its batch.  Kafka's default is 25; "
        "here what comes in while a batch is on its way shares the next one anyway.",
        default=0,
        unit="ms",
    )
    request_timeout_ms: int = config_key(
        "controller.quorum.request.timeout.ms",
        Integer(LEAST_TIMEOUT_MS),
        "How long a peer may take to answer.  A leader without news answers a Fetch within a quarter of this and of "
        "the fetch timeout.  A Fetch is given up after three quarters of the fetch timeout at most, a Vote after an "
        "election timeout at most.",
        default=2000,
        unit="ms",
    )
    retry_backoff_ms: int = config_key(
        "controller.quorum.retry.backoff.ms",
        Integer(0),
        "The least wait before a request is tried again; the real one is random, up to twice this.  A sixteenth of the "
        "fetch timeout, or an eighth of the election timeout, where that is less.",
        default=20,
        unit="ms",
    )
    fetch_max_bytes: int = config_key(
        "controller.quorum.fetch.max.bytes",
        Integer(1),
        "The most a follower asks for in one Fetch; one batch always comes whole.",
        default=_MEBIBYTE,
        unit="bytes",
    )
    fetch_snapshot_max_bytes: int = config_key(
        "controller.quorum.fetch.snapshot.max.bytes",
        Integer(1),
        "The most a follower asks for in one FetchSnapshot.",
        default=_MEBIBYTE,
        unit="bytes",
    )
    segment_bytes: int = config_key(
        "metadata.log.segment.bytes",
        Integer(1024),
        "The size at which a log segment is closed and the next begun.",
        default=1024 * _MEBIBYTE,
        unit="bytes",
    )
    segment_ms: int = config_key(
        "metadata.log.segment.ms",
        Integer(1, MAX_INT64),
        "The age at which a log segment is closed and the next begun.",
        default=7 * 24 * 60 * 60 * 1000,
        unit="ms",
    )
    snapshot_max_new_bytes: int = config_key(
        "metadata.log.max.record.bytes.between.snapshots",
        Integer(1, MAX_INT64),
        "How much of the log is new before the state machine's next snapshot is taken.",
        default=20 * _MEBIBYTE,
        unit="bytes",
    )
    snapshot_interval_ms: int = config_key(
        "metadata.log.max.snapshot.interval.ms",
        Integer(0, MAX_INT64),
        "After what time the state machine's next snapshot is taken where anything is new; 0: only by size.",
        default=60 * 60 * 1000,
        unit="ms",
    )
    retention_bytes: int = config_key(
        "metadata.max.retention.bytes",
        Integer(-1, MAX_INT64),
        "What log and snapshots may take before the oldest of what a snapshot covers goes; -1: no limit.",
        default=100 * _MEBIBYTE,
        unit="bytes",
    )
    retention_ms: int = config_key(
        "metadata.max.retention.ms",
        Integer(-1, MAX_INT64),
        "Age of the oldest snapshot above which the oldest segment it covers is deleted; -1: no limit.  It counts from "
        "when this node wrote or fetched the snapshot.",
        default=7 * 24 * 60 * 60 * 1000,
        unit="ms",
    )
    state_machine: str = config_key(
        "kraft.state.machine",
        values.STATE_MACHINE,
        "What `kraft server` makes of the log; the same on all nodes.  `none`: nothing, and the log is kept whole.  "
        "Else it is saved in snapshots, behind which the log is trimmed.  `latest-by-key`: the newest record of each "
        "key, as in a compacted topic.  `module:factory`: the state machine that this callable of yours returns.",
        default=values.NO_STATE_MACHINE,
    )
    max_message_bytes: int = config_key(
        "message.max.bytes", Integer(1), "The largest record batch that is accepted.", default=1048588, unit="bytes"
    )
    max_request_bytes: int = config_key(
        "socket.request.max.bytes",
        Integer(1),
        "The largest request that is read.",
        default=100 * _MEBIBYTE,
        unit="bytes",
    )
    initial_request_bytes: int = config_key(
        "kraft.initial.request.max.bytes",
        Integer(1),
        "The largest request that is read before a connection's first valid one.",
        default=64 * _KIBIBYTE,
        unit="bytes",
    )
    max_decompressed_bytes: int = config_key(
        "kraft.decompressed.max.bytes",
        Integer(1),
        "The most that a compressed record batch may grow to.",
        default=64 * _MEBIBYTE,
        unit="bytes",
    )
    max_connections: int = config_key(
        "max.connections",
        Integer(1),
        "How many connections are open at once, over all listeners (Kafka sets no limit by default).",
        default=1000,
    )
    max_connections_per_ip: int = config_key(
        "max.connections.per.ip",
        Integer(1, MAX_INT32),
        "How many connections one address may have open at once, over all listeners that are not the quorum's own.",
        default=MAX_INT32,
    )
    connections_max_idle_ms: int = config_key(
        "connections.max.idle.ms",
        Integer(1, MAX_INT64),
        "A connection on which nothing was under way for so long is closed.",
        default=10 * 60 * 1000,
        unit="ms",
    )
    first_request_timeout_ms: int = config_key(
        "kraft.first.request.timeout.ms",
        Integer(1),
        "A new connection that has sent no valid request for so long is closed.",
        default=5000,
        unit="ms",
    )
    queued_max_request_bytes: int = config_key(
        "queued.max.request.bytes",
        Integer(_MEBIBYTE, MAX_INT64),
        "How much memory requests and answers in flight may take, over all connections (Kafka sets no limit by "
        "default).  A quarter is kept for replicas; one connection may have a quarter, so no larger request is read.",
        default=64 * _MEBIBYTE,
        unit="bytes",
    )
    auto_join: bool = config_key(
        "controller.quorum.auto.join.enable",
        Truth(),
        "Whether a controller that is no voter makes itself one (KIP-853).",
        default=False,
    )
    shutdown_grace_ms: int = config_key(
        "kraft.shutdown.grace.ms",
        Integer(0),
        "How long a stopping leader tries to hand over.",
        default=5000,
        unit="ms",
    )
    metrics_interval_ms: int = config_key(
        "kraft.metrics.interval.ms",
        Integer(0),
        "How often the node writes its metrics to `metrics.prom` in its directory; 0: never.",
        default=1000,
        unit="ms",
    )
    topic_name: str = config_key(
        "kraft.topic.name", values.TOPIC_NAME, "The name of the one topic.", default="__cluster_metadata"
    )
    topic_id: UUID = config_key("kraft.topic.id", values.TOPIC_ID, "The id of the one topic.", default=UUID(int=1))


KEY_OF_FIELD: Mapping[str, Key] = {field.name: field.metadata[KEY] for field in attrs.fields(ConfigFields)}
"""The key of each field of `ConfigFields`."""

KEYS: tuple[tuple[Key, str | None], ...] = tuple(
    (field.metadata[KEY], None if field.default is attrs.NOTHING else field.metadata[KEY].kind.format(field.default))
    for field in attrs.fields(ConfigFields)
)
"""Each key with the text of its default, or with None if the key must be set."""
