"""The quorum under attack: each node has a listener for controllers and another one for clients."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from pathlib import Path

from harness.node import NodeProcess
from harness.ports import free_ports
from harness.quorum import Quorum
from kraft_trio.protocol.types import Endpoint

ADDRESS_SPACE_BYTES = 4 * 1024**3
"""What a node may map: an attack that succeeds ends the node before it ends the machine."""

LISTENING_S = 90.0
DEFAULT_TIMEOUTS = {
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.election.backoff.max.ms": "1000",
}
PATIENT = {**DEFAULT_TIMEOUTS, "controller.quorum.fetch.timeout.ms": "15000"}
"""Beside other work a machine may pause a leader for ten seconds, and no attack is to blame."""
METRICS_EVERY = {"kraft.metrics.interval.ms": "200"}


class AttackedQuorum(Quorum):
    """Three voters with the timeouts that they have by default, or PATIENT ones."""

    def __init__(self, directory: Path, settings: Mapping[str, str], *, is_patient: bool = False) -> None:
        self.client_endpoints: dict[int, Endpoint] = {}
        timeouts = PATIENT if is_patient else DEFAULT_TIMEOUTS
        super().__init__(directory, settings={**METRICS_EVERY, **settings}, timeouts=timeouts)

    def write_properties(self, node: NodeProcess) -> None:
        if node.id not in self.client_endpoints:
            [port] = free_ports(1)
            self.client_endpoints[node.id] = Endpoint("127.0.0.1", port)
        client = self.client_endpoints[node.id]
        super().write_properties(node)
        alone = f"listeners=CONTROLLER://{node.endpoint}\n"
        properties = node.properties.read_text()
        assert alone in properties
        node.properties.write_text(properties.replace(alone, f"{alone.rstrip()},CLIENT://{client}\n"))

    def wait_until_listening(self) -> None:
        """Until all nodes do, on a machine that may be busy.  Raises Overdue or AssertionError."""
        for node in self.nodes.values():
            node.wait_until_listening(LISTENING_S)

    def cap(self) -> None:
        """Limit what the processes that run may take of the machine."""
        for node in self.nodes.values():
            resource.prlimit(node.pid, resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
