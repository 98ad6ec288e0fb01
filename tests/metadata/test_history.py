"""What metadata records change.  `tests/interop/test_kafka_metadata_image.py` compares with Kafka's own image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import attrs
import pytest

from kraft_trio.metadata.columns import HIDDEN
from kraft_trio.metadata.entities import ENTITIES
from kraft_trio.metadata.history import History, Made, Origin, Problem
from kraft_trio.metadata.image import Change, Image
from kraft_trio.metadata.replay import _RULES, MIGRATING
from kraft_trio.wire import metadata_schemas as schemas
from tests.support.metadata_histories import RandomHistory, framed

ORDERS = UUID(int=1 << 100)


def applied(*records: Any) -> tuple[Image, list[Made | Problem]]:
    history = History()
    results = [one for at, record in enumerate(records) for one in history.add(Origin(at, 1, None), framed(record))]
    return history.image, results


def problems(*records: Any) -> list[tuple[int, str]]:
    return [(one.origin.offset, one.reason) for one in applied(*records)[1] if isinstance(one, Problem)]


def label(change: Change) -> str:
    entity = ENTITIES[change.entity]
    return entity.label(entity.values(change.after or change.before, change.topic))


def partition(number: int = 0, replicas: Sequence[int] = (1, 2), **others: Any) -> schemas.PartitionRecord:
    return schemas.PartitionRecord(
        **{
            "partition_id": number,
            "topic_id": ORDERS,
            "replicas": tuple(replicas),
            "isr": tuple(replicas),
            "removing_replicas": (),
            "adding_replicas": (),
            "leader": replicas[0],
            "leader_epoch": 3,
            "partition_epoch": 5,
            "directories": (),
            **others,
        }
    )


def changed(number: int = 0, **told: Any) -> schemas.PartitionChangeRecord:
    return schemas.PartitionChangeRecord(partition_id=number, topic_id=ORDERS, **told)


def broker(**others: Any) -> schemas.RegisterBrokerRecord:
    values = {"fenced": True, "in_controlled_shutdown": False, **others}
    return schemas.RegisterBrokerRecord(
        **{
            "broker_id": 1,
            "is_migrating_zk_broker": False,
            "incarnation_id": UUID(int=9),
            "broker_epoch": 7,
            "end_points": (),
            "features": (),
            "rack": None,
            **values,
        }
    )


TOPIC = schemas.TopicRecord("orders", ORDERS)


def test_each_record_of_the_schemas_has_a_rule() -> None:
    assert _RULES.keys() == {schema.record for schema in schemas.SCHEMAS.values()}


@pytest.mark.parametrize("seed", range(5))
def test_the_changes_lead_to_the_image(seed: int) -> None:
    history = History()
    known: dict[tuple[str, str], Any] = {}
    source = RandomHistory(seed)
    for at, value in enumerate(source.framed(2000)):
        for result in history.add(Origin(at, 1, None), value):
            for change in result.changes if isinstance(result, Made) else ():
                place = change.entity, label(change)
                assert known.pop(place, None) == change.before != change.after
                if change.after is not None:
                    known[place] = change.after
    exist = [record for entity in ENTITIES for record in history.image.things(entity)]
    assert sorted(map(repr, exist)) == sorted(map(repr, known.values()))


@pytest.mark.parametrize("seed", range(5))
def test_a_snapshot_of_the_image_gives_the_same_image(seed: int) -> None:
    history = History()
    for at, value in enumerate(RandomHistory(seed).framed(2000)):
        list(history.add(Origin(at, 1, None), value))
    exist = [record for entity in ENTITIES for record in history.image.things(entity)]
    again, results = applied(*exist)
    assert not [one for one in results if isinstance(one, Problem)]
    for entity in ENTITIES.values():
        assert sorted(map(repr, entity.rows(again))) == sorted(map(repr, entity.rows(history.image)))


def test_records_of_a_transaction_count_when_it_has_ended() -> None:
    begin, end = schemas.BeginTransactionRecord("x"), schemas.EndTransactionRecord()
    image, results = applied(begin, TOPIC, partition())
    assert not image.tables
    assert results == []
    image, results = applied(begin, TOPIC, partition(), end)
    assert [one["topic"] for one in ENTITIES["partitions"].rows(image)] == ["orders"]
    assert [one.origin.offset for one in results] == [1, 2]
    image, results = applied(begin, TOPIC, partition(), schemas.AbortTransactionRecord())
    assert not image.tables
    assert results == []


def test_a_partition_change_keeps_what_it_does_not_tell() -> None:
    image, results = applied(TOPIC, partition(), changed(isr=(1,)), changed(leader=2, isr=(2,)), changed(leader=-1))
    [row] = ENTITIES["partitions"].rows(image)
    assert (row["leader"], row["leader_epoch"], row["partition_epoch"], row["isr"]) == (-1, 5, 8, [2])
    assert row["replicas"] == [1, 2]
    shrunk = results[2]
    assert isinstance(shrunk, Made)
    [change] = shrunk.changes
    assert (label(change), change.before.isr, change.after.isr) == ("orders-0", (1, 2), (1,))


def test_replicas_without_a_directory_are_migrating() -> None:
    told = (UUID(int=50), UUID(int=51))
    image, _ = applied(TOPIC, partition(), changed(replicas=(1, 2, 3)))
    assert [one.directories for one in image.things("partitions")] == [(MIGRATING,) * 3]
    assert problems(TOPIC, partition(directories=told), changed(replicas=(1, 2, 3))) == [
        (2, "partition orders-0: 2 directories for 3 replicas")
    ]


def test_a_topic_goes_with_its_partitions_and_configuration() -> None:
    config = schemas.ConfigRecord(2, "orders", "retention.ms", "1")
    other = schemas.ConfigRecord(4, "orders", "x", "1")
    image, results = applied(TOPIC, config, other, partition(0), partition(1), schemas.RemoveTopicRecord(ORDERS))
    assert [one.name for one in image.things("configs")] == ["x"]
    assert not list(image.things("partitions"))
    removed = results[-1]
    assert isinstance(removed, Made)
    assert [label(change) for change in removed.changes] == [
        *("orders-0", "orders-1", "orders", "TOPIC:orders:retention.ms")
    ]


def test_a_new_topic_has_the_name_of_a_deleted_one() -> None:
    again = schemas.TopicRecord("orders", UUID(int=77))
    image, _ = applied(TOPIC, partition(), schemas.RemoveTopicRecord(ORDERS), again)
    assert list(ENTITIES["topics"].rows(image)) == [{"name": "orders", "topic_id": "AAAAAAAAAAAAAAAAAAAATQ"}]
    assert not list(image.things("partitions"))


def test_a_broker_is_fenced_changed_and_unregistered() -> None:
    fence, unfence = schemas.FenceBrokerRecord(1, 7), schemas.UnfenceBrokerRecord(1, 7)
    stopping = schemas.BrokerRegistrationChangeRecord(1, 7, fenced=0, in_controlled_shutdown=1, log_dirs=(UUID(int=3),))
    image, results = applied(broker(), unfence, stopping, fence, fence)
    [row] = ENTITIES["brokers"].rows(image)
    assert (row["fenced"], row["in_controlled_shutdown"], row["log_dirs"]) == (True, True, ["AAAAAAAAAAAAAAAAAAAAAw"])
    assert len(results) == 4, "the second fencing changes nothing"
    image, _ = applied(broker(), schemas.UnregisterBrokerRecord(1, 7))
    assert not list(image.things("brokers"))


REFUSED: list[tuple[str, list[Any], str]] = [
    ("no topic to remove", [schemas.RemoveTopicRecord(ORDERS)], "RemoveTopicRecord: there is no topic with the id"),
    ("no topic", [partition()], "PartitionRecord: partition 0: there is no topic with the id"),
    ("no partition", [TOPIC, changed(4)], "PartitionChangeRecord: the topic orders has no partition 4"),
    ("no broker", [schemas.FenceBrokerRecord(1, 7)], "FenceBrokerRecord: broker 1 is not registered"),
    (
        "wrong epoch",
        [broker(), schemas.UnfenceBrokerRecord(1, 8)],
        "UnfenceBrokerRecord: broker 1 has the epoch 7, not 8",
    ),
    (
        "unknown fencing",
        [broker(), schemas.BrokerRegistrationChangeRecord(1, 7, fenced=5)],
        "BrokerRegistrationChangeRecord: fenced 5, expected -1, 0, 1",
    ),
    ("no entry", [schemas.RemoveAccessControlEntryRecord(UUID(int=4))], "there is no entry with the id"),
    ("no topic to clear", [schemas.ClearElrRecord("orders")], "ClearElrRecord: there is no topic orders"),
]


@pytest.mark.parametrize(("records", "reason"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_record_about_something_unknown_is_a_problem(records: list[Any], reason: str) -> None:
    [(offset, said)] = problems(*records)
    assert offset == len(records) - 1
    assert reason in said
    before, _ = applied(*records[:-1])
    after, _ = applied(*records)
    assert after == before


def test_what_kafka_does_not_keep_makes_no_difference() -> None:
    """Nodes write it into snapshots in any order, or not at all."""
    versions = [schemas.RegisteredFeature(name, 0, 1) for name in ("metadata.version", "group.version")]
    listeners = [schemas.RegisteredEndpoint(name, "host", 9092, 0) for name in ("SSL", "CLIENTS")]
    directories = [UUID(int=1 << 90), UUID(int=1 << 80)]
    user, client = schemas.QuotaEntity("user", "web"), schemas.QuotaEntity("client-id", "web")

    def written(order: int) -> tuple[Any, ...]:
        def some(values: list[Any]) -> tuple[Any, ...]:
            return tuple(values[::order])

        node = {"end_points": some(listeners), "features": some(versions)}
        return (
            broker(**node, log_dirs=some(directories)),
            schemas.RegisterControllerRecord(3, UUID(int=9), False, **node),
            schemas.ClientQuotaRecord(some([user, client]), "producer_byte_rate", 5.0, False),
            schemas.ProducerIdsRecord(order, order, 1000),
        )

    image, _ = applied(*written(1))
    assert applied(*written(-1))[0] == image
    assert [len(one.changes) for one in applied(*written(1), *written(-1))[1] if isinstance(one, Made)] == [1] * 4
    assert [*ENTITIES["producer_ids"].rows(image)] == [{"next_producer_id": 1000}]


def test_a_value_that_is_no_record_is_a_problem() -> None:
    history = History()
    results = [one for value in (None, b"", b"x", b"\1\2\0") for one in history.add(Origin(0, 1, None), value)]
    assert [type(one) for one in results] == [Problem] * 4
    assert not history.image.tables


def test_secrets_are_in_no_column() -> None:
    secret = b"pepper"
    credential = schemas.UserScramCredentialRecord("alice", 1, secret, secret, secret, 4096)
    configs = [
        schemas.ConfigRecord(4, "1", name, "pepper")
        for name in (
            "ssl.key.password",
            "listener.name.internal.ssl.keystore.key",
            "listener.name.sasl_ssl.plain.sasl.jaas.config",
            "ssl.truststore.certificates",
        )
    ]
    image, _ = applied(credential, *configs, schemas.ConfigRecord(4, "1", "log.cleaner.threads", "2"))
    assert list(ENTITIES["scram"].rows(image)) == [{"name": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 4096}]
    shown = [row["value"] for row in ENTITIES["configs"].rows(image)]
    assert shown == [HIDDEN] * 4 + ["2"]


def test_rows_have_names_for_numbers() -> None:
    acl = schemas.AccessControlEntryRecord(UUID(int=5), 2, "orders", 3, "User:alice", "*", 15, 3)
    image, _ = applied(acl, attrs.evolve(acl, id=UUID(int=6), operation=99))
    rows = list(ENTITIES["acls"].rows(image))
    assert [row["operation"] for row in rows] == ["TWO_PHASE_COMMIT", "99"]
    assert (rows[0]["resource_type"], rows[0]["pattern_type"], rows[0]["permission_type"]) == (
        "TOPIC",
        "LITERAL",
        "ALLOW",
    )


def test_a_marker_that_contradicts_the_transaction_is_refused_and_changes_nothing() -> None:
    """Kafka's nodes keep what was pending, and report a fault."""
    begin, end, abort = (
        schemas.BeginTransactionRecord("x"),
        schemas.EndTransactionRecord(),
        schemas.AbortTransactionRecord(""),
    )
    image, results = applied(begin, TOPIC, begin, partition(), end)
    assert [type(one) for one in results] == [Problem, Made, Made]
    assert [one["topic"] for one in ENTITIES["partitions"].rows(image)] == ["orders"]
    assert problems(begin, TOPIC, begin) == [(2, "BeginTransactionRecord: the transaction before it has not ended")]
    assert problems(end, begin, abort, abort) == [
        (0, "EndTransactionRecord: no transaction has begun"),
        (3, "AbortTransactionRecord: no transaction has begun"),
    ]
