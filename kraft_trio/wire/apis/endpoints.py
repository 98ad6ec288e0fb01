"""Endpoints in messages: a leader's listeners, and the node endpoints of responses that name a leader (KIP-853)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from kraft_trio.protocol.types import Endpoint, Endpoints
from kraft_trio.wire.schema import Fields

_NO_ENDPOINTS: Final = Endpoints()


def fields_of_listeners(endpoints: Endpoints) -> list[Fields]:
    return [{"name": name, "host": endpoint.host, "port": endpoint.port} for name, endpoint in endpoints]


def listeners_of_fields(listeners: Sequence[Fields]) -> Endpoints:
    if not listeners:
        return _NO_ENDPOINTS
    return Endpoints((fields["name"], Endpoint(fields["host"], fields["port"])) for fields in listeners)


def fields_of_leader_endpoint(leader_id: int, endpoint: Endpoint | None) -> list[Fields]:
    """The node endpoints of a response that names one leader; empty if the endpoint is unknown."""
    if endpoint is None or leader_id < 0:
        return []
    return [{"node_id": leader_id, "host": endpoint.host, "port": endpoint.port}]


def leader_endpoint_of_fields(leader_id: int, fields: Fields) -> Endpoint | None:
    """The leader's endpoint, or None if the response does not tell it, as in old versions."""
    for node in fields.get("node_endpoints", ()):
        if node["node_id"] == leader_id:
            return Endpoint(node["host"], node["port"])
    return None


def fields_of_node_endpoints(nodes: Iterable[tuple[int, Endpoint]]) -> list[Fields]:
    """The node endpoints of client APIs, which also have a rack."""
    return [{"node_id": id, "host": endpoint.host, "port": endpoint.port, "rack": None} for id, endpoint in nodes]


def node_endpoints_of_fields(fields: Fields) -> tuple[tuple[int, Endpoint], ...]:
    nodes: list[dict[str, Any]] | None = fields.get("node_endpoints")
    if not nodes:
        return ()
    return tuple((node["node_id"], Endpoint(node["host"], node["port"])) for node in nodes)
