"""Quorums of real processes with the key-value store."""

from __future__ import annotations

import http.client
import json
from typing import Any

import attrs

from harness.ports import free_ports
from harness.quorum import Quorum
from harness.waiting import WAIT_SECONDS, wait_until
from tests.acceptance.conftest import MakeQuorum


@attrs.frozen
class KvQuorum:
    """A quorum, and the port of each node's gateway."""

    quorum: Quorum
    ports: dict[int, int]

    def post(self, node_id: int, path: str, body: object, seconds: float = WAIT_SECONDS) -> tuple[int, Any]:
        """Send one request to a node's gateway."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[node_id], timeout=seconds)
        try:
            connection.request("POST", path, json.dumps(body))
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def start(self, *node_ids: int) -> None:
        """Start these nodes, by default all, and wait until their gateways answer."""
        self.quorum.start(node_ids)
        for node_id in node_ids or self.ports:
            wait_until(f"the gateway of node {node_id} answers", lambda node_id=node_id: self._is_healthy(node_id))  # type: ignore[misc]

    def _is_healthy(self, node_id: int) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[node_id], timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


def make_kv_quorum(make_quorum: MakeQuorum, voters: int = 3, *, is_steady: bool = False, **settings: str) -> KvQuorum:
    """Format and start nodes with gateways."""
    return start_kv_quorum(make_quorum(voters, is_steady=is_steady, kraft_state_machine="kv", **settings))


def start_kv_quorum(quorum: Quorum) -> KvQuorum:
    """Start nodes that were formatted for the store, with gateways."""
    ports = dict(zip(quorum.nodes, free_ports(len(quorum.nodes)), strict=True))
    for node_id, port in ports.items():
        quorum.settings["kraft.kv.listener"] = f"HTTP://127.0.0.1:{port}"
        quorum.write_properties(quorum.nodes[node_id])
    kv = KvQuorum(quorum, ports)
    kv.start()
    return kv
