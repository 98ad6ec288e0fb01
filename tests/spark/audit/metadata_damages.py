"""What two controllers of Kafka's have on their disks, and the ways in which each check of metadata is broken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs

from kraft_trio.metadata.entities import ENTITIES
from kraft_trio.metadata.history import History, Origin
from kraft_trio.wire import metadata_schemas as schemas
from tests.spark.directories import make_node
from tests.support.metadata_histories import framed
from tests.support.metadata_logs import batch_of, elected, log_of, take_snapshot

ORDERS, CLICKS, CLICKS_AGAIN, PAYMENTS = (UUID(int=number << 100) for number in range(1, 5))
TOPIC_CONFIG = 2


def broker(id: int, epoch: int, incarnation: int = 0) -> schemas.RegisterBrokerRecord:
    """A registration; each epoch has an incarnation of its own unless it is given."""
    return schemas.RegisterBrokerRecord(
        broker_id=id,
        is_migrating_zk_broker=False,
        incarnation_id=UUID(int=incarnation or epoch + 1000),
        broker_epoch=epoch,
        end_points=(
            schemas.RegisteredEndpoint("SSL", "localhost", 9093, 1),
            schemas.RegisteredEndpoint("PLAINTEXT", "localhost", 9092, 0),
        ),
        features=(),
        rack=None,
        fenced=True,
        in_controlled_shutdown=False,
        log_dirs=(UUID(int=id + 77), UUID(int=id + 7)),
    )


def fenced(id: int, epoch: int, fencing: int = 1) -> schemas.BrokerRegistrationChangeRecord:
    return schemas.BrokerRegistrationChangeRecord(id, epoch, fenced=fencing, in_controlled_shutdown=0)


def unfenced(id: int, epoch: int) -> schemas.BrokerRegistrationChangeRecord:
    return fenced(id, epoch, -1)


def partition(topic: UUID, leader: int = 1) -> schemas.PartitionRecord:
    return schemas.PartitionRecord(
        partition_id=0,
        topic_id=topic,
        replicas=(1, 2),
        isr=(1, 2),
        removing_replicas=(),
        adding_replicas=(),
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
        directories=(),
    )


def changed(topic: UUID = ORDERS, **told: Any) -> schemas.PartitionChangeRecord:
    return schemas.PartitionChangeRecord(partition_id=0, topic_id=topic, **told)


HISTORY: Sequence[Any] = (
    schemas.FeatureLevelRecord("metadata.version", 25),
    broker(1, 2),
    broker(2, 3),
    unfenced(1, 2),
    unfenced(2, 3),
    schemas.TopicRecord("orders", ORDERS),
    schemas.ConfigRecord(TOPIC_CONFIG, "orders", "retention.ms", "60000"),
    partition(ORDERS),
    schemas.TopicRecord("clicks", CLICKS),
    partition(CLICKS, leader=2),
    schemas.ProducerIdsRecord(1, 2, 1000),
    schemas.ClientQuotaRecord((schemas.QuotaEntity("user", "a"),), "request_percentage", 20.0, False),
    # Broker 2 is lost, and comes back.
    changed(isr=(1,)),
    changed(CLICKS, isr=(1,), leader=1),
    fenced(2, 3),
    schemas.NoOpRecord(),
    # Here ends the snapshot.
    broker(2, 18),
    unfenced(2, 18),
    changed(isr=(1, 2)),
    schemas.BeginTransactionRecord("create payments"),
    schemas.TopicRecord("payments", PAYMENTS),
    partition(PAYMENTS),
    schemas.EndTransactionRecord(),
    schemas.BeginTransactionRecord("create more"),
    schemas.ConfigRecord(TOPIC_CONFIG, "orders", "retention.ms", "1"),
    schemas.AbortTransactionRecord("failed over"),
    schemas.RemoveTopicRecord(CLICKS),
    schemas.TopicRecord("clicks", CLICKS_AGAIN),
    partition(CLICKS_AGAIN),
    changed(CLICKS_AGAIN, leader=2),
    changed(CLICKS_AGAIN, leader=-1, isr=()),
)
"""From offset 1 on; offset 0 elects a leader."""
SNAPSHOT_END = 17


def image_of(records: Sequence[Any]) -> list[Any]:
    """A snapshot of what these give."""
    history = History()
    for at, record in enumerate(records):
        list(history.add(Origin(at, 1, None), framed(record)))
    return [one for entity in ENTITIES for one in history.image.things(entity)]


@attrs.define
class Controllers:
    """Node 1 has the whole log and a snapshot of it; that of node 2 begins with a snapshot."""

    records: list[Any] = attrs.field(factory=lambda: list(HISTORY))
    end: int = SNAPSHOT_END
    """Of node 1's snapshot."""
    of_snapshots: dict[int, list[Any]] = attrs.field(factory=dict)
    """By node, what its snapshot has if that is not what the log gives."""
    appended: dict[int, list[bytes]] = attrs.field(factory=dict)
    """By node, what follows its log."""

    def replace(self, before: Any, *after: Any) -> None:
        at = self.records.index(before)
        self.records[at : at + 1] = after

    def image(self, end: int | None = None) -> list[Any]:
        return image_of(self.records[: (end or self.end) - 1])

    def write(self, folder: Path, cluster: str) -> None:
        values = [framed(one) if not isinstance(one, bytes) else one for one in self.records]
        first, second = log_of(values), log_of(values[SNAPSHOT_END - 1 :], SNAPSHOT_END)
        for node, start, end, log in ((1, 0, self.end, first), (2, SNAPSHOT_END, SNAPSHOT_END, second)):
            whole = log + b"".join(self.appended.get(node, ()))
            directory = make_node(folder / cluster, node, (start, whole), cluster_id=cluster)
            take_snapshot(directory, end, map(framed, self.of_snapshots.get(node) or self.image(end)))


