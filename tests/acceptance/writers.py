"""Ordinary Kafka producers that write numbered records, each in a thread, and remember which were acknowledged.

A writer with `idempotent` repeats what it is not sure of; one without never repeats anything.  So from neither may a
record be there twice.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import confluent_kafka
import kafka
from kafka.errors import KafkaError

from harness.quorum import TOPIC
from harness.waiting import Overdue, wait_until

KCAT = shutil.which("kcat")

IN_FLIGHT = 20
"""How many records a writer sends before it waits for the oldest."""

PROGRESS_SECONDS = 120.0
FLUSH_SECONDS = 120.0

PAUSE_SECONDS = 0.005
"""Between two records of a writer: several of them and the nodes share a small machine."""


class Writer(ABC):
    """One producer.  Its records are `<name>:<number>`, the numbers counting from 0 in the order of sending."""

    def __init__(self, name: str, bootstrap_servers: str, *, idempotent: bool) -> None:
        self.name = name
        self.idempotent = idempotent
        self.acknowledged: list[str] = []
        """In the order in which the acknowledgements came."""
        self._bootstrap_servers = bootstrap_servers
        self._next_number = 0
        self._stopping = threading.Event()
        self._abandoned = threading.Event()
        self._flush_deadline: float | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Wait until everything sent is acknowledged or given up.  Raises what the producer failed with, or Overdue."""
        self.ask_to_stop()
        self._thread.join(FLUSH_SECONDS + 10)
        if self._thread.is_alive():
            raise Overdue(f"the writer {self.name} has not stopped")
        self.check()

    def ask_to_stop(self) -> None:
        self._stopping.set()

    def abandon(self) -> None:
        """Stop without waiting for what was sent."""
        self._abandoned.set()
        self._stopping.set()

    def check(self) -> None:
        """Raise what the producer failed with, if it did."""
        if self._error is not None:
            raise AssertionError(f"the writer {self.name} failed: {self._error!r}") from self._error

    def _run(self) -> None:
        try:
            self._write()
        except BaseException as error:
            self._error = error

    def _next_value(self) -> str:
        value = f"{self.name}:{self._next_number:06d}"
        self._next_number += 1
        return value

    def _may_wait(self) -> bool:
        """Whether a writer that was asked to stop may keep waiting for the outcome of what it has sent."""
        if self._flush_deadline is None:
            self._flush_deadline = time.monotonic() + FLUSH_SECONDS
        return not self._abandoned.is_set() and time.monotonic() < self._flush_deadline

    @abstractmethod
    def _write(self) -> None:
        """Write until asked to stop, then finish what was begun."""


class KafkaPythonWriter(Writer):
    """kafka-python's KafkaProducer."""

    def _write(self) -> None:
        once = {"retries": 0, "max_in_flight_requests_per_connection": 1}
        producer = kafka.KafkaProducer(
            bootstrap_servers=self._bootstrap_servers.split(","),
            acks="all",
            enable_idempotence=self.idempotent,
            request_timeout_ms=5000,
            delivery_timeout_ms=60000,
            reconnect_backoff_max_ms=200,
            **({} if self.idempotent else once),
        )
        sent: deque[kafka.producer.future.FutureRecordMetadata] = deque()
        while not self._stopping.wait(PAUSE_SECONDS):
            value = self._next_value()
            try:
                future = producer.send(TOPIC, value.encode(), partition=0)
            except KafkaError:
                continue  # Nobody told the producer of a leader in time; the value was not sent.
            future.add_callback(lambda _metadata, value=value: self.acknowledged.append(value))
            sent.append(future)
            while len(sent) >= IN_FLIGHT:
                self._settle(sent)
        while sent and self._may_wait():
            self._settle(sent)
        producer.close(timeout=0 if sent else 5)

    @staticmethod
    def _settle(sent: deque[kafka.producer.future.FutureRecordMetadata]) -> None:
        """Wait a moment for the oldest record's outcome, whichever it is."""
        try:
            sent[0].get(timeout=0.2)
        except KafkaError:
            if not sent[0].is_done:
                return
        sent.popleft()


