"""A node's configuration: Kafka's `.properties` file read into one validated value, units in the names.

The class is the table: a field carries its key, its kind of value, its unit and its meaning, and `KEYS` lists them for
documentation.  Keys that Kafka has keep Kafka's name, meaning and (unless the field says so) default; keys of our own
begin with `kraft.`.
"""

from __future__ import annotations

import difflib
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import attrs
import javaproperties

from kraft_trio import config_keys as kinds
from kraft_trio.config_keys import KEY, Integer, Key, Listener, StaticVoter, Truth, config_key
from kraft_trio.errors import ConfigError
from kraft_trio.kafka_keys import HARMLESS_SECURITY, is_kafka_key, is_security_key
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.protocol.voter_set import SUPPORTED_KRAFT_VERSIONS, Voter, VoterSet
from kraft_trio.protocol.waits import LEAST_TIMEOUT_MS

_KIBIBYTE = 1024
_MEBIBYTE = 1024 * 1024

CONNECTION_SHARE = 4
"""One connection may have a quarter of `queued.max.request.bytes`."""
REQUEST_SLACK_BYTES = 64 * _KIBIBYTE
"""What a request may have besides its largest batch."""


@attrs.frozen(kw_only=True)
class NodeConfig:
    """Everything a node is told at its start.  Raises ConfigError when a value, or two together, cannot be used."""

    node_id: int = config_key("node.id", Integer(0), "This node's replica id, unique in the cluster.")
    process_roles: tuple[str, ...] = config_key(
        "process.roles",
        kinds.ROLES,
        "`controller` may be a voter; `broker` alone is an observer.",
        default=("controller",),
    )
    listeners: tuple[Listener, ...] = config_key("listeners", kinds.LISTENERS, "Where this node listens.", default=())
    advertised_listeners: tuple[Listener, ...] = config_key(
        "advertised.listeners",
        kinds.ADVERTISED_LISTENERS,
        "What others are told to connect to; taken from `listeners` when not set.",
        default=(),
    )
    controller_listener_names: tuple[str, ...] = config_key(
        "controller.listener.names",
        kinds.LISTENER_NAMES,
        "The listeners of the quorum's own traffic, which no other listener serves; the first is the one this node "
        "uses towards others.",
        default=("CONTROLLER",),
    )
    quorum_voters: tuple[StaticVoter, ...] = config_key(
        "controller.quorum.voters",
        kinds.STATIC_VOTERS,
        "The static voters (kraft.version 0).  Ignored once the log or the bootstrap checkpoint names voters.",
        default=(),
    )
    quorum_bootstrap_servers: tuple[Endpoint, ...] = config_key(
        "controller.quorum.bootstrap.servers",
        kinds.BOOTSTRAP_SERVERS,
        "Where a node that knows no leader asks for one.",
        default=(),
    )
    metadata_log_dir: str = config_key(
        "metadata.log.dir",
        kinds.DIRECTORY,
        "The node's directory; the first of `log.dirs`, or `log.dir`, when not set.",
    )
    security_protocol_map: tuple[tuple[str, str], ...] = config_key(
        "listener.security.protocol.map",
        kinds.PROTOCOL_MAP,
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
        Integer(1, kinds.MAX_INT64),
        "The age at which a log segment is closed and the next begun.",
        default=7 * 24 * 60 * 60 * 1000,
        unit="ms",
    )
    snapshot_max_new_bytes: int = config_key(
        "metadata.log.max.record.bytes.between.snapshots",
        Integer(1, kinds.MAX_INT64),
        "How much of the log is new before the state machine's next snapshot is taken.",
        default=20 * _MEBIBYTE,
        unit="bytes",
    )
    snapshot_interval_ms: int = config_key(
        "metadata.log.max.snapshot.interval.ms",
        Integer(0, kinds.MAX_INT64),
        "After what time the state machine's next snapshot is taken where anything is new; 0: only by size.",
        default=60 * 60 * 1000,
        unit="ms",
    )
    retention_bytes: int = config_key(
        "metadata.max.retention.bytes",
        Integer(-1, kinds.MAX_INT64),
        "What log and snapshots may take before the oldest of what a snapshot covers goes; -1: no limit.",
        default=100 * _MEBIBYTE,
        unit="bytes",
    )
    retention_ms: int = config_key(
        "metadata.max.retention.ms",
        Integer(-1, kinds.MAX_INT64),
        "Age of the oldest snapshot above which the oldest segment it covers is deleted; -1: no limit.  It counts from "
        "when this node wrote or fetched the snapshot.",
        default=7 * 24 * 60 * 60 * 1000,
        unit="ms",
    )
    state_machine: str = config_key(
        "kraft.state.machine",
        kinds.STATE_MACHINE,
        "What `kraft server` makes of the log; the same on all nodes.  `none`: nothing, and the log is kept whole.  "
        "Else it is saved in snapshots, behind which the log is trimmed.  `latest-by-key`: the newest record of each "
        "key, as in a compacted topic.  `module:factory`: the state machine that this callable of yours returns.",
        default=kinds.NO_STATE_MACHINE,
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
        Integer(1, kinds.MAX_INT32),
        "How many connections one address may have open at once, over all listeners that are not the quorum's own.",
        default=kinds.MAX_INT32,
    )
    connections_max_idle_ms: int = config_key(
        "connections.max.idle.ms",
        Integer(1, kinds.MAX_INT64),
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
        Integer(_MEBIBYTE, kinds.MAX_INT64),
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
        "kraft.topic.name", kinds.TOPIC_NAME, "The name of the one topic.", default="__cluster_metadata"
    )
    topic_id: UUID = config_key("kraft.topic.id", kinds.TOPIC_ID, "The id of the one topic.", default=UUID(int=1))

    def __attrs_post_init__(self) -> None:
        _check_roles(self)
        _check_listeners(self)
        _check_voters(self)
        _check_sizes(self)
        _check_timeouts(self)

    @property
    def controller_listener_name(self) -> str:
        """The listener name by which this node looks up its peers' endpoints."""
        return self.controller_listener_names[0]

    def advertised_endpoints(self) -> Endpoints:
        """What this node tells the quorum about itself: its controller listeners, the default one first, then
        the others.  Those are for clients: each node can name the addresses of the whole quorum to them.
        """
        advertised = {listener.name: listener.endpoint for listener in self.advertised_listeners}
        for listener in self.listeners:
            advertised.setdefault(listener.name, listener.endpoint)
        names = dict.fromkeys((*self.controller_listener_names, *(listener.name for listener in self.listeners)))
        return Endpoints([(name, advertised[name]) for name in names if name in advertised])

    def as_voter(self, directory_id: UUID) -> Voter:
        """This node as a VotersRecord should name it."""
        return Voter(ReplicaKey(self.node_id, directory_id), self.advertised_endpoints(), SUPPORTED_KRAFT_VERSIONS)

    def advertised_endpoint(self, listener_name: str) -> Endpoint | None:
        """Where clients that came in through this listener are told to connect; None for a name that we do not have."""
        for listener in (*self.advertised_listeners, *self.listeners):
            if listener.name == listener_name:
                return listener.endpoint
        return None

    def static_voter_set(self) -> VoterSet:
        """`controller.quorum.voters` as a voter set: unknown directory ids, kraft.version range 0..0."""
        name = self.controller_listener_name
        return VoterSet(
            [Voter(ReplicaKey(voter.id), Endpoints({name: voter.endpoint})) for voter in self.quorum_voters]
        )