Damage = Callable[[Controllers], object]
DAMAGES: dict[str, tuple[str, frozenset[str], Damage]] = {}
"""By a name of its own, the check that must find it, others that may, and what it does."""
LAWFUL: dict[str, Damage] = {}
"""By name, what makes of a sound history another sound one."""


def breaks(check: str, *others: str) -> Callable[[Damage], Damage]:
    def register(damage: Damage) -> Damage:
        may = frozenset(f"metadata_{other}" for other in others)
        DAMAGES[damage.__name__] = f"metadata_{check}", may, damage
        return damage

    return register


def lawful(change: Damage) -> Damage:
    LAWFUL[change.__name__] = change
    return change


@breaks("leader_in_isr")
def the_isr_loses_its_leader(controllers: Controllers) -> None:
    controllers.records.append(changed(isr=(2,)))


@breaks("isr_within_replicas")
def a_stranger_is_in_the_isr(controllers: Controllers) -> None:
    controllers.records.append(changed(isr=(1, 3)))


@breaks("isr_within_replicas")
def a_replica_goes_and_stays_in_the_isr(controllers: Controllers) -> None:
    controllers.records.append(changed(replicas=(1,)))


@breaks("broker_epochs_grow")
def an_epoch_falls(controllers: Controllers) -> None:
    controllers.records += [broker(2, 5), unfenced(2, 5)]


@breaks("broker_epochs_grow")
def two_incarnations_have_an_epoch(controllers: Controllers) -> None:
    controllers.records.append(broker(2, 18, incarnation=7))


@breaks("broker_epochs_grow")
def an_epoch_falls_while_nobody_is_registered(controllers: Controllers) -> None:
    controllers.records += [schemas.UnregisterBrokerRecord(2, 18), broker(2, 17)]


@breaks("fenced_lead_nothing")
def a_leader_is_fenced(controllers: Controllers) -> None:
    controllers.records.append(fenced(1, 2))


@breaks("fenced_lead_nothing")
def a_leader_is_unregistered(controllers: Controllers) -> None:
    controllers.records.append(schemas.UnregisterBrokerRecord(1, 2))


@breaks("fenced_lead_nothing")
def a_fenced_broker_is_elected(controllers: Controllers) -> None:
    controllers.records += [fenced(2, 18), changed(leader=2)]


