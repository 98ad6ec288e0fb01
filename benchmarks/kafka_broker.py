"""A broker of Apache Kafka, which Spark's own connector reads for comparison with our source.

scripts/get-kafka gets Kafka, or KAFKA_HOME names an unpacked one of 4.0 or newer.  SPARK_KAFKA_JARS names a directory
with spark-sql-kafka-0-10, spark-token-provider-kafka-0-10, kafka-clients and commons-pool2.
"""

from __future__ import annotations

import os
import uuid
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from benchmarks.children import poll_until, run_to_end, start_child, stopping
from harness.kafka import LIBRARIES, why_no_kafka
from harness.ports import free_ports

CONNECTOR = Path(os.environ.get("SPARK_KAFKA_JARS", "/nowhere"))
START_SECONDS = 90.0


def why_unavailable() -> str | None:
    """Why there is nothing to compare with on this machine, in one line; None when there is."""
    if why_not := why_no_kafka():
        return why_not
    if not any(CONNECTOR.glob("spark-sql-kafka-0-10_2.13-*.jar")):
        return "SPARK_KAFKA_JARS names no directory with spark-sql-kafka-0-10 and what it needs"
    return None


def connector_jars() -> list[Path]:
    return sorted(CONNECTOR.glob("*.jar"))


def versions() -> str:
    """Of the broker and of the connector."""
    [broker] = (path.stem.partition("-")[2] for path in LIBRARIES.glob("kafka_2.13-*.jar"))
    return f"broker {broker}; {', '.join(path.stem for path in connector_jars())}"


@asynccontextmanager
async def running_broker(directory: Path) -> AsyncIterator[str]:
    """One broker that is its own controller, stopped on exit; its address."""
    port, controller_port = free_ports(2)
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "log.dirs": directory / "broker",
        "offsets.topic.replication.factor": 1,
    }
    properties = directory / "broker.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    formatting = ("format", "-t", cluster_id, "-c", str(properties), "--standalone")
    await run_to_end(_java("kafka.tools.StorageTool", *formatting), START_SECONDS)
    broker = await start_child("Kafka", _java("kafka.Kafka", str(properties)), directory / "broker.log")
    async with stopping({1: broker}):

        async def listens() -> bool | None:
            broker.check_running()
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", port)
            except OSError:
                return None
            await stream.aclose()
            return True

        await poll_until("answer of the Kafka broker", START_SECONDS, listens)
        yield f"127.0.0.1:{port}"


def _java(main: str, *arguments: str) -> list[str]:
    return ["java", "-Xmx1g", "-cp", f"{LIBRARIES}/*", main, *arguments]