_FIELDS: Mapping[str, attrs.Attribute[Any]] = {field.name: field for field in attrs.fields(NodeConfig)}
_FIELD_OF_KEY = {field.metadata[KEY].name: name for name, field in _FIELDS.items()}
_DIRECTORY_KEYS = ("metadata.log.dir", "log.dirs", "log.dir")

KEYS: tuple[tuple[Key, str | None], ...] = tuple(
    (field.metadata[KEY], None if field.default is attrs.NOTHING else field.metadata[KEY].kind.format(field.default))
    for field in _FIELDS.values()
)
"""Every key with the text of its default, None where it must be set."""


def _refuse(field: str, value: object, reason: str) -> ConfigError:
    return ConfigError(f"{_FIELDS[field].metadata[KEY].name}={value}: {reason}")


def _check_roles(config: NodeConfig) -> None:
    roles = ",".join(config.process_roles)
    if not roles or len(set(config.process_roles)) != len(config.process_roles):
        raise _FIELDS["process_roles"].metadata[KEY].refuse(roles)
    if not config.controller_listener_names:
        raise _refuse("controller_listener_names", "", "at least one listener name is needed")


def _check_listeners(config: NodeConfig) -> None:
    text = ",".join(map(str, config.listeners))
    names = [listener.name for listener in config.listeners]
    if len(set(names)) != len(names):
        raise _refuse("listeners", text, "a listener name is given twice")
    addresses = [listener.endpoint for listener in config.listeners if listener.endpoint.port != 0]
    if len(set(addresses)) != len(addresses):
        raise _refuse("listeners", text, "two listeners have the same address")
    if "controller" in config.process_roles and config.controller_listener_name not in names:
        wanted = config.controller_listener_name
        raise _refuse("listeners", text, f"a node with the controller role needs the listener {wanted}://host:port")
    for listener in config.advertised_listeners:
        if listener.name not in names:
            advertised = ",".join(map(str, config.advertised_listeners))
            raise _refuse("advertised_listeners", advertised, f"{listener.name} is not among the listeners {text!r}")


