"""What a client of the brokers does all the time: topics come and go, records are written and read."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final

import trio
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from scripts.controller_kills.clock import Gaps

LEDGER: Final = "ledger"
"""The topic that all records are written to."""
EVERY_S: Final = 0.25
PATIENCE_S: Final = 2.0
READ_WITHIN_S: Final = 60.0
_FAILURES: Final = (KafkaException, TimeoutError)


class BrokerClient:
    """Two loops on ordinary clients: one of an administrator, one that writes to a topic and reads it.

    `servers` are the brokers' addresses, and `replicas` is how many of them keep each topic.
    """

    def __init__(self, servers: str, replicas: int) -> None:
        self._servers = {"bootstrap.servers": servers, "log_level": 0}
        self._replicas = replicas
        self._admin = AdminClient(self._servers)
        self.topics = Gaps()
        """The successes: topics that were created."""
        self.records = Gaps()
        """The successes: records that were written, acknowledged and read again."""
        self.acknowledged: list[bytes] = []
        self.failures: Counter[str] = Counter()

    async def create_ledger(self, within_s: float) -> None:
        """Create the topic of the records, as soon as the brokers can.  Raises TooSlowError."""
        with trio.fail_after(within_s):
            while not await self._create(LEDGER):
                pass

    async def run(self) -> None:
        """Run both loops until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._administrate)
            nursery.start_soon(self._write_and_read)

    async def missing(self) -> list[bytes]:
        """The acknowledged records that a new consumer does not find."""
        left = set(self.acknowledged)
        with trio.move_on_after(READ_WITHIN_S):
            await self._read(self._consumer(), left)
        return [value for value in self.acknowledged if value in left]

    # Topics

    async def _administrate(self) -> None:
        for number in itertools.count():
            name = f"topic-{number}"
            if await self._create(name):
                self.topics.succeeded()
                entry = ConfigEntry("retention.ms", str(10**6 + number), incremental_operation=AlterConfigOpType.SET)
                resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
                options = {"request_timeout": PATIENCE_S}
                await self._done("alter", self._admin.incremental_alter_configs([resource], **options))
                await self._done("delete", self._admin.delete_topics([name], **options))
            await trio.sleep(EVERY_S)

    async def _create(self, name: str) -> bool:
        topic = NewTopic(name, num_partitions=1, replication_factor=self._replicas)
        return await self._done("create", self._admin.create_topics([topic], request_timeout=PATIENCE_S))

    async def _done(self, what: str, futures: Mapping[object, Future[None]]) -> bool:
        [future] = futures.values()
        try:
            await trio.to_thread.run_sync(future.result, 2 * PATIENCE_S, abandon_on_cancel=True)
        except _FAILURES as error:
            self.failures[f"{what}: {error}"] += 1
            return False
        return True

    # Records

    async def _write_and_read(self) -> None:
        producer = Producer({**self._servers, "enable.idempotence": True, "linger.ms": 0})
        consumer = self._consumer()
        for number in itertools.count():
            value = b"%08d" % number
            answers: list[Message | None] = []
            producer.produce(LEDGER, value, on_delivery=lambda error, _m, answers=answers: answers.append(error))
            while not answers:
                await trio.to_thread.run_sync(producer.poll, 0.1, abandon_on_cancel=True)
            if answers != [None]:
                self.failures[f"produce: {answers[0]}"] += 1
                continue
            self.acknowledged.append(value)
            await self._read(consumer, {value})
            self.records.succeeded()
            await trio.sleep(EVERY_S)

    def _consumer(self) -> Consumer:
        consumer = Consumer({**self._servers, "group.id": "none", "enable.auto.commit": False})
        consumer.assign([TopicPartition(LEDGER, 0, OFFSET_BEGINNING)])
        return consumer

    async def _read(self, consumer: Consumer, left: set[bytes]) -> None:
        """Read until these values have been found."""
        while left:
            message = await trio.to_thread.run_sync(consumer.poll, 0.1, abandon_on_cancel=True)
            if message is not None and message.error() is None:
                left.discard(message.value())
