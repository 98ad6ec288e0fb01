"""An idempotent producer of librdkafka that writes numbered records over and over a bounded number of keys.

What it wrote last to each key, and how many records there are, is known from the count alone: see `values_after`.
"""

from __future__ import annotations

import threading
import time
from array import array
from functools import partial

import confluent_kafka

from harness.quorum import TOPIC
from harness.waiting import Overdue

RECORD_BYTES = 200
"""Of a value."""
ACKNOWLEDGED_SECONDS = 120.0
_IN_FLIGHT = 20_000
_NOT_ACKNOWLEDGED = -1
UNKNOWN_OFFSET = -2


class KeyedWriter:
    """One producer; used by one thread at a time."""

    def __init__(self, name: str, bootstrap_servers: str, keys: int) -> None:
        self.name = name
        self.keys = keys
        self.offsets = array("q")
        """Of each record that was sent, by its number, once it is acknowledged; -1 before that.

        UNKNOWN_OFFSET for one that was repeated and that the leader knew to be there, and no longer where.
        """
        self._unacknowledged = 0
        self._error: confluent_kafka.KafkaError | None = None
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "queue.buffering.max.messages": 2 * _IN_FLIGHT,
                "request.timeout.ms": 5000,
                "message.timeout.ms": int(ACKNOWLEDGED_SECONDS * 1000),
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    @property
    def sent(self) -> int:
        return len(self.offsets)

    def write(self, count: int) -> None:
        """Send so many more records, waiting for acknowledgements only where too many are missing."""
        for number in range(self.sent, self.sent + count):
            while self._unacknowledged >= _IN_FLIGHT:
                self._poll(0.05)
            self.offsets.append(_NOT_ACKNOWLEDGED)
            self._unacknowledged += 1
            self._producer.produce(
                TOPIC,
                key=self.key(number),
                value=self.value(number),
                partition=0,
                on_delivery=partial(self._delivered, number),
            )
            if number % 100 == 0:
                self._poll(0)

    def flush(self) -> None:
        """Wait until all that was sent is acknowledged.  Raises Overdue, AssertionError for what was given up."""
        deadline = time.monotonic() + ACKNOWLEDGED_SECONDS + 10
        while self._unacknowledged:
            self._poll(0.05)
            if time.monotonic() > deadline:
                raise Overdue(f"{self.name}: {self._unacknowledged} of {self.sent} records are not acknowledged")

    def assert_each_has_its_place(self) -> None:
        """All that was sent is acknowledged, each record at an offset of its own, in order."""
        assert _NOT_ACKNOWLEDGED not in self.offsets
        known = [offset for offset in self.offsets if offset != UNKNOWN_OFFSET]
        assert known == sorted(set(known)), "an offset was acknowledged twice, or out of order"

    def key(self, number: int) -> bytes:
        return f"{self.name}/{number % self.keys:06d}".encode()

    def value(self, number: int) -> bytes:
        text = f"{self.name}:{number:09d}/".encode()
        return (text * (RECORD_BYTES // len(text) + 1))[:RECORD_BYTES]

    def latest_values(self) -> dict[bytes, bytes]:
        """The state that all that was sent amounts to."""
        return {self.key(number): self.value(number) for number in range(max(0, self.sent - self.keys), self.sent)}

    def _poll(self, seconds: float) -> None:
        self._producer.poll(seconds)
        assert self._error is None, f"{self.name}: a record was given up: {self._error}"

    def _delivered(
        self, number: int, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message
    ) -> None:
        self._unacknowledged -= 1
        if error is not None:
            self._error = error
            return
        offset = message.offset()
        self.offsets[number] = UNKNOWN_OFFSET if offset is None or offset < 0 else offset


class BackgroundWriter:
    """Lets a writer write until told to stop, `per_second` records at the most."""

    def __init__(self, writer: KeyedWriter, per_second: int) -> None:
        self._writer = writer
        self._per_second = per_second
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=writer.name, daemon=True)

    def __enter__(self) -> BackgroundWriter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Raises what the writer failed with, or Overdue."""
        self._stopping.set()
        self._thread.join(ACKNOWLEDGED_SECONDS + 20)
        if self._thread.is_alive():
            raise Overdue(f"the writer {self._writer.name} has not stopped")
        self.check()

    def check(self) -> None:
        if self._error is not None:
            raise AssertionError(f"the writer {self._writer.name} failed: {self._error!r}") from self._error

    def _run(self) -> None:
        try:
            while not self._stopping.wait(0.02):
                self._writer.write(max(1, self._per_second // 50))
            self._writer.flush()
        except BaseException as error:
            self._error = error
