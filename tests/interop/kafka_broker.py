"""A broker of Apache Kafka's next to its controllers."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from harness.kafka import java
from harness.ports import free_ports
from harness.waiting import wait_until
from tests.interop.kafka_controllers import JVM_SECONDS, Controllers

BROKER_ID = 10


def create_topic(bootstrap_server: str, name: str, within_s: float) -> None:
    """Until it is acknowledged: the broker may still be starting, or look for the active controller."""
    admin = AdminClient({"bootstrap.servers": bootstrap_server, "log_level": 0})

    def created() -> bool:
        [future] = admin.create_topics([NewTopic(name, 1, 1)], request_timeout=5).values()
        try:
            future.result(10)
        except KafkaException as error:
            return bool(error.args[0].name() == "TOPIC_ALREADY_EXISTS")
        except TimeoutError:
            return False
        return True

    wait_until(f"topic {name} is created", created, within_s, interval_seconds=0.5)


class Broker:
    """One process, which registers with the controllers."""

    def __init__(
        self,
        directory: Path,
        controllers: Controllers,
        settings: Mapping[str, object] | None = None,
        node_id: int = BROKER_ID,
    ) -> None:
        """Format and run it.  `settings` are further ones."""
        [port] = free_ports(1)
        self.endpoint = f"127.0.0.1:{port}"
        self.directory = directory / f"broker-{node_id}"
        self._properties = directory / f"broker-{node_id}.properties"
        own = {
            "process.roles": "broker",
            "node.id": node_id,
            "listeners": f"PLAINTEXT://{self.endpoint}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in controllers.ports.values()),
            "log.dirs": self.directory,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            **(settings or {}),
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in own.items()))
        formatting = ["format", "-t", controllers.cluster_id, "-c", str(self._properties)]
        subprocess.run(
            java("kafka.tools.StorageTool", *formatting), check=True, capture_output=True, timeout=JVM_SECONDS
        )
        self.run()

    def run(self) -> None:
        """Start the process, also again, without waiting for it."""
        with self._properties.with_suffix(".log").open("ab") as log:
            command = java("kafka.Kafka", str(self._properties))
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._properties.parent)

    def stop(self) -> None:
        """Let it hand its partitions over and end."""
        self._process.terminate()
        try:
            self._process.wait(JVM_SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
