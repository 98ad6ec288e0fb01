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
HTTP, KV = "HTTP", "KV"
WITH_KEYS = {HTTP: "kraft.http.listener", KV: "kraft.kv.listener"}
"""The listeners that have keys of their own.  A quorum has those whose keys are among its settings."""
DEFAULT_TIMEOUTS = {
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.election.backoff.max.ms": "1000",
}
PATIENT = {**DEFAULT_TIMEOUTS, "controller.quorum.fetch.timeout.ms": "15000"}
"""While it has other work, a machine may pause a leader for ten seconds, and no attack is to blame."""
METRICS_EVERY = {"kraft.metrics.interval.ms": "200"}


class AttackedQuorum(Quorum):
    """Three voters with the timeouts that they have by default, or PATIENT ones."""

    def __init__(self, directory: Path, settings: Mapping[str, str], *, is_patient: bool = False) -> None:
        self.endpoints: dict[int, dict[str, Endpoint]] = {}
        """Where each node listens for others than controllers, by the listener's name."""
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
        more = "".join(f",{name}://{endpoint}" for name, endpoint in endpoints.items() if name not in WITH_KEYS)
        properties = properties.replace(alone, f"{alone.rstrip()}{more}\n")
        for name in WITH_KEYS.keys() & endpoints.keys():
            key = WITH_KEYS[name]
            properties = properties.replace(f"{key}=\n", f"{key}=HTTP://{endpoints[name]}\n")
        node.properties.write_text(properties)

    def _names(self) -> list[str]:
        """The listeners besides that of the controllers, as `listener.security.protocol.map` names them."""
        protocols = str(self.settings.get("listener.security.protocol.map", "CONTROLLER:,CLIENT:")).split(",")
        names = [entry.partition(":")[0] for entry in protocols]
        names = [name for name in names if name != "CONTROLLER"]
        return names + [name for name, key in WITH_KEYS.items() if key in self.settings]

    def wait_until_listening(self) -> None:
        """Until all nodes do, on a machine that may be busy.  Raises Overdue or AssertionError."""
        for node in self.nodes.values():
            node.wait_until_listening(LISTENING_S)

    def cap(self) -> None:
        """Limit what the processes that run may take of the machine."""
        for node in self.nodes.values():
            resource.prlimit(node.pid, resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
