"""Listeners for clients, next to those of the quorum."""

from __future__ import annotations

from harness.ports import free_ports
from harness.quorum import Quorum


def add_client_listeners(quorum: Quorum) -> dict[int, str]:
    """Give each node a listener for clients before it starts; the addresses by node id."""
    clients = {}
    for node, port in zip(quorum.nodes.values(), free_ports(len(quorum.nodes)), strict=True):
        controller = f"listeners=CONTROLLER://{node.endpoint}"
        clients[node.id] = f"127.0.0.1:{port}"
        text = node.properties.read_text()
        assert controller in text
        node.properties.write_text(text.replace(controller, f"{controller},CLIENT://{clients[node.id]}"))
    return clients
