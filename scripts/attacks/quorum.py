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
HTTP = "HTTP"
HTTP_KEY = "kraft.http.listener"
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
        self.endpoints: dict[int, dict[str, Endpoint]] = {}
        """Where each node listens for others than controllers, by the listener's name; HTTP counts as one."""
        timeouts = PATIENT if is_patient else DEFAULT_TIMEOUTS
        super().__init__(directory, settings={**METRICS_EVERY, **settings}, timeouts=timeouts)

    def write_properties(self, node: NodeProcess) -> None:
        if node.id not in self.endpoints:
            names = self._names()
            self.endpoints[node.id] = {
                name: Endpoint("127.0.0.1", port) for name, port in zip(names, free_ports(len(names)), strict=True)
            }
        endpoints = self.endpoints[node.id]
        super().write_properties(node)
        alone = f"listeners=CONTROLLER://{node.endpoint}\n"
        properties = node.properties.read_text()
        assert alone in properties
        more = "".join(f",{name}://{endpoint}" for name, endpoint in endpoints.items() if name != HTTP)
        properties = properties.replace(alone, f"{alone.rstrip()}{more}\n")
        if HTTP in endpoints:
            properties = properties.replace(f"{HTTP_KEY}=\n", f"{HTTP_KEY}=HTTP://{endpoints[HTTP]}\n")
        node.properties.write_text(properties)

    def _names(self) -> list[str]:
        """The listeners besides that of the controllers, as `listener.security.protocol.map` names them."""
        protocols = str(self.settings.get("listener.security.protocol.map", "CONTROLLER:,CLIENT:")).split(",")
        names = [entry.partition(":")[0] for entry in protocols]
        return [name for name in names if name != "CONTROLLER"] + ([HTTP] if HTTP_KEY in self.settings else [])

    def wait_until_listening(self) -> None:
        """Until all nodes do, on a machine that may be busy.  Raises Overdue or AssertionError."""
        for node in self.nodes.values():
            node.wait_until_listening(LISTENING_S)

    def cap(self) -> None:
        """Limit what the processes that run may take of the machine."""
        for node in self.nodes.values():
            resource.prlimit(node.pid, resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