class ConfluentWriter(Writer):
    """librdkafka's producer."""

    def _write(self) -> None:
        once = {"retries": 0, "max.in.flight.requests.per.connection": 1}
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "acks": "all",
                "enable.idempotence": self.idempotent,
                "request.timeout.ms": 5000,
                "message.timeout.ms": 60000,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                **({} if self.idempotent else once),
            }
        )
        pending = 0

        def delivered(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            nonlocal pending
            pending -= 1
            if error is None:
                self.acknowledged.append((message.value() or b"").decode())
            elif error.fatal():
                raise confluent_kafka.KafkaException(error)

        while not self._stopping.wait(PAUSE_SECONDS):
            if pending < IN_FLIGHT:
                producer.produce(TOPIC, self._next_value().encode(), partition=0, on_delivery=delivered)
                pending += 1
            producer.poll(0.1 if pending >= IN_FLIGHT else 0)
        while pending and self._may_wait():
            producer.poll(0.1)
        producer.purge()


class KcatWriter(Writer):
    """kcat as a script uses it: a run for every few lines, all of them acknowledged when it exits with 0."""

    def _write(self) -> None:
        assert KCAT is not None
        settings = {"acks": "all", "enable.idempotence": str(self.idempotent).lower(), "reconnect.backoff.max.ms": 200}
        if not self.idempotent:
            settings |= {"retries": 0, "max.in.flight.requests.per.connection": 1}
        options = [part for key, value in settings.items() for part in ("-X", f"{key}={value}")]
        command = [KCAT, "-P", "-q", "-b", self._bootstrap_servers, "-t", TOPIC, "-p", "0", *options]
        while not self._stopping.wait(IN_FLIGHT * PAUSE_SECONDS):
            values = [self._next_value() for _ in range(IN_FLIGHT)]
            text = "".join(f"{value}\n" for value in values)
            with subprocess.Popen(
                command, text=True, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ) as process:
                assert process.stdin is not None
                process.stdin.write(text)
                process.stdin.close()
                while process.poll() is None and not self._abandoned.wait(0.02):
                    pass
                process.kill()
            if process.returncode == 0:
                self.acknowledged += values


def all_writers(bootstrap_servers: str) -> list[Writer]:
    """One of each client, with and without idempotence; without kcat where it is not installed."""
    kinds: list[tuple[str, type[Writer]]] = [("kafka-python", KafkaPythonWriter), ("confluent", ConfluentWriter)]
    if KCAT is not None:
        kinds.append(("kcat", KcatWriter))
    return [
        kind(f"{name}-{'idempotent' if idempotent else 'once'}", bootstrap_servers, idempotent=idempotent)
        for name, kind in kinds
        for idempotent in (True, False)
    ]


def wait_for_progress(writers: Iterable[Writer], records: int = 20) -> None:
    """Wait until each writer has that many more records acknowledged than now."""
    wanted = [(writer, len(writer.acknowledged) + records) for writer in writers]

    def missing() -> list[str]:
        for writer, _ in wanted:
            writer.check()
        return [
            f"{writer.name} {len(writer.acknowledged)}" for writer, count in wanted if len(writer.acknowledged) < count
        ]

    try:
        wait_until("every writer goes on", lambda: not missing(), PROGRESS_SECONDS)
    except Overdue:
        raise Overdue(f"writers without {records} more acknowledged records: {missing()}") from None


@contextmanager
def writing(writers: Iterable[Writer]) -> Iterator[None]:
    """The writers write while the block runs; afterwards what they sent is settled."""
    started = list(writers)
    for writer in started:
        writer.start()
    try:
        yield
    except BaseException:
        for writer in started:
            writer.abandon()
        raise
    for writer in started:
        writer.ask_to_stop()
    for writer in started:
        writer.stop()
