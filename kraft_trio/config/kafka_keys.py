"""Apache Kafka's configuration keys that kraft does not use.

They often occur in files written for Kafka.  Saying that such a key has no effect helps more than guessing at a typo.
"""

from __future__ import annotations

from collections.abc import Mapping

_NAME_LIST = """
    advertised.host.name advertised.port auto.create.topics.enable auto.include.jmx.reporter
    auto.leader.rebalance.enable background.threads broker.heartbeat.interval.ms broker.id
    broker.id.generation.enable broker.rack broker.session.timeout.ms client.quota.callback.class compression.type
    connections.max.idle.ms connections.max.reauth.ms
    controlled.shutdown.enable controlled.shutdown.max.retries
    controller.quota.window.num controller.quota.window.size.seconds controller.socket.timeout.ms
    create.topic.policy.class.name default.replication.factor delete.topic.enable early.start.listeners
    fetch.max.bytes initial.broker.registration.timeout.ms inter.broker.listener.name inter.broker.protocol.version
    kafka.metrics.reporters leader.imbalance.check.interval.seconds max.connection.creation.rate
    max.connections.per.ip max.connections.per.ip.overrides max.incremental.fetch.session.cache.slots
    metadata.log.segment.min.bytes metadata.max.idle.interval.ms metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms min.insync.replicas node.id.generation.enable
    num.io.threads num.network.threads num.partitions num.recovery.threads.per.data.dir num.replica.fetchers
    offset.metadata.max.bytes password.encoder.secret principal.builder.class queued.max.request.bytes
    queued.max.requests request.timeout.ms security.inter.broker.protocol security.providers
    server.max.startup.time.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    socket.listen.backlog.size socket.receive.buffer.bytes socket.send.buffer.bytes
    unclean.leader.election.enable unstable.api.versions.enable unstable.feature.versions.enable
    zookeeper.connect zookeeper.connection.timeout.ms zookeeper.metadata.migration.enable
"""
_NAMES = frozenset(_NAME_LIST.split())
_PREFIXES = (
    "alter.",
    "confluent.",
    "delegation.token.",
    "fetch.purgatory.",
    "group.",
    "leader.imbalance.",
    "listener.name.",
    "log.cleaner.",
    "log.flush.",
    "log.index.",
    "log.message.",
    "log.retention.",
    "log.roll.",
    "log.segment.",
    "log.cleanup.policy",
    "log.preallocate",
    "log.local.",
    "offsets.",
    "producer.id.",
    "producer.purgatory.",
    "quota.",
    "remote.log.",
    "replica.",
    "sasl.",
    "share.coordinator.",
    "ssl.",
    "telemetry.",
    "transaction.",
    "transactional.",
    "zookeeper.",
)


def is_kafka_key(name: str) -> bool:
    """Whether Kafka has a key of that name that kraft does not use."""
    return name in _NAMES or name.startswith(_PREFIXES)


_TOPIC_AND_BROKER_NAME_LIST = """
    alter.config.policy.class.name auto.create.topics.enable auto.leader.rebalance.enable broker.heartbeat.interval.ms
    broker.id broker.id.generation.enable broker.rack broker.session.timeout.ms controlled.shutdown.enable
    create.topic.policy.class.name default.replication.factor delete.topic.enable
    initial.broker.registration.timeout.ms inter.broker.listener.name inter.broker.protocol.version
    log.cleanup.policy log.preallocate min.insync.replicas num.partitions num.recovery.threads.per.data.dir
    num.replica.fetchers offset.metadata.max.bytes security.inter.broker.protocol unclean.leader.election.enable
"""
_OF_TOPICS_AND_BROKERS = frozenset(_TOPIC_AND_BROKER_NAME_LIST.split())
_PREFIXES_OF_TOPICS_AND_BROKERS = (
    "group.",
    "leader.imbalance.",
    "log.cleaner.",
    "log.flush.",
    "log.index.",
    "log.message.",
    "log.retention.",
    "log.roll.",
    "log.segment.",
    "offsets.",
    "remote.log.",
    "replica.",
    "share.coordinator.",
    "transaction.",
    "transactional.",
)


def keys_of_kafkas_file(properties: Mapping[str, object]) -> tuple[str, ...]:
    """The keys that make this the file of a controller or broker of Kafka, not of a node of kraft-trio; else empty.

    They are about brokers and topics, which kraft-trio does not have.  A file with a key of kraft-trio's own is for it.
    """
    if any(name.startswith("kraft.") for name in properties):
        return ()
    roles = {role.strip() for role in str(properties.get("process.roles", "")).split(",")}
    both = ("process.roles",) if {"broker", "controller"} <= roles else ()
    return (*both, *(name for name in properties if _is_of_topics_or_brokers(name)))


def _is_of_topics_or_brokers(name: str) -> bool:
    return name in _OF_TOPICS_AND_BROKERS or name.startswith(_PREFIXES_OF_TOPICS_AND_BROKERS)


_SECURITY_NAMES = frozenset(
    {
        "password.encoder.secret",
        "principal.builder.class",
        "security.inter.broker.protocol",
        "security.providers",
    }
)
_SECURITY_PREFIXES = ("sasl.", "ssl.", "delegation.token.")
_OF_A_LISTENER = "listener.name."

HARMLESS_SECURITY = frozenset({("security.inter.broker.protocol", "PLAINTEXT")})
"""Security keys with the values (in capitals) that ask for nothing beyond what kraft does."""


def is_security_key(name: str) -> bool:
    """Whether Kafka's key asks for authentication, authorization or encryption, on all listeners or on one."""
    if name.startswith(_OF_A_LISTENER):
        # The listener's name has one part or more.  It may be `ssl`, too.
        rest = name.removeprefix(_OF_A_LISTENER).partition(".")[2]
        return any(f".{prefix}" in f".{rest}" for prefix in _SECURITY_PREFIXES) or rest.endswith(tuple(_SECURITY_NAMES))
    return name in _SECURITY_NAMES or name.startswith(_SECURITY_PREFIXES) or ".sasl." in name