def _check_voters(config: NodeConfig) -> None:
    voters, ids = ",".join(map(str, config.quorum_voters)), [voter.id for voter in config.quorum_voters]
    if len(set(ids)) != len(ids):
        raise _refuse("quorum_voters", voters, "a voter id is given twice")
    if not ids:
        return
    is_controller = "controller" in config.process_roles
    if is_controller and config.node_id not in ids:
        raise _refuse(
            "quorum_voters", voters, f"node.id={config.node_id} is not among them; an observer has process.roles=broker"
        )
    if not is_controller and config.node_id in ids:
        raise _refuse("quorum_voters", voters, f"node.id={config.node_id} is among them and needs the controller role")


def _check_timeouts(config: NodeConfig) -> None:
    for field in ("fetch_timeout_ms", "election_timeout_ms"):
        if config.retry_backoff_ms >= getattr(config, field):
            key = _FIELDS[field].metadata[KEY].name
            raise _refuse(
                "retry_backoff_ms",
                config.retry_backoff_ms,
                f"a lost request would never be tried again in time; expected less than {key}={getattr(config, field)}",
            )


def _check_sizes(config: NodeConfig) -> None:
    if config.max_message_bytes > config.max_request_bytes:
        raise _refuse(
            "max_message_bytes",
            config.max_message_bytes,
            f"a batch that large never fits a request (socket.request.max.bytes={config.max_request_bytes})",
        )
    if config.initial_request_bytes > config.max_request_bytes:
        raise _refuse(
            "initial_request_bytes",
            config.initial_request_bytes,
            f"more than socket.request.max.bytes={config.max_request_bytes}",
        )

    per_connection = config.queued_max_request_bytes // CONNECTION_SHARE
    if config.max_message_bytes + REQUEST_SLACK_BYTES > per_connection:
        needed = (config.max_message_bytes + REQUEST_SLACK_BYTES) * CONNECTION_SHARE
        raise _refuse(
            "queued_max_request_bytes",
            config.queued_max_request_bytes,
            f"at least {needed} is needed for requests with message.max.bytes={config.max_message_bytes}",
        )