@breaks("fenced_lead_nothing")
def a_leader_is_elected_that_is_unknown(controllers: Controllers) -> None:
    controllers.records.append(changed(replicas=(1, 2, 3), isr=(1, 2, 3), leader=3))


@breaks("records_are_applied")
def a_partition_changes_that_is_not_there(controllers: Controllers) -> None:
    controllers.records.append(schemas.PartitionChangeRecord(partition_id=9, topic_id=ORDERS, leader=1))


@breaks("records_are_applied")
def a_topic_has_never_been(controllers: Controllers) -> None:
    controllers.records.append(partition(UUID(int=99 << 100)))


@breaks("records_are_applied")
def another_incarnation_is_fenced(controllers: Controllers) -> None:
    controllers.records.append(fenced(2, 3))


@breaks("partitions_of_deleted_topics")
def a_partition_of_a_deleted_topic_changes(controllers: Controllers) -> None:
    controllers.records.append(changed(CLICKS, isr=(1,)))


@breaks("partitions_of_deleted_topics")
def a_topic_is_deleted_twice(controllers: Controllers) -> None:
    controllers.records.append(schemas.RemoveTopicRecord(CLICKS))


@breaks("is_known")
def a_type_is_unknown(controllers: Controllers) -> None:
    controllers.records.append(bytes([1, 99, 0, 7]))


@breaks("is_known")
def a_record_is_cut(controllers: Controllers) -> None:
    controllers.records.append(framed(schemas.TopicRecord("orders", ORDERS))[:-1])


@breaks("snapshots_within_transactions")
def a_snapshot_ends_within_a_transaction(controllers: Controllers) -> None:
    controllers.end = 22


@breaks("snapshots_within_transactions")
def a_snapshot_ends_within_a_transaction_that_is_aborted(controllers: Controllers) -> None:
    controllers.end = 25


@breaks("snapshots_within_transactions")
def a_snapshot_ends_within_a_transaction_that_never_ends(controllers: Controllers) -> None:
    del controllers.records[22:]
    controllers.end = 22


@breaks("snapshots_are_images")
def a_snapshot_has_lost_a_partition(controllers: Controllers) -> None:
    controllers.end = 16
    image = controllers.image()
    image.remove(next(one for one in image if isinstance(one, schemas.PartitionRecord)))
    controllers.of_snapshots[1] = image


@breaks("snapshots_are_images")
def a_snapshot_has_a_topic_that_was_never_made(controllers: Controllers) -> None:
    controllers.end = 16
    controllers.of_snapshots[1] = [*controllers.image(), schemas.TopicRecord("ghosts", UUID(int=5))]


@breaks("snapshots_are_images")
def a_snapshot_has_applied_an_open_transaction(controllers: Controllers) -> None:
    controllers.end = 24
    more = schemas.ConfigRecord(TOPIC_CONFIG, "orders", "retention.ms", "1")
    image = controllers.image()
    kept = [one for one in image if not isinstance(one, schemas.ConfigRecord)]
    controllers.of_snapshots[1] = [*kept, more]


@breaks("images_are_equal")
def a_replica_began_with_another_snapshot(controllers: Controllers) -> None:
    controllers.end = 16
    image = [attrs.evolve(one, rack="b") if _is_first(one) else one for one in controllers.image(SNAPSHOT_END)]
    controllers.of_snapshots[2] = image


@breaks("images_are_equal")
def a_replica_has_never_heard_of_a_configuration(controllers: Controllers) -> None:
    controllers.end = 16
    image = controllers.image(SNAPSHOT_END)
    controllers.of_snapshots[2] = [one for one in image if not isinstance(one, schemas.ConfigRecord)]


@breaks("snapshots_are_equal", "images_are_equal")
def two_snapshots_differ_in_a_value(controllers: Controllers) -> None:
    controllers.of_snapshots[2] = [
        attrs.evolve(one, rack="b") if _is_first(one) else one for one in controllers.image()
    ]


@breaks("snapshots_are_equal", "images_are_equal")
def two_snapshots_differ_in_a_topic(controllers: Controllers) -> None:
    controllers.of_snapshots[2] = [*controllers.image(), schemas.TopicRecord("ghosts", UUID(int=5))]


