"""The configuration of one node, as its actors see it."""

from __future__ import annotations

import difflib
import os
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs

from kraft_trio.config.checks import capped, check, refuse
from kraft_trio.config.fields import ConfigFields
from kraft_trio.config.kafka_keys import is_security_key
from kraft_trio.config.properties import listener_of_key, read_environment, read_file, values_of
from kraft_trio.config.sasl_fields import SaslFields
from kraft_trio.config.tls_fields import TlsFields
from kraft_trio.config.values import (
    HTTPS,
    PLAINTEXT,
    SASL_PLAINTEXT,
    SASL_SSL,
    SECURITY_PROTOCOLS,
    SSL,
    NamedListener,
    StaticVoter,
)
from kraft_trio.errors import ConfigError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.protocol.voter_set import SUPPORTED_KRAFT_VERSIONS, Voter, VoterSet

log = get_logger(__name__)


@attrs.frozen(kw_only=True, init=False)
class NodeConfig(ConfigFields):
    """The complete configuration of a node.

    Each value may also be the text that a `.properties` file has for its key, as in
    `NodeConfig(node_id=1, listeners="CONTROLLER://a:9093", metadata_log_dir="data")`.

    Raises ConfigError if a value cannot be used, alone or together with another one.
    """

    tls: TlsFields = attrs.field(factory=TlsFields)
    """The `ssl.` keys."""
    listener_tls: Mapping[str, TlsFields] = attrs.field(factory=dict)
    """The same for a listener with keys `listener.name.<name>.ssl.` of its own, by its name."""

    sasl: SaslFields = attrs.field(factory=SaslFields)
    """The `sasl.` keys."""
    listener_sasl: Mapping[str, SaslFields] = attrs.field(factory=dict)
    """The same for a listener with keys of its own, by its name."""

    keys_of_kafka: tuple[str, ...] = ()
    """The keys that make its file one of a controller or broker of Apache Kafka."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            node_id: int,
            process_roles: str | Sequence[str] = ...,
            listeners: str | Sequence[NamedListener | str] = ...,
            advertised_listeners: str | Sequence[NamedListener | str] = ...,
            controller_listener_names: str | Sequence[str] = ...,
            quorum_voters: str | Sequence[StaticVoter | str] = ...,
            quorum_bootstrap_servers: str | Sequence[Endpoint | str] = ...,
            metadata_log_dir: str | os.PathLike[str],
            security_protocol_map: str | Sequence[tuple[str, str] | str] = ...,
            election_timeout_ms: int = ...,
            fetch_timeout_ms: int = ...,
            election_backoff_max_ms: int = ...,
            append_linger_ms: int = ...,
            append_gather_ms: int = ...,
            request_timeout_ms: int = ...,
            retry_backoff_ms: int = ...,
            fetch_max_bytes: int = ...,
            fetch_snapshot_max_bytes: int = ...,
            segment_bytes: int = ...,
            segment_ms: int = ...,
            preallocate_bytes: int = ...,
            snapshot_max_new_bytes: int = ...,
            snapshot_interval_ms: int = ...,
            retention_bytes: int = ...,
            retention_ms: int = ...,
            state_machine: str = ...,
            skipped_offsets: str | Sequence[int | str] = ...,
            kv_listener: str | Sequence[NamedListener | str] = ...,
            kv_advertised_listener: str | Sequence[NamedListener | str] = ...,
            kv_keep_revisions: int = ...,
            kv_quota_bytes: int = ...,
            failed_authentication_delay_ms: int = ...,
            connections_max_reauth_ms: int = ...,
            scram_credentials_file: str = ...,
            auto_join: bool = ...,
            voter_gossip: bool = ...,
            read_lease_max_clock_drift_ppm: int = ...,
            shutdown_grace_ms: int = ...,
            metrics_interval_ms: int = ...,
            http_listener: str | Sequence[NamedListener | str] = ...,
            http_hosts: str | Sequence[str] = ...,
            http_users_file: str = ...,
            authorizer: str = ...,
            super_users: str | Sequence[str] = ...,
            allows_everyone_without_acl: bool = ...,
            acl_file: str = ...,
            topic_name: str = ...,
            topic_id: UUID | str = ...,
            witness: bool = ...,
            kafka_records: str = ...,
            unsafe_kafka_directory: bool = ...,
            max_message_bytes: int = ...,
            max_request_bytes: int = ...,
            initial_request_bytes: int = ...,
            max_decompressed_bytes: int = ...,
            max_connections: int = ...,
            max_connections_per_ip: int = ...,
            connections_max_idle_ms: int = ...,
            first_request_timeout_ms: int = ...,
            request_grace_ms: int = ...,
            answer_grace_ms: int = ...,
            min_transfer_bytes_per_s: int = ...,
            queued_max_request_bytes: int = ...,
            max_connection_bytes: int = ...,
            max_in_flight_requests: int = ...,
            max_waiting_fetches: int = ...,
            max_waiting_fetches_per_connection: int = ...,
            max_waiting_observers: int = ...,
            max_producer_ids: int = ...,
            max_waiting_voter_changes: int = ...,
            voter_changes_per_minute: int = ...,
            voter_changes_burst: int = ...,
            max_http_connections: int = ...,
            max_http_connections_per_ip: int = ...,
            max_http_streams: int = ...,
            http_request_timeout_ms: int = ...,
            http_idle_timeout_ms: int = ...,
            max_log_text: int = ...,
            tls: TlsFields = ...,
            listener_tls: Mapping[str, TlsFields] = ...,
            sasl: SaslFields = ...,
            listener_sasl: Mapping[str, SaslFields] = ...,
            keys_of_kafka: tuple[str, ...] = ...,
        ) -> None: ...

    else:

        def __init__(self, **values: object) -> None:
            for name in values:
                if name not in _FIELDS:
                    nearest = difflib.get_close_matches(name, _FIELDS, n=1, cutoff=0.0)[0]
                    raise TypeError(f"{name}: NodeConfig has no such field; the nearest is {nearest}")
            for name in ("node_id", "metadata_log_dir"):
                if name not in values:
                    raise TypeError(f"{name}: not set, but NodeConfig needs it")
            self.__attrs_init__(**values)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "advertised_listeners", _advertised(self.listeners, self.advertised_listeners))
        check(self)

    @classmethod
    def from_mapping(cls, properties: Mapping[str, object]) -> NodeConfig:
        """Make a configuration from keys, such as `node.id`, and values.  Logs warnings.  Raises ConfigError."""
        return _warned(parse_config(properties))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], overrides: Mapping[str, str] | None = None) -> NodeConfig:
        """Read a `.properties` file; `overrides` (key to text) win over it.  Logs warnings.  Raises ConfigError."""
        return _warned(load_config(path, overrides))

    @classmethod
    def from_environment(
        cls, variables: Mapping[str, str] | None = None, *, file: str | os.PathLike[str] | None = None
    ) -> NodeConfig:
        """Read `KRAFT_NODE_ID` and its like from the environment; they win over `file`.

        A variable is `KRAFT_` and the key in capitals with underscores, without a `kraft.` at the beginning.  Logs
        warnings, also of `KRAFT_` variables that are no keys.  Raises ConfigError.
        """
        variables = os.environ if variables is None else variables
        _check_is_mapping("variables", variables)
        properties, warnings = read_environment(variables)
        return _warned(parse_config(properties) if file is None else load_config(file, properties), warnings)

    @property
    def controller_listener_name(self) -> str:
        """The listener name by which this node looks up its peers' endpoints."""
        return self.controller_listener_names[0]

    def advertised_endpoints(self) -> Endpoints:
        """The addresses that this node announces to the quorum: its controller listeners, the default one first, then
        the client listeners.  With these, any node can give clients the addresses of the whole quorum.
        """
        advertised = {listener.name: listener.endpoint for listener in self.advertised_listeners}
        for listener in self.listeners:
            advertised.setdefault(listener.name, listener.endpoint)
        names = dict.fromkeys((*self.controller_listener_names, *(listener.name for listener in self.listeners)))
        return Endpoints([(name, advertised[name]) for name in names if name in advertised])

    def http_names(self) -> frozenset[str]:
        """The host names by which browsers may know the HTTP listeners: those of all listeners, and the configured."""
        named = (
            *self.listeners,
            *self.advertised_listeners,
            *self.http_listener,
            *self.kv_listener,
            *self.kv_advertised_listener,
        )
        hosts = {*self.http_hosts, *(listener.endpoint.host for listener in named), socket.gethostname()}
        return frozenset(host.lower() for host in hosts if host)

    def as_voter(self, directory_id: UUID) -> Voter:
        """This node's entry in a VotersRecord."""
        return Voter(ReplicaKey(self.node_id, directory_id), self.advertised_endpoints(), SUPPORTED_KRAFT_VERSIONS)

    def tls_of(self, listener_name: str) -> TlsFields | None:
        """The keys of TLS for a listener, or None if `listener.security.protocol.map` does not ask for TLS there."""
        uses = self.security_protocol_of(listener_name) in (SSL, SASL_SSL)
        return self.listener_tls.get(listener_name, self.tls) if uses else None

    def sasl_of(self, listener_name: str) -> SaslFields | None:
        """The keys of SASL for a listener, or None if clients need no SASL there."""
        uses = self.security_protocol_of(listener_name) in (SASL_PLAINTEXT, SASL_SSL)
        return self.listener_sasl.get(listener_name, self.sasl) if uses else None

    def security_protocol_of(self, listener_name: str) -> str:
        """How `listener.security.protocol.map`, or else its name, says that the listener is secured."""
        named = listener_name if listener_name in SECURITY_PROTOCOLS else PLAINTEXT
        return dict(self.security_protocol_map).get(listener_name, named)

    @property
    def scram_credentials_path(self) -> str:
        return self.scram_credentials_file or os.path.join(self.metadata_log_dir, "scram-credentials")

    @property
    def uses_tls(self) -> bool:
        names = (self.controller_listener_name, *(listener.name for listener in self.listeners))
        return self.https is not None or any(self.tls_of(name) is not None for name in names)

    @property
    def https(self) -> TlsFields | None:
        """The keys of TLS for `kraft.http.listener`, or None without HTTPS."""
        uses = any(listener.name == HTTPS for listener in self.http_listener)
        return self.listener_tls.get(HTTPS, self.tls) if uses else None

    @property
    def uses_sasl(self) -> bool:
        names = (self.controller_listener_name, *(listener.name for listener in self.listeners))
        return any(self.sasl_of(name) is not None for name in names)

    @property
    def has_read_leases(self) -> bool:
        return self.read_lease_max_clock_drift_ppm >= 0

    def advertised_endpoint(self, listener_name: str) -> Endpoint | None:
        """The address that clients of this listener should connect to; None for an unknown listener."""
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


