"""Load the quorum as an ordinary application does, through librdkafka: `python -m benchmarks.loads.producer BOOTSTRAP`.

acks=all, the client's own batching, every acknowledgement seen.  Ends after `--seconds`, or after `--records` records.
"""

from __future__ import annotations

import time

import click
from confluent_kafka import KafkaError, Message, Producer

from benchmarks.kraft_client import TOPIC
from benchmarks.measurement import ProducerResult, own_cpu_seconds

FLUSH_SECONDS = 120.0
POLL_EVERY = 1000


class Acknowledgements:
    """Counts what became of the records."""

    def __init__(self) -> None:
        self.delivered = 0
        self.failed = 0
        self.last_error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failed += 1
            self.last_error = error


def load(
    bootstrap: str, value_bytes: int, seconds: float | None, records: int | None, idempotence: bool, linger_ms: int
) -> ProducerResult:
    """Produce until the time or the number is reached and everything is acknowledged or given up.

    Raises click.ClickException when not even the first record is acknowledged.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": linger_ms,
            "enable.idempotence": idempotence,
            "delivery.timeout.ms": int(FLUSH_SECONDS * 1000),
        }
    )
    first = Acknowledgements()
    producer.produce(TOPIC, b"first", on_delivery=first)
    producer.flush(FLUSH_SECONDS)
    if first.delivered != 1:
        raise click.ClickException(f"the first record was not acknowledged: {first.last_error or 'no answer'}")

    seen = Acknowledgements()
    value = b"x" * value_bytes
    cpu_s = own_cpu_seconds()
    began = time.perf_counter()
    end = began + seconds if seconds is not None else float("inf")
    sent = 0
    while (records is None or sent < records) and time.perf_counter() < end:
        for _ in range(POLL_EVERY if records is None else min(POLL_EVERY, records - sent)):
            _produce_waiting_for_room(producer, value, seen)
            sent += 1
        producer.poll(0)
    left = producer.flush(FLUSH_SECONDS)
    taken = time.perf_counter() - began
    return ProducerResult(
        client="librdkafka" + (", idempotent" if idempotence else ""),
        records=seen.delivered,
        failed=seen.failed + left,
        seconds=taken,
        client_cpu_us=(own_cpu_seconds() - cpu_s) / max(seen.delivered, 1) * 1e6,
    )


def _produce_waiting_for_room(producer: Producer, value: bytes, seen: Acknowledgements) -> None:
    while True:
        try:
            producer.produce(TOPIC, value, on_delivery=seen)
        except BufferError:
            producer.poll(0.1)
        else:
            return


@click.command(help=__doc__)
@click.argument("bootstrap")
@click.option("--value-bytes", type=click.IntRange(0), default=1024, show_default=True)
@click.option("--seconds", type=float, help="Stop after that many seconds.")
@click.option("--records", type=int, help="Stop after that many records.")
@click.option("--idempotence/--no-idempotence", default=False, show_default=True)
@click.option("--linger-ms", type=int, default=5, show_default=True)
def main(
    bootstrap: str, value_bytes: int, seconds: float | None, records: int | None, idempotence: bool, linger_ms: int
) -> None:
    if seconds is None and records is None:
        raise click.UsageError("give --seconds or --records")
    click.echo(load(bootstrap, value_bytes, seconds, records, idempotence, linger_ms).to_json())


if __name__ == "__main__":
    main()
