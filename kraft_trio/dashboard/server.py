"""`kraft dashboard`: watches a quorum, and serves the page on this machine."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final

import trio

from kraft_trio.dashboard.app import MAX_LOOKERS, DashboardApplication, Pages, error
from kraft_trio.dashboard.quorum_watch import QuorumWatch
from kraft_trio.http.foreign_pages import PageGuard, guarded
from kraft_trio.http.limits import HttpLimits
from kraft_trio.http.server import HttpServer
from kraft_trio.http.stream_places import StreamPlaces
from kraft_trio.protocol.types import Endpoint

LIMITS: Final = HttpLimits(connections=64, idle_s=30.0, head_s=5.0, body_s=10.0, send_s=10.0, head_bytes=16 * 1024)


class Dashboard:
    """Owns the listener and the watch."""

    def __init__(self, watch: QuorumWatch, listening: socket.socket, bootstrap: Sequence[Endpoint]) -> None:
        self._watch = watch
        self._listening = listening
        host, port = listening.getsockname()[:2]
        self.url = f"http://{Endpoint(host, port)}/"
        named = ",".join(map(str, bootstrap))
        pages = Pages(watch, lambda: {"kind": "dashboard", "bootstrap": named}, StreamPlaces(MAX_LOOKERS, error))
        self._application = DashboardApplication(pages)

    async def run(self) -> None:
        """Serve until cancelled."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._listening))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch.run)
            application = guarded(self._application, PageGuard(guards_all=True), error)
            await HttpServer(application, listener, LIMITS, error).run()
