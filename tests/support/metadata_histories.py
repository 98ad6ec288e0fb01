"""Random histories of a cluster's metadata, as Apache Kafka's controllers could write them."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping
from typing import Any, Final
from uuid import UUID

import attrs

from kraft_trio.wire import metadata_schemas as schemas
from kraft_trio.wire.metadata_schemas import SCHEMAS
from kraft_trio.wire.schema_writer import message_writer

NAMES: Final = ("orders", "payments", "clicks", "audit")
"""Few, so that topics are made again under the name of one that was deleted."""
_KEYS: Final = {schema.record: key for key, schema in SCHEMAS.items()}


def framed(record: Any, version: int | None = None) -> bytes:
    """A record as it is in the log; of the newest version, unless another is given."""
    key = _KEYS[type(record)]
    schema = SCHEMAS[key]
    version = schema.max_version if version is None else version
    chunks: list[bytes] = []
    message_writer(schema.structure(version), schema.name)(chunks, record)
    return bytes([1, key, version]) + b"".join(chunks)


@attrs.define
class _Known:
    """What exists, as far as it decides which records are possible."""

    brokers: dict[int, int] = attrs.field(factory=dict)
    """Epochs by id."""
    controllers: set[int] = attrs.field(factory=set)
    topics: dict[UUID, tuple[str, dict[int, tuple[int, ...]]]] = attrs.field(factory=dict)
    """Name, and replicas by partition."""
    acls: list[UUID] = attrs.field(factory=list)


class RandomHistory:
    """Makes one record after another.  The same seed makes the same ones."""

    def __init__(self, seed: int, versions: Mapping[int, int] | None = None) -> None:
        """`versions` has the newest version that the reader knows by API key; without it, the reader knows ours."""
        self.source = random.Random(seed)
        self.known = _Known()
        self.versions = versions or {key: schema.max_version for key, schema in SCHEMAS.items()}
        self._serial = 0

    def records(self, count: int, *, with_transactions: bool = True) -> list[Any]:
        """So many records and a few more, because no transaction stays open."""
        made: list[Any] = [schemas.FeatureLevelRecord("metadata.version", 25)]
        while len(made) < count:
            if with_transactions and self.source.random() < 0.03:
                made += self._transaction()
            else:
                made.append(self.record())
        return made

    def framed(self, count: int) -> list[bytes]:
        """`records` in random versions."""
        return [framed(one, self.source.randint(0, self.versions[_KEYS[type(one)]])) for one in self.records(count)]

    def record(self) -> Any:
        while True:
            made = self.source.choice(self._MAKERS)(self)
            if made is not None and _KEYS[type(made)] in self.versions:
                return made

    def _transaction(self) -> Iterator[Any]:
        before = copy.deepcopy(self.known)
        yield schemas.BeginTransactionRecord(self.source.choice((None, "Create partitions")))
        for _ in range(self.source.randrange(8)):
            yield self.record()
        if self.source.random() < 0.5:
            yield schemas.EndTransactionRecord()
        else:
            self.known = before
            yield schemas.AbortTransactionRecord(self.source.choice((None, "controller failed over")))

    # Brokers and controllers

    def _register_broker(self) -> Any:
        id = self.source.randrange(1, 7)
        self.known.brokers[id] = epoch = self._number()
        return schemas.RegisterBrokerRecord(
            broker_id=id,
            is_migrating_zk_broker=False,
            incarnation_id=self._uuid(),
            broker_epoch=epoch,
            end_points=self._endpoints(),
            features=self._features(),
            rack=self.source.choice((None, "a", "b")),
            fenced=self._coin(),
            in_controlled_shutdown=self._coin(),
            log_dirs=tuple(self._uuid() for _ in range(self.source.randrange(3))),
        )

    def _unregister_broker(self) -> Any:
        if not self.known.brokers or self.source.random() < 0.7:
            return None
        id = self.source.choice(list(self.known.brokers))
        return schemas.UnregisterBrokerRecord(id, self.known.brokers.pop(id))

    def _broker(self) -> tuple[int, int] | None:
        """A broker and its epoch; now and then an epoch that it does not have."""
        if not self.known.brokers:
            return None
        id = self.source.choice(list(self.known.brokers))
        return id, self.known.brokers[id] + (self.source.random() < 0.05)

    def _fence(self) -> Any:
        broker = self._broker()
        return None if broker is None else schemas.FenceBrokerRecord(*broker)

    def _unfence(self) -> Any:
        broker = self._broker()
        return None if broker is None else schemas.UnfenceBrokerRecord(*broker)

    def _change_broker(self) -> Any:
        broker = self._broker()
        if broker is None:
            return None
        return schemas.BrokerRegistrationChangeRecord(
            *broker,
            fenced=self.source.choice((-1, 0, 1)),
            in_controlled_shutdown=self.source.choice((0, 1)),
            log_dirs=tuple(self._uuid() for _ in range(self.source.randrange(3))),
        )

    def _register_controller(self) -> Any:
        id = self.source.randrange(1000, 1004)
        self.known.controllers.add(id)
        return schemas.RegisterControllerRecord(id, self._uuid(), False, self._endpoints(), self._features())

    def _unregister_controller(self) -> Any:
        if not self.known.controllers:
            return None
        return schemas.UnregisterControllerRecord(self.known.controllers.pop())

    # Topics

    def _make_topic(self) -> Any:
        name = self.source.choice(NAMES)
        if any(name == one for one, _ in self.known.topics.values()):
            return None
        id = self._uuid()
        self.known.topics[id] = name, {}
        return schemas.TopicRecord(name, id)

    def _remove_topic(self) -> Any:
        if not self.known.topics or self.source.random() < 0.8:
            return None
        id = self.source.choice(list(self.known.topics))
        del self.known.topics[id]
        return schemas.RemoveTopicRecord(id)

    def _make_partition(self) -> Any:
        if not self.known.topics:
            return None
        id = self.source.choice(list(self.known.topics))
        partitions = self.known.topics[id][1]
        number = len(partitions)
        partitions[number] = replicas = self._ids()
        return schemas.PartitionRecord(
            partition_id=number,
            topic_id=id,
            replicas=replicas,
            isr=replicas,
            removing_replicas=(),
            adding_replicas=(),
            leader=replicas[0],
            leader_epoch=self.source.randrange(3),
            partition_epoch=self.source.randrange(3),
            directories=tuple(self._directory() for _ in replicas) if self._coin() else (),
            leader_recovery_state=self.source.randrange(2),
            eligible_leader_replicas=self._ids_or_null(),
            last_known_elr=self._ids_or_null(),
        )

    def _change_partition(self) -> Any:
        partitions = [(id, number) for id, (_, numbers) in self.known.topics.items() for number in numbers]
        if not partitions:
            return None
        id, number = self.source.choice(partitions)
        if self.source.random() < 0.02:
            number += 100
        replicas = self.known.topics[id][1].get(number, (1,))
        is_moved = self.source.random() < 0.3 and number in self.known.topics[id][1]
        if is_moved:
            self.known.topics[id][1][number] = replicas = self._ids()
        told = is_moved or self._coin()
        return schemas.PartitionChangeRecord(
            partition_id=number,
            topic_id=id,
            isr=self._ids_or_null(),
            leader=self.source.choice((-2, -1, *replicas)),
            replicas=replicas if is_moved else None,
            removing_replicas=self._ids_or_null(),
            adding_replicas=self._ids_or_null(),
            leader_recovery_state=self.source.choice((-1, 0, 1)),
            directories=tuple(self._directory() for _ in replicas) if told else None,
            eligible_leader_replicas=self._ids_or_null(),
            last_known_elr=self._ids_or_null(),
        )

    def _clear_elr(self) -> Any:
        if self.source.random() < 0.7:
            return None
        name = self.source.choice(("", *(name for name, _ in self.known.topics.values())))
        return schemas.ClearElrRecord(name)

    # Settings and security

    def _config(self) -> Any:
        kind = self.source.choice((2, 4, 16, 32))
        resource = self.source.choice(NAMES) if kind == 2 else self.source.choice(("", "1", "2"))
        value = self.source.choice((None, "1", "60000", "ä"))
        return schemas.ConfigRecord(kind, resource, self.source.choice(("retention.ms", "cleanup.policy")), value)

    def _feature(self) -> Any:
        name = self.source.choice(("group.version", "transaction.version"))
        return schemas.FeatureLevelRecord(name, self.source.randrange(3))

    def _quota(self) -> Any:
        parts = self.source.sample(("user", "client-id"), self.source.randint(1, 2))
        entity = tuple(schemas.QuotaEntity(part, self.source.choice((None, "a", "b"))) for part in parts)
        key = self.source.choice(("producer_byte_rate", "request_percentage"))
        return schemas.ClientQuotaRecord(entity, key, self.source.random() * 1000, self.source.random() < 0.3)

    def _producer_ids(self) -> Any:
        return schemas.ProducerIdsRecord(self.source.randrange(1, 7), self._number(), self._number() * 1000)

    def _acl(self) -> Any:
        id = self._uuid()
        self.known.acls.append(id)
        return schemas.AccessControlEntryRecord(
            id, 2, self.source.choice(NAMES), self.source.choice((3, 4)), f"User:{self._number()}", "*", 3, 3
        )

    def _remove_acl(self) -> Any:
        if self.source.random() < 0.03:
            return schemas.RemoveAccessControlEntryRecord(self._uuid())
        if not self.known.acls:
            return None
        return schemas.RemoveAccessControlEntryRecord(self.known.acls.pop(self.source.randrange(len(self.known.acls))))

    def _scram(self) -> Any:
        name, mechanism = self.source.choice(("alice", "bob")), self.source.choice((1, 2))
        if self.source.random() < 0.3:
            return schemas.RemoveUserScramCredentialRecord(name, mechanism)
        secrets = (self.source.randbytes(8) for _ in range(3))
        return schemas.UserScramCredentialRecord(name, mechanism, *secrets, iterations=4096)

    def _token(self) -> Any:
        id = self.source.choice(("t1", "t2", "t3"))
        if self.source.random() < 0.3:
            return schemas.RemoveDelegationTokenRecord(id)
        return schemas.DelegationTokenRecord("User:alice", "User:bob", ("User:carol",), 1000, 3000, 2000, id)

    def _no_op(self) -> Any:
        return schemas.NoOpRecord()

    _MAKERS = (
        _register_broker,
        _unregister_broker,
        _fence,
        _unfence,
        _change_broker,
        _register_controller,
        _unregister_controller,
        _make_topic,
        _remove_topic,
        *(_make_partition,) * 3,
        *(_change_partition,) * 6,
        _clear_elr,
        *(_config,) * 2,
        _feature,
        _quota,
        _producer_ids,
        _acl,
        _remove_acl,
        _scram,
        _token,
        _no_op,
    )

    # Values

    def _coin(self) -> bool:
        return self.source.random() < 0.5

    def _number(self) -> int:
        self._serial += 1
        return self._serial

    def _uuid(self) -> UUID:
        return UUID(int=self.source.getrandbits(128))

    def _directory(self) -> UUID:
        """A directory, or one of the ids that mean migrating, unassigned and lost."""
        return self.source.choice((*(UUID(int=id) for id in range(3)), self._uuid()))

    def _ids(self) -> tuple[int, ...]:
        return tuple(self.source.sample(range(1, 7), self.source.randint(1, 3)))

    def _ids_or_null(self) -> tuple[int, ...] | None:
        return self.source.choice((None, (), self._ids()))

    def _endpoints(self) -> tuple[schemas.RegisteredEndpoint, ...]:
        names = self.source.sample(("PLAINTEXT", "SSL", "INTERNAL"), self.source.randint(1, 3))
        return tuple(schemas.RegisteredEndpoint(name, "localhost", 9092 + at, 0) for at, name in enumerate(names))

    def _features(self) -> tuple[schemas.RegisteredFeature, ...]:
        return tuple(
            schemas.RegisteredFeature(name, 0, self.source.randrange(1, 4))
            for name in self.source.sample(("metadata.version", "group.version"), self.source.randrange(3))
        )
