"""What etcd serves for monitoring: `/livez` and `/readyz` with their checks, `/health`, and `/metrics`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final
from urllib.parse import parse_qs

from kraft_trio.http.exchange import Endpoint, Exchange
from kraft_trio.kv.errors import KvError
from kraft_trio.kv.gateway.cluster import ClusterInfo
from kraft_trio.kv.gateway.http_errors import TEXT
from kraft_trio.kv.gateway.service import KvService
from kraft_trio.kv.proto_json import to_json
from kraft_trio.metrics.text_format import PROMETHEUS

_Check = Callable[[], Awaitable[str | None]]
"""Returns what is wrong."""


class Probes:
    """Answers for one node."""

    def __init__(self, service: KvService, info: ClusterInfo) -> None:
        self._service = service
        self._info = info
        self._checks: Final[dict[str, dict[str, _Check]]] = {
            "/livez": {"serializable_read": self._serializable_read},
            "/readyz": {
                "data_corruption": self._data_corruption,
                "serializable_read": self._serializable_read,
                "linearizable_read": self._linearizable_read,
                "non_learner": self._non_learner,
            },
        }

    def endpoints(self) -> dict[str, Endpoint]:
        """By path."""
        found: dict[str, Endpoint] = {"/health": self._health, "/metrics": self._metrics}
        for path, checks in self._checks.items():
            found[path] = partial(self._tell, checks)
            for name, check in checks.items():
                found[f"{path}/{name}"] = partial(self._tell, {name: check})
        return found

    async def _tell(self, checks: dict[str, _Check], exchange: Exchange) -> None:
        query = parse_qs(exchange.query, keep_blank_values=True)
        excluded = query.get("exclude", ())
        found = [(name, await check()) for name, check in checks.items() if name not in excluded]
        lines = "".join(f"[-]{name} failed: {wrong}\n" if wrong else f"[+]{name} ok\n" for name, wrong in found)
        if any(wrong for _, wrong in found):
            await exchange.respond(503, f"{lines}\n".encode(), TEXT)
        else:
            await exchange.respond(200, f"{lines if 'verbose' in query else ''}ok\n".encode(), TEXT)

    async def _serializable_read(self) -> str | None:
        """It only needs this node's state, from which the event loop has come here."""
        return None

    async def _linearizable_read(self) -> str | None:
        try:
            await self._service.barrier()
        except KvError as error:
            return error.message
        return None

    async def _data_corruption(self) -> str | None:
        """A node does not compare its state with the others', so it never raises etcd's alarm."""
        return None

    async def _non_learner(self) -> str | None:
        return None if self._info.is_voter else "not supported for learner"

    async def _health(self, exchange: Exchange) -> None:
        is_serializable = parse_qs(exchange.query).get("serializable", [""])[0] == "true"
        found = await self._info.health(is_serializable=is_serializable)
        content = to_json({"health": found.health, "reason": found.reason})
        await exchange.respond(200 if found.health == "true" else 503, content)

    async def _metrics(self, exchange: Exchange) -> None:
        await exchange.respond(200, self._service.node.metrics.exposition(), PROMETHEUS)