_FIELDS: Final = [field.name for field in attrs.fields(NodeConfig) if field.init]


@attrs.frozen
class LoadedConfig:
    """A configuration, with the warnings about its file."""

    config: NodeConfig
    warnings: tuple[str, ...] = ()


def check_is_config(config: object) -> None:
    """Raises TypeError, with a hint, for anything but a NodeConfig."""
    if not isinstance(config, NodeConfig):
        hint = "; it is its .config" if isinstance(config, LoadedConfig) else ""
        raise TypeError(f"config: {type(config).__name__}, expected NodeConfig{hint}")


def load_config(path: str | os.PathLike[str], overrides: Mapping[str, str] | None = None) -> LoadedConfig:
    """Read a `.properties` file; `overrides` (key to text) win over it.

    Raises ConfigError, naming the file if it cannot be read, or else the key, its value and the allowed values.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path: {path!r}, expected the path of a .properties file")
    _check_is_mapping("overrides", overrides or {})
    properties, warnings = read_file(path, overrides)
    loaded = parse_config(properties)
    return attrs.evolve(loaded, warnings=(*warnings, *loaded.warnings))


def parse_config(properties: Mapping[str, object]) -> LoadedConfig:
    """Make a configuration from keys and values, each as text or as NodeConfig has it.  Raises ConfigError."""
    _check_is_mapping("properties", properties)
    values, warnings = values_of(properties)
    config = NodeConfig(**values)
    _check_listener_keys(properties, config)
    if (config.tls != TlsFields() or config.listener_tls) and not config.uses_tls:
        warnings.append("ssl keys are set, but listener.security.protocol.map secures no listener with SSL")
    if (config.sasl != SaslFields() or config.listener_sasl) and not config.uses_sasl:
        warnings.append("sasl keys are set, but listener.security.protocol.map secures no listener with SASL")
    if config.http_users_file and config.http_listener and config.https is None:
        warnings.append("kraft.http.users.file: clients send passwords in the clear; use HTTPS in kraft.http.listener")
    if not config.quorum_voters and not config.quorum_bootstrap_servers:
        warnings.append(
            "neither controller.quorum.bootstrap.servers nor controller.quorum.voters is set: "
            "this node can find a leader only if it was formatted with the voters"
        )
    defaults = attrs.fields_dict(ConfigFields)
    # Capped defaults fit the timeouts that were set.
    warnings += [told for field, told in capped(config).items() if getattr(config, field) != defaults[field].default]
    return LoadedConfig(config, tuple(warnings))


def _check_listener_keys(properties: Mapping[str, object], config: NodeConfig) -> None:
    """Raises ConfigError for a security key of a listener that the node does not know: its name may be misspelt."""
    known = dict.fromkeys((*config.controller_listener_names, *(one.name for one in config.listeners), HTTPS))
    for key, value in properties.items():
        listener = listener_of_key(key)
        if listener is not None and listener not in known and is_security_key(key) and str(value).strip():
            raise ConfigError(f"{key}: no listener is called {listener}; expected one of {', '.join(known)}")


def _check_is_mapping(name: str, given: object) -> None:
    """Raises TypeError."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{name}: {type(given).__name__}, expected a mapping of texts")
    for key in given:
        if not isinstance(key, str):
            raise TypeError(f"{name}: key {key!r}, expected text")


def _warned(loaded: LoadedConfig, more: Sequence[str] = ()) -> NodeConfig:
    for warning in (*more, *loaded.warnings):
        log.warning("configuration", reason=warning)
    return loaded.config


def _advertised(listeners: Sequence[NamedListener], advertised: Sequence[NamedListener]) -> tuple[NamedListener, ...]:
    """The advertised listeners, completed from `listeners`.  Raises ConfigError for a wildcard."""
    given = {listener.name for listener in advertised}
    result = list(advertised)
    for listener in listeners:
        if listener.name in given:
            continue
        host = listener.endpoint.host or socket.gethostname()
        if host in ("0.0.0.0", "::"):
            raise refuse(
                "listeners",
                listener,
                f"nobody can connect to {host}; set advertised.listeners to an address that others can reach",
            )
        result.append(NamedListener(listener.name, Endpoint(host, listener.endpoint.port)))
    return tuple(result)
