"""What all nodes of the quorum claim, as a node has asked them lately."""

from __future__ import annotations

from math import inf
from typing import Any, Final

import attrs
import trio

from kraft_trio.client.claims import ask_all
from kraft_trio.client.explanation import explanation_fields
from kraft_trio.config.values import PLAINTEXT
from kraft_trio.node_tree import NodeTree
from kraft_trio.protocol.types import Endpoint

ANSWER_MS: Final = 2000
"""Time in which a node must answer."""
FRESH_S: Final = 1.0
"""The nodes are not asked more often than that, however many clients want to know."""


class Explained:
    """Asks on demand, and gives all who wait the same answer."""

    def __init__(self, tree: NodeTree[Any]) -> None:
        self._tree = tree
        self._asking = trio.Lock()
        self._asked_at_s = -inf
        self._newest: dict[str, Any] = {}

    async def fields(self) -> dict[str, Any]:
        async with self._asking:
            if trio.current_time() - self._asked_at_s >= FRESH_S:
                fetch_timeout_ms = self._tree.config.fetch_timeout_ms
                situation = await ask_all(
                    self._tree.network,
                    endpoints_known_to(self._tree),
                    timeout_ms=ANSWER_MS,
                    fetch_timeout_ms=fetch_timeout_ms,
                )
                now_ms = self._tree.environment.wall_clock_ms()
                situation = attrs.evolve(situation, command_config=config_named_by(self._tree), now_ms=now_ms)
                self._asked_at_s, self._newest = trio.current_time(), explanation_fields(situation)
            return self._newest


def config_named_by(tree: NodeTree[Any]) -> str | None:
    """How the commands name the file of `--command-config`, if the nodes do not serve everybody."""
    protocol = tree.config.security_protocol_of(tree.config.controller_listener_name)
    return None if protocol == PLAINTEXT else "FILE"


def endpoints_known_to(tree: NodeTree[Any]) -> list[Endpoint]:
    """The endpoints of this node, and of all voters and bootstrap servers that it knows."""
    config, view = tree.config, tree.election.view.value
    listener = config.controller_listener_name
    told = [config.advertised_endpoint(listener), *(voter.endpoints.get(listener) for voter in view.voters)]
    told += [*config.quorum_bootstrap_servers, *(voter.endpoint for voter in config.quorum_voters)]
    return list(dict.fromkeys(endpoint for endpoint in told if endpoint is not None))