def _is_first(record: Any) -> bool:
    return isinstance(record, schemas.RegisterBrokerRecord) and record.broker_id == 1


@lawful
def a_broker_registers_anew_while_it_leads(controllers: Controllers) -> None:
    """Before its old session has ended: a new controller knows no sessions."""
    controllers.records += [broker(1, 40), changed(isr=(1,)), unfenced(1, 40)]


@lawful
def a_topic_is_deleted_and_its_leader_is_fenced(controllers: Controllers) -> None:
    controllers.records += [schemas.RemoveTopicRecord(one) for one in (ORDERS, PAYMENTS, CLICKS_AGAIN)]
    controllers.records.append(fenced(1, 2))


@lawful
def an_incarnation_registers_again(controllers: Controllers) -> None:
    controllers.records.append(broker(2, 18))


@lawful
def a_broker_is_elected_uncleanly(controllers: Controllers) -> None:
    controllers.records += [changed(isr=(1,)), changed(isr=(2,), leader=2, leader_recovery_state=1)]


@lawful
def a_broker_shuts_down(controllers: Controllers) -> None:
    shutting = schemas.BrokerRegistrationChangeRecord(1, 2, fenced=0, in_controlled_shutdown=1)
    leaving = [changed(PAYMENTS, isr=(2,), leader=2), changed(isr=(2,), leader=2), fenced(1, 2)]
    controllers.records += [shutting, *leaving, schemas.UnregisterBrokerRecord(1, 2)]
    controllers.end = len(controllers.records) + 1


@lawful
def the_last_replica_is_lost(controllers: Controllers) -> None:
    """Its partitions keep it in the ISR."""
    controllers.records += [changed(isr=(1,)), changed(leader=-1), changed(PAYMENTS, leader=-1), fenced(1, 2)]


@lawful
def a_snapshot_keeps_a_deleted_topics_configuration(controllers: Controllers) -> None:
    """As Kafka's image does if one read makes and deletes the topic."""
    left = schemas.ConfigRecord(TOPIC_CONFIG, "gone", "retention.ms", "1")
    controllers.of_snapshots = {1: [*controllers.image(), left]}


@lawful
def a_snapshot_has_another_order(controllers: Controllers) -> None:
    """Kafka's image keeps end points by name, directories sorted, and forgets who asked for producer ids."""

    def as_kafka(record: Any) -> Any:
        if isinstance(record, schemas.RegisterBrokerRecord):
            return attrs.evolve(record, end_points=record.end_points[::-1], log_dirs=record.log_dirs[::-1])
        if isinstance(record, schemas.ProducerIdsRecord):
            return schemas.ProducerIdsRecord(-1, -1, record.next_producer_id)
        return record

    image = [as_kafka(one) for one in controllers.image()]
    controllers.of_snapshots = {1: image, 2: image}


@lawful
def a_transaction_is_open(controllers: Controllers) -> None:
    controllers.records += [schemas.BeginTransactionRecord("x"), changed(isr=(2,))]


@lawful
def an_uncommitted_end_differs(controllers: Controllers) -> None:
    end = len(controllers.records) + 1
    controllers.appended = {
        1: [elected(end, 1, 2), batch_of(end + 1, [framed(changed(leader=2))], 2)],
        2: [elected(end, 2, 3), batch_of(end + 1, [framed(changed(isr=(1,)))], 3)],
    }


@lawful
def a_tail_is_torn(controllers: Controllers) -> None:
    end = len(controllers.records) + 1
    controllers.appended = {1: [batch_of(end, [framed(changed(leader=2))])[:-5]]}


@lawful
def a_batch_is_rotten(controllers: Controllers) -> None:
    """Nobody knows what it said, so what follows accuses nobody."""
    end = len(controllers.records) + 1
    rotten = bytearray(batch_of(end, [framed(schemas.TopicRecord("lost", UUID(int=5)))]))
    rotten[-3] ^= 1
    controllers.appended = {1: [bytes(rotten), batch_of(end + 1, [framed(partition(UUID(int=5)))])]}
