"""Endpoints in messages: a leader's listeners, and the node endpoints of responses that name a leader (KIP-853)."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from kraft_trio.protocol.types import Endpoint, Endpoints
from kraft_trio.wire.fields import INLINE, Int32, Parts, String, Uint16, Via

ListenerAddress: TypeAlias = Annotated[Endpoint, Parts(host=String, port=Uint16), INLINE]

Listeners: TypeAlias = Annotated[
    Endpoints, Via(tuple[tuple[Annotated[String, "name"], ListenerAddress], ...], read=Endpoints)
]

NodeEndpoints: TypeAlias = tuple[
    tuple[Int32, Annotated[Endpoint, Parts(host=String, port=Int32, rack=String | None), INLINE]], ...
]
"""The node endpoints of client APIs, which also have a rack."""


def _nodes(endpoint: Endpoint | None, leader_id: int) -> tuple[tuple[int, Endpoint], ...]:
    return () if endpoint is None or leader_id < 0 else ((leader_id, endpoint),)


def _endpoint(nodes: tuple[tuple[int, Endpoint], ...], leader_id: int) -> Endpoint | None:
    return next((endpoint for node_id, endpoint in nodes if node_id == leader_id >= 0), None)


LeaderEndpoint: TypeAlias = Annotated[
    Endpoint | None,
    Via(tuple[tuple[Int32, ListenerAddress], ...], read=_endpoint, write=_nodes, beside=("leader_id",)),
    "node_endpoints",
]
"""The node endpoint of the leader that the attribute `leader_id` names; None if the response does not tell it."""
