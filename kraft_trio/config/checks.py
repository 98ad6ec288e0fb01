"""The rules between the values of several configuration keys."""

from __future__ import annotations

from kraft_trio.config.fields import KEY_OF_FIELD, ConfigFields
from kraft_trio.config.values import KEY_VALUE, SECURITY_PROTOCOLS, STANDARD_AUTHORIZER
from kraft_trio.errors import ConfigError
from kraft_trio.protocol.waits import (
    election_backoff_max_ms,
    fetch_answer_wait_ms,
    retry_backoff_ms,
    vote_wait_ms,
)

CONNECTION_SHARE = 4
"""One connection may use a quarter of `queued.max.request.bytes`, unless the configuration says how much."""
RESERVED_SHARE = 4
"""A quarter of `queued.max.request.bytes` is reserved for replicas."""
REQUEST_SLACK_BYTES = 64 * 1024
"""The room that a request may take in addition to its largest batch."""


def refuse(field: str, value: object, reason: str) -> ConfigError:
    """The error for one field of `ConfigFields`: its key, its value and the reason."""
    return ConfigError(f"{KEY_OF_FIELD[field].name}={value}: {reason}")


def check(config: ConfigFields) -> None:
    """Raises ConfigError for the first value that cannot be used, alone or together with another one."""
    _check_roles(config)
    _check_listeners(config)
    _check_security_protocols(config)
    _check_key_value_store(config)
    _check_http_listener(config)
    _check_http_users(config)
    _check_voters(config)
    _check_sizes(config)
    _check_timeouts(config)
    _check_authorizer(config)


def capped(config: ConfigFields) -> dict[str, str]:
    """What the node does in place of timeouts that other timeouts cap: a sentence for each field."""
    fetch_ms, election_ms = config.fetch_timeout_ms, config.election_timeout_ms
    request_ms, told = config.request_timeout_ms, {}
    most_ms = retry_backoff_ms(config.retry_backoff_ms, fetch_ms, election_ms)
    if most_ms < config.retry_backoff_ms:
        told["retry_backoff_ms"] = f"capped at {most_ms}, by the fetch and election timeouts"
    most_ms = election_backoff_max_ms(config.election_backoff_max_ms, election_ms)
    if most_ms < config.election_backoff_max_ms:
        told["election_backoff_max_ms"] = f"capped at {most_ms} after a lost election, by the election timeout"
    waits_ms = fetch_answer_wait_ms(fetch_ms, request_ms), vote_wait_ms(election_ms, request_ms)
    if min(waits_ms) < request_ms:
        told["request_timeout_ms"] = (
            f"a Fetch is given up after {waits_ms[0]} ms and a Vote after {waits_ms[1]} ms, "
            "because of the fetch and election timeouts"
        )
    return {field: f"{KEY_OF_FIELD[field].name}={getattr(config, field)}: {what}" for field, what in told.items()}


def _check_authorizer(config: ConfigFields) -> None:
    for field, value in (("super_users", ";".join(config.super_users)), ("acl_file", config.acl_file)):
        if value and not config.authorizer:
            raise refuse(field, value, f"would have no effect; set authorizer.class.name={STANDARD_AUTHORIZER}")


def _check_roles(config: ConfigFields) -> None:
    roles = ",".join(config.process_roles)
    if not roles or len(set(config.process_roles)) != len(config.process_roles):
        raise KEY_OF_FIELD["process_roles"].refuse(roles)
    if config.witness and "controller" not in config.process_roles:
        raise refuse("witness", "true", f"a witness is a voter, which process.roles={roles} rules out")
    if not config.controller_listener_names:
        raise refuse("controller_listener_names", "", "at least one listener name is needed")


def _check_listeners(config: ConfigFields) -> None:
    text = ",".join(map(str, config.listeners))
    names = [listener.name for listener in config.listeners]
    if len(set(names)) != len(names):
        raise refuse("listeners", text, "a listener name is given twice")
    addresses = [listener.endpoint for listener in config.listeners if listener.endpoint.port != 0]
    if len(set(addresses)) != len(addresses):
        raise refuse("listeners", text, "two listeners have the same address")
    if "controller" in config.process_roles and config.controller_listener_names[0] not in names:
        wanted = config.controller_listener_names[0]
        raise refuse("listeners", text, f"a node with the controller role needs the listener {wanted}://host:port")
    for listener in config.advertised_listeners:
        if listener.name not in names:
            advertised = ",".join(map(str, config.advertised_listeners))
            raise refuse("advertised_listeners", advertised, f"{listener.name} is not among the listeners {text!r}")


