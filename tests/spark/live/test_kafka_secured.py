"""The metadata of Apache Kafka's controllers whose listeners have TLS, or TLS and SASL."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.kafka import why_no_kafka
from harness.waiting import wait_until
from tests.interop.kafka_controllers import JVM_SECONDS, Controllers
from tests.interop.test_kafka_security import PLAIN, controllers, stores
from tests.spark.live.reading import Offset, latest_once, make_reader_of, rows

__all__ = ["controllers", "stores"]

pytestmark = [
    pytest.mark.interop,
    pytest.mark.nightly,
    pytest.mark.skipif(why_no_kafka() is not None, reason=str(why_no_kafka())),
]


def test_a_stream_reads_what_is_in_their_directory(
    controllers: Controllers, stores: dict[str, str], tmp_path: Path
) -> None:
    has_sasl = "CONTROLLER:SASL_SSL" in controllers.properties(1).read_text()
    sasl = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN} if has_sasl else {}
    keys = {"security.protocol": "SASL_SSL" if has_sasl else "SSL", **stores, **sasl}
    options = {f"kafka.{key}": text for key, text in keys.items()}
    reader = make_reader_of(f"127.0.0.1:{controllers.ports[1]}", **options, timeoutMs="60000")
    start = reader.initialOffset()

    def told() -> Offset | None:
        end = latest_once(reader, start)
        return None if end == start else end

    read = rows(reader, start, wait_until("the controller has committed", told, JVM_SECONDS))
    assert any(value is not None for _, value in read)