@attrs.frozen
class LoadedConfig:
    """A configuration, and what its reader should be told about the file it came from."""

    config: NodeConfig
    warnings: tuple[str, ...] = ()


def load_config(path: str | os.PathLike[str], overrides: Mapping[str, str] | None = None) -> LoadedConfig:
    """Read a `.properties` file; `overrides` (key to text) win over it.

    Raises ConfigError naming the file when it cannot be read, and otherwise the key, its value and what is allowed.
    """
    warnings: list[str] = []
    try:
        with open(path, "rb") as file:
            # Java reads such files as Latin-1, and other characters through \u escapes.
            pairs = [item for item in javaproperties.parse(file) if isinstance(item, javaproperties.KeyValue)]
    except OSError as error:
        raise ConfigError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{os.fspath(path)}: not a .properties file: {error}") from error
    properties: dict[str, str] = {}
    for pair in pairs:
        if pair.key in properties:
            warnings.append(f"{pair.key}: given more than once; the last value, {pair.value!r}, is used")
        properties[pair.key] = pair.value
    loaded = parse_config({**properties, **(overrides or {})})
    return attrs.evolve(loaded, warnings=(*warnings, *loaded.warnings))


def parse_config(properties: Mapping[str, str]) -> LoadedConfig:
    """Make a configuration from keys and texts.  Raises ConfigError."""
    warnings: list[str] = []
    values: dict[str, Any] = {}
    for name, text in properties.items():
        field = _FIELD_OF_KEY.get(name)
        if field is not None:
            values[field] = _FIELDS[field].metadata[KEY].parse(text)
        elif is_security_key(name) and text.strip() and (name, text.strip().upper()) not in HARMLESS_SECURITY:
            raise ConfigError(
                f"{name}={text}: kraft has no authentication, authorization or encryption yet, and would serve "
                "everybody; expected the key not to be set"
            )
        elif name not in _DIRECTORY_KEYS:
            warnings.append(_unknown_key(name))
    if "metadata_log_dir" not in values and (directory := _first_log_directory(properties)) is not None:
        values["metadata_log_dir"] = directory
    for key, default in KEYS:
        if default is None and _FIELD_OF_KEY[key.name] not in values:
            raise ConfigError(f"{key.name}: not set; expected {key.kind.allowed}")
    values["advertised_listeners"] = _advertised(values.get("listeners", ()), values.get("advertised_listeners", ()))
    config = NodeConfig(**values)
    if not config.quorum_voters and not config.quorum_bootstrap_servers:
        warnings.append(
            "neither controller.quorum.bootstrap.servers nor controller.quorum.voters is set: "
            "this node can find a leader only if it was formatted with the voters"
        )
    return LoadedConfig(config, tuple(warnings))


def _advertised(listeners: Sequence[Listener], advertised: Sequence[Listener]) -> tuple[Listener, ...]:
    """The advertised listeners, those that are not set taken from `listeners`.  Raises ConfigError for a wildcard."""
    given = {listener.name for listener in advertised}
    result = list(advertised)
    for listener in listeners:
        if listener.name in given:
            continue
        host = listener.endpoint.host or socket.gethostname()
        if host in ("0.0.0.0", "::"):
            raise _refuse(
                "listeners", listener, f"nobody can connect to {host}; say in advertised.listeners what to connect to"
            )
        result.append(Listener(listener.name, Endpoint(host, listener.endpoint.port)))
    return tuple(result)


def _first_log_directory(properties: Mapping[str, str]) -> str | None:
    for name in _DIRECTORY_KEYS[1:]:
        if first := properties.get(name, "").split(",")[0].strip():
            return first
    return None


def _unknown_key(name: str) -> str:
    known = [*_FIELD_OF_KEY, *_DIRECTORY_KEYS]
    if is_kafka_key(name):
        return f"{name}: a Kafka key that kraft does not use"
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return f"{name}: unknown key, ignored; the nearest known one is {nearest[0]}"