def _check_security_protocols(config: ConfigFields) -> None:
    """As in Kafka, a map names all listeners: one whose name is misspelt there would be served without security."""
    named = {name for name, _ in config.security_protocol_map} | set(SECURITY_PROTOCOLS)
    used = dict.fromkeys((config.controller_listener_names[0], *(listener.name for listener in config.listeners)))
    missing = next((name for name in used if name not in named), None)
    if config.security_protocol_map and missing is not None:
        text = ",".join(f"{name}:{protocol}" for name, protocol in config.security_protocol_map)
        raise refuse("security_protocol_map", text, f"the listener {missing} is missing; expected {missing}:PROTOCOL")


def _check_key_value_store(config: ConfigFields) -> None:
    for field in ("kv_listener", "kv_advertised_listener"):
        listeners = getattr(config, field)
        text = ",".join(map(str, listeners))
        if len(listeners) > 1:
            raise refuse(field, text, "one address expected")
        if listeners and config.state_machine != KEY_VALUE:
            raise refuse(field, text, f"needs kraft.state.machine={KEY_VALUE}, on all nodes")
    if config.kv_advertised_listener and not config.kv_listener:
        raise refuse("kv_advertised_listener", config.kv_advertised_listener[0], "needs kraft.kv.listener")
    for listener in config.kv_listener:
        if listener.endpoint.host in ("", "0.0.0.0", "::") and not config.kv_advertised_listener:
            raise refuse("kv_listener", listener, "nobody can connect to that; set kraft.kv.advertised.listener")
        if listener.endpoint in [other.endpoint for other in config.listeners]:
            raise refuse("kv_listener", listener, "this address is among the listeners")


def _check_http_listener(config: ConfigFields) -> None:
    text = ",".join(map(str, config.http_listener))
    if len(config.http_listener) > 1:
        raise refuse("http_listener", text, "one address expected")
    for listener in config.http_listener:
        if listener.endpoint.port != 0 and listener.endpoint in [
            other.endpoint for other in (*config.listeners, *config.kv_listener)
        ]:
            raise refuse("http_listener", text, "another listener has this address")


def _check_http_users(config: ConfigFields) -> None:
    if config.http_users_file and not config.http_listener:
        raise refuse("http_users_file", config.http_users_file, "needs kraft.http.listener")


def _check_voters(config: ConfigFields) -> None:
    voters, ids = ",".join(map(str, config.quorum_voters)), [voter.id for voter in config.quorum_voters]
    if len(set(ids)) != len(ids):
        raise refuse("quorum_voters", voters, "a voter id is given twice")
    if not ids:
        return
    is_controller = "controller" in config.process_roles
    if is_controller and config.node_id not in ids:
        raise refuse(
            "quorum_voters", voters, f"node.id={config.node_id} is not among them; an observer has process.roles=broker"
        )
    if not is_controller and config.node_id in ids:
        raise refuse("quorum_voters", voters, f"node.id={config.node_id} is among them and needs the controller role")


def _check_timeouts(config: ConfigFields) -> None:
    for field in ("fetch_timeout_ms", "election_timeout_ms"):
        if config.retry_backoff_ms >= getattr(config, field):
            key = KEY_OF_FIELD[field].name
            raise refuse(
                "retry_backoff_ms",
                config.retry_backoff_ms,
                f"a lost request would not be retried in time; expected less than {key}={getattr(config, field)}",
            )


def _check_sizes(config: ConfigFields) -> None:
    if config.max_message_bytes > config.max_request_bytes:
        raise refuse(
            "max_message_bytes",
            config.max_message_bytes,
            f"a batch that large never fits a request (socket.request.max.bytes={config.max_request_bytes})",
        )
    if config.initial_request_bytes > config.max_request_bytes:
        raise refuse(
            "initial_request_bytes",
            config.initial_request_bytes,
            f"more than socket.request.max.bytes={config.max_request_bytes}",
        )

    largest = config.max_message_bytes + REQUEST_SLACK_BYTES
    with_message = f"is needed for requests with message.max.bytes={config.max_message_bytes}"
    if largest > config.queued_max_request_bytes // CONNECTION_SHARE and not config.max_connection_bytes:
        needed = largest * CONNECTION_SHARE
        raise refuse("queued_max_request_bytes", config.queued_max_request_bytes, f"at least {needed} {with_message}")
    if config.max_connection_bytes and config.max_connection_bytes < largest:
        raise refuse("max_connection_bytes", config.max_connection_bytes, f"at least {largest} {with_message}")
    of_clients = config.queued_max_request_bytes - config.queued_max_request_bytes // RESERVED_SHARE
    if config.max_connection_bytes > of_clients:
        raise refuse(
            "max_connection_bytes",
            config.max_connection_bytes,
            f"queued.max.request.bytes={config.queued_max_request_bytes} leaves {of_clients} to clients",
        )
