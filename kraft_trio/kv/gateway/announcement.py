"""Tells all nodes, through the log, where this node's gateway listens.  Clients ask any node for the members."""

from __future__ import annotations

from typing import Final

import trio

from kraft_trio.kv.errors import KvError
from kraft_trio.kv.gateway.service import KvService
from kraft_trio.kv.requests import AnnounceMember

RETRY_S: Final = 1.0


async def announce(service: KvService, url: str) -> None:
    """Return once the log has the address."""
    node_id = service.node.key.id
    while True:
        try:
            await service.barrier()
            if service.machine.members.get(node_id) == (url,):
                return
            await service.execute(AnnounceMember(node_id, (url,)))
        except KvError:
            await trio.sleep(RETRY_S)
