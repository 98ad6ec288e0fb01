"""The table of configuration keys: each field carries its key, its kind of value, its unit and its meaning.

A key that Kafka has keeps its name, its meaning and, unless the field says otherwise, its default.  The keys that Kafka
does not have begin with `kraft.`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import attrs

from kraft_trio.config import values
from kraft_trio.config.key import KEY, MAX_INT64, Integer, Key, Text, Truth, config_key
from kraft_trio.config.limit_fields import LimitFields
from kraft_trio.config.values import NamedListener, StaticVoter
from kraft_trio.protocol.kafka_records import AUTOMATIC
from kraft_trio.protocol.types import Endpoint
from kraft_trio.protocol.waits import LEAST_TIMEOUT_MS
from kraft_trio.storage.segments.preallocation import DEFAULT_PREALLOCATE_BYTES, MAX_PREALLOCATE_BYTES

_MEBIBYTE = 1024 * 1024


@attrs.frozen(kw_only=True)
class ConfigFields(LimitFields):
    """One field for each key."""

    node_id: int = config_key("node.id", Integer(0), "This node's replica id, unique in the cluster.")
    process_roles: tuple[str, ...] = config_key(
        "process.roles",
        values.ROLES,
        "A `controller` may be a voter; a `broker` is an observer.",
        default=("controller",),
    )
    listeners: tuple[NamedListener, ...] = config_key(
        "listeners", values.LISTENERS, "Where this node listens.", default=()
    )
    advertised_listeners: tuple[NamedListener, ...] = config_key(
        "advertised.listeners",
        values.ADVERTISED_LISTENERS,
        "Addresses that this node announces; for a listener not named here, that in `listeners`.",
        default=(),
    )
    controller_listener_names: tuple[str, ...] = config_key(
        "controller.listener.names",
        values.LISTENER_NAMES,
        "Listeners for quorum traffic, which no other listener accepts; this node reaches its peers by the first.",
        default=("CONTROLLER",),
    )
    quorum_voters: tuple[StaticVoter, ...] = config_key(
        "controller.quorum.voters",
        values.STATIC_VOTERS,
        "Static voters (kraft.version 0), ignored once the log or the bootstrap checkpoint names voters.",
        default=(),
    )
    quorum_bootstrap_servers: tuple[Endpoint, ...] = config_key(
        "controller.quorum.bootstrap.servers",
        values.BOOTSTRAP_SERVERS,
        "Nodes to ask for the leader if none is known.  With them, observers do not ask the static voters.",
        default=(),
    )
    metadata_log_dir: str = config_key(
        "metadata.log.dir",
        values.DIRECTORY,
        "The node's directory; if unset, the first of `log.dirs`, or else `log.dir`.",
    )
    security_protocol_map: tuple[tuple[str, str], ...] = config_key(
        "listener.security.protocol.map",
        values.PROTOCOL_MAP,
        "How each listener is secured.  It must name each listener that is not called like a protocol.  Without this "
        "key, those are not secured.",
        default=(),
    )
    election_timeout_ms: int = config_key(
        "controller.quorum.election.timeout.ms",
        Integer(LEAST_TIMEOUT_MS),
        "A voter without a leader starts an election after one to two times this.",
        default=1000,
        unit="ms",
    )
    fetch_timeout_ms: int = config_key(
        "controller.quorum.fetch.timeout.ms",
        Integer(LEAST_TIMEOUT_MS),
        "A follower starts an election after this long without an answer.  A leader resigns after 1.5 "
        "times this without a majority.",
        default=2000,
        unit="ms",
    )
    election_backoff_max_ms: int = config_key(
        "controller.quorum.election.backoff.max.ms",
        Integer(0),
        "Longest wait of a successor after a leader has resigned, and of a candidate after a lost election; that wait "
        "doubles with each one, up to one election timeout.",
        default=1000,
        unit="ms",
    )
    append_linger_ms: int = config_key(
        "controller.quorum.append.linger.ms",
        Integer(0),
        "Time that the application's append waits for others to share its batch (Kafka's default is 25 ms).",
        default=0,
        unit="ms",
    )
    append_gather_ms: int = config_key(
        "kraft.append.gather.ms",
        Integer(0),
        "While appends of the application overlap, the least time from the start of a batch to that of the next; a "
        "lone append never waits; 0: none ([why](../explanation/performance.md#appends-that-overlap)).",
        default=2,
        unit="ms",
    )
    request_timeout_ms: int = config_key(
        "controller.quorum.request.timeout.ms",
        Integer(LEAST_TIMEOUT_MS),
        "Time limit for a peer's answer; at most three quarters of the fetch timeout for a Fetch, one election "
        "timeout for a Vote.",
        default=2000,
        unit="ms",
    )
    retry_backoff_ms: int = config_key(
        "controller.quorum.retry.backoff.ms",
        Integer(0),
        "A request is retried after one to two times this.  It is capped at 1/16 of the fetch timeout and 1/8 of the "
        "election timeout.",
        default=20,
        unit="ms",
    )
    fetch_max_bytes: int = config_key(
        "controller.quorum.fetch.max.bytes",
        Integer(1),
        "Maximum size of a follower's Fetch; a single larger batch still comes whole.",
        default=_MEBIBYTE,
        unit="bytes",
    )
    fetch_snapshot_max_bytes: int = config_key(
        "controller.quorum.fetch.snapshot.max.bytes",
        Integer(1),
        "Maximum size of a follower's FetchSnapshot.",
        default=_MEBIBYTE,
        unit="bytes",
    )
    segment_bytes: int = config_key(
        "metadata.log.segment.bytes",
        Integer(1024),
        "Size at which a new log segment begins.",
        default=1024 * _MEBIBYTE,
        unit="bytes",
    )
    segment_ms: int = config_key(
        "metadata.log.segment.ms",
        Integer(1, MAX_INT64),
        "Age at which a new log segment begins.",
        default=7 * 24 * 60 * 60 * 1000,
        unit="ms",
    )
    preallocate_bytes: int = config_key(
        "kraft.log.preallocate.bytes",
        Integer(0, MAX_PREALLOCATE_BYTES),
        "The newest segment's file grows in steps of this, by zeros, which makes fsyncs faster; 0: by what is appended "
        "([why](../explanation/decisions.md#the-active-segment-is-preallocated)).",
        default=DEFAULT_PREALLOCATE_BYTES,
        unit="bytes",
    )
    snapshot_max_new_bytes: int = config_key(
        "metadata.log.max.record.bytes.between.snapshots",
        Integer(1, MAX_INT64),
        "Bytes since the last snapshot at which the next one is taken.",
        default=20 * _MEBIBYTE,
        unit="bytes",
    )
    snapshot_interval_ms: int = config_key(
        "metadata.log.max.snapshot.interval.ms",
        Integer(0, MAX_INT64),
        "Age of the newest snapshot at which the next one is taken, if there are new records; 0: never by age.",
        default=60 * 60 * 1000,
        unit="ms",
    )
    retention_bytes: int = config_key(
        "metadata.max.retention.bytes",
        Integer(-1, MAX_INT64),
        "Total size of log and snapshots above which covered segments are deleted, oldest first; -1: no limit.",
        default=100 * _MEBIBYTE,
        unit="bytes",
    )
    retention_ms: int = config_key(
        "metadata.max.retention.ms",
        Integer(-1, MAX_INT64),
        "Age of the oldest snapshot, since this node wrote or fetched it, above which the oldest segment it covers is "
        "deleted; -1: no limit.",
        default=7 * 24 * 60 * 60 * 1000,
        unit="ms",
    )
    state_machine: str = config_key(
        "kraft.state.machine",
        values.STATE_MACHINE,
        "State machine of `kraft server`, the same on all nodes; `none` keeps the whole log.  `latest-by-key` keeps "
        "the newest record of each key, unless its value is null, and all records without a key.  `kv` is the "
        "key-value store, and `module:factory` your own.",
        default=values.NO_STATE_MACHINE,
    )
    skipped_offsets: tuple[int, ...] = config_key(
        "kraft.state.machine.skip.offsets",
        values.OFFSETS,
        "Offsets of records that stop the state machine, because it cannot decode them, and that it passes over "
        "instead.  The same on all nodes.",
        default=(),
    )
    kv_listener: tuple[NamedListener, ...] = config_key(
        "kraft.kv.listener",
        values.HTTP_LISTENER,
        "Address on which this node serves the key-value store; needs `kraft.state.machine=kv`.",
        default=(),
    )
    kv_advertised_listener: tuple[NamedListener, ...] = config_key(
        "kraft.kv.advertised.listener",
        values.ADVERTISED_HTTP_LISTENER,
        "Address that the store's clients learn; by default `kraft.kv.listener`.",
        default=(),
    )
    kv_keep_revisions: int = config_key(
        "kraft.kv.keep.revisions",
        Integer(0, MAX_INT64),
        "Newest revisions that the leader keeps when it compacts, once a minute; 0: no compaction.",
        default=10_000,
    )
    kv_quota_bytes: int = config_key(
        "kraft.kv.quota.bytes",
        Integer(0, MAX_INT64),
        "Size of the key-value store above which it takes no more keys. That of the leader counts; 0: none.",
        default=2 * 1024 * 1024 * 1024,
        unit="bytes",
    )
    failed_authentication_delay_ms: int = config_key(
        "connection.failed.authentication.delay.ms",
        Integer(0, 60_000),
        "Delay of the answer to a failed SASL authentication.",
        default=100,
        unit="ms",
    )
    connections_max_reauth_ms: int = config_key(
        "connections.max.reauth.ms",
        Integer(0, MAX_INT64),
        "Time after which a client must authenticate again with SASL; 0: never.",
        default=0,
        unit="ms",
    )
    scram_credentials_file: str = config_key(
        "kraft.scram.credentials.file",
        Text("the path of a file", str),
        "The users of SCRAM, with mode 0600; by default `scram-credentials` in `metadata.log.dir`.",
        default="",
    )
    auto_join: bool = config_key(
        "controller.quorum.auto.join.enable",
        Truth(),
        "Whether a controller outside the voter set adds itself to it (KIP-853).",
        default=False,
    )
    voter_gossip: bool = config_key(
        "kraft.voter.gossip.enable",
        Truth(),
        "Whether nodes without a leader gossip where the voters listen (KIP-642).",
        default=True,
    )
    read_lease_max_clock_drift_ppm: int = config_key(
        "kraft.read.lease.max.clock.drift.ppm",
        Integer(-1, 500_000),
        "Maximum drift of any voter's clock, set on all voters, for read leases; -1: no leases.  With leases, a new "
        "leader commits nothing for half of its election timeout.",
        default=-1,
        unit="ppm",
    )
    shutdown_grace_ms: int = config_key(
        "kraft.shutdown.grace.ms",
        Integer(0),
        "Time limit for a stopping leader to hand over.",
        default=5000,
        unit="ms",
    )
    metrics_interval_ms: int = config_key(
        "kraft.metrics.interval.ms",
        Integer(0),
        "Interval at which the node writes `metrics.prom`; 0: never.",
        default=1000,
        unit="ms",
    )
    http_listener: tuple[NamedListener, ...] = config_key(
        "kraft.http.listener",
        values.STATUS_LISTENER,
        "Address on which this node serves metrics, health and its view of the quorum "
        "([HTTP](docs/how-to/secure.md#http)).",
        default=(),
    )
    http_hosts: tuple[str, ...] = config_key(
        "kraft.http.hosts",
        values.HOST_NAMES,
        "Further host names, without ports, by which browsers may know `kraft.http.listener` and `kraft.kv.listener` "
        "([why](docs/reference/security.md#browsers)).",
        default=(),
    )
    http_users_file: str = config_key(
        "kraft.http.users.file",
        Text("the path of a file", str),
        "Users that `kraft.http.listener` asks for, in a file as of `kraft.scram.credentials.file`; by default nobody.",
        default="",
    )
    authorizer: str = config_key(
        "authorizer.class.name",
        values.AUTHORIZER,
        "With this authorizer, a node serves only what its rules allow ([rules](docs/reference/security.md#rules)).",
        default="",
    )
    super_users: tuple[str, ...] = config_key(
        "super.users", values.SUPER_USERS, "Principals that may do everything.", default=()
    )
    allows_everyone_without_acl: bool = config_key(
        "allow.everyone.if.no.acl.found",
        Truth(),
        "Whether everybody may do everything with a resource that no rule is about.",
        default=False,
    )
    acl_file: str = config_key(
        "kraft.acl.file",
        values.ACL_FILE,
        "The rules of the authorizer ([rules](docs/reference/security.md#rules)); read again when it changes.",
        default="",
    )
    topic_name: str = config_key(
        "kraft.topic.name", values.TOPIC_NAME, "The name of the only topic.", default="__cluster_metadata"
    )
    topic_id: UUID = config_key("kraft.topic.id", values.TOPIC_ID, "The id of the only topic.", default=UUID(int=1))
    witness: bool = config_key(
        "kraft.witness",
        Truth(),
        "Whether this voter leads only if the logs leave nobody else, and then hands over at once "
        "([witness](docs/how-to/witness.md)).",
        default=False,
    )
    kafka_records: str = config_key(
        "kraft.kafka.records",
        values.KAFKA_RECORDS,
        "`readable`: the leader takes the records that replicas of Apache Kafka "
        "[can read](docs/reference/kafka.md#records-that-kafka-can-read).  `auto`: it refuses the others once it knows "
        "such a replica, and on `__cluster_metadata` all.  `any`: it refuses none.",
        default=AUTOMATIC,
    )
    unsafe_kafka_directory: bool = config_key(
        "kraft.unsafe.kafka.directory",
        Truth(),
        "Whether a node that is no witness may start with the file or the directory of a controller or broker of "
        "Apache Kafka ([why not](docs/reference/kafka.md#their-files-and-directories)).",
        default=False,
    )


_LIMITS = {field.name for field in attrs.fields(LimitFields)}
_FIELDS: list[attrs.Attribute[Any]] = [
    *(field for field in attrs.fields(ConfigFields) if field.name not in _LIMITS),
    *attrs.fields(LimitFields),
]

KEY_OF_FIELD: Mapping[str, Key] = {field.name: field.metadata[KEY] for field in _FIELDS}
"""The key of each field of `ConfigFields`, limits last."""

KEYS: tuple[tuple[Key, str | None], ...] = tuple(
    (field.metadata[KEY], None if field.default is attrs.NOTHING else field.metadata[KEY].kind.format(field.default))
    for field in _FIELDS
)
"""Each key with the text of its default, or with None if the key must be set."""
