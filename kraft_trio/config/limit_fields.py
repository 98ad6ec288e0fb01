"""The configuration keys that limit what others may demand of a node.

See docs/reference/limits.md#limits-that-are-configured.
"""

from __future__ import annotations

import attrs

from kraft_trio.config.key import MAX_INT32, MAX_INT64, Integer, config_key
from kraft_trio.protocol.producers import DEFAULT_MAX_PRODUCERS

_KIBIBYTE = 1024
_MEBIBYTE = 1024 * 1024


@attrs.frozen(kw_only=True)
class LimitFields:
    """One field for each key."""

    max_message_bytes: int = config_key(
        "message.max.bytes",
        Integer(1),
        "Maximum size of a record batch, and of each decompressed record in it.",
        default=1048588,
        unit="bytes",
    )
    max_request_bytes: int = config_key(
        "socket.request.max.bytes",
        Integer(1),
        "Maximum size of a request.",
        default=100 * _MEBIBYTE,
        unit="bytes",
    )
    initial_request_bytes: int = config_key(
        "kraft.initial.request.max.bytes",
        Integer(1),
        "Maximum size of the first valid request on a connection, and of any before it.",
        default=64 * _KIBIBYTE,
        unit="bytes",
    )
    max_decompressed_bytes: int = config_key(
        "kraft.decompressed.max.bytes",
        Integer(1),
        "Maximum decompressed size of a record batch.",
        default=64 * _MEBIBYTE,
        unit="bytes",
    )
    max_connections: int = config_key(
        "max.connections",
        Integer(1),
        "Maximum number of connections (Kafka's default is no limit).",
        default=1000,
    )
    max_connections_per_ip: int = config_key(
        "max.connections.per.ip",
        Integer(1, MAX_INT32),
        "Maximum number of connections from one address, except on listeners for quorum traffic.",
        default=MAX_INT32,
    )
    connections_max_idle_ms: int = config_key(
        "connections.max.idle.ms",
        Integer(1, MAX_INT64),
        "Idle time after which a connection is closed.",
        default=10 * 60 * 1000,
        unit="ms",
    )
    first_request_timeout_ms: int = config_key(
        "kraft.first.request.timeout.ms",
        Integer(1),
        "Time limit for the first valid request on a connection.",
        default=5000,
        unit="ms",
    )
    request_grace_ms: int = config_key(
        "kraft.request.grace.ms",
        Integer(0),
        "Grace time of a request that has begun to arrive.",
        default=5000,
        unit="ms",
    )
    answer_grace_ms: int = config_key(
        "kraft.answer.grace.ms",
        Integer(0),
        "Grace time of an answer that its client does not read.",
        default=60_000,
        unit="ms",
    )
    min_transfer_bytes_per_s: int = config_key(
        "kraft.transfer.min.bytes.per.second",
        Integer(0),
        "Slowest transfer of a request or an answer, measured after its grace time; 0: no limit.",
        default=128 * _KIBIBYTE,
        unit="bytes per second",
    )
    queued_max_request_bytes: int = config_key(
        "queued.max.request.bytes",
        Integer(_MEBIBYTE, MAX_INT64),
        "Maximum memory for requests and answers (Kafka's default is no limit).  A quarter is reserved for "
        "replicas, and very large requests that still arrive may use half of the rest.  One connection, and so one "
        "request, may use a quarter.",
        default=64 * _MEBIBYTE,
        unit="bytes",
    )
    max_connection_bytes: int = config_key(
        "kraft.connection.max.request.bytes",
        Integer(0, MAX_INT64),
        "Maximum memory for the requests and answers of one connection; 0: a quarter of `queued.max.request.bytes`.",
        default=0,
        unit="bytes",
    )
    max_in_flight_requests: int = config_key(
        "kraft.connection.max.in.flight.requests",
        Integer(1, 100_000),
        "Unanswered requests of one connection.  It is not read further until answers have been taken.",
        default=64,
    )
    max_waiting_fetches: int = config_key(
        "kraft.waiting.fetches.max",
        Integer(0),
        "Clients' fetches that wait at a leader.",
        default=1000,
    )
    max_waiting_fetches_per_connection: int = config_key(
        "kraft.waiting.fetches.max.per.connection",
        Integer(0),
        "Fetches of one connection that wait at a leader.",
        default=4,
    )
    max_waiting_observers: int = config_key(
        "kraft.waiting.observers.max",
        Integer(0),
        "Fetches of observers that wait at a leader.",
        default=200,
    )
    max_producer_ids: int = config_key(
        "kraft.producer.ids.max",
        Integer(1),
        "Idempotent producers that a log remembers, the same on all nodes.  Above it, those that were silent longest "
        "are forgotten.",
        default=DEFAULT_MAX_PRODUCERS,
    )
    max_waiting_voter_changes: int = config_key(
        "kraft.voter.changes.max.waiting",
        Integer(1, 10_000),
        "Voter changes that run or wait at a leader.",
        default=64,
    )
    voter_changes_per_minute: int = config_key(
        "kraft.voter.changes.per.minute",
        Integer(1),
        "Rate at which a leader takes requests for voter changes in the long run.",
        default=600,
    )
    voter_changes_burst: int = config_key(
        "kraft.voter.changes.burst",
        Integer(2),
        "Requests for voter changes that a leader takes at once.  Half are reserved for replicas that it knows.",
        default=64,
    )
    max_http_connections: int = config_key(
        "kraft.http.max.connections",
        Integer(1),
        "Connections to `kraft.http.listener`.",
        default=32,
    )
    max_http_connections_per_ip: int = config_key(
        "kraft.http.max.connections.per.ip",
        Integer(1),
        "Connections from one address to `kraft.http.listener`.",
        default=12,
    )
    max_http_streams: int = config_key(
        "kraft.http.max.streams",
        Integer(1),
        "Readers of `/v1/events`, and open pages, of `kraft.http.listener`: so many of each.",
        default=8,
    )
    http_request_timeout_ms: int = config_key(
        "kraft.http.request.timeout.ms",
        Integer(1),
        "Time limit for the TLS handshake, for a request, and for its body on `kraft.http.listener`.",
        default=5000,
        unit="ms",
    )
    http_idle_timeout_ms: int = config_key(
        "kraft.http.idle.timeout.ms",
        Integer(1),
        "Idle time after which a connection to `kraft.http.listener` is closed.",
        default=30_000,
        unit="ms",
    )
    max_log_text: int = config_key(
        "kraft.log.text.max.characters",
        Integer(20),
        "Characters of one text in a line of the log, which may come from a stranger.",
        default=1000,
    )
