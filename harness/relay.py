"""A way between two processes that can be cut for some requests: it stands where a firewall or a slow link would."""

from __future__ import annotations

import socket
import threading
from collections.abc import Collection
from contextlib import suppress

_LENGTH_BYTES = 4


class Relay:
    """Listens at a port of its own, and passes each connection on to `target`.

    While requests are held, one of them stops its connection: nothing passes until the release, which closes it.  The
    owner calls `close`.
    """

    def __init__(self, target: int = 0) -> None:
        """`target` is a port of this machine, which may be set later."""
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._held: Collection[int] | None = ()
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self, api_keys: Collection[int] | None = None) -> None:
        """Hold requests with these API keys from now on, or all of them, on connections that are open, too."""
        self._held = api_keys

    def release(self) -> None:
        """Hold nothing more.  Connections end, and their owners open new ones."""
        self._held = ()
        self._close_connections()

    def close(self) -> None:
        """End it."""
        self._listener.close()
        self._close_connections()

    def _close_connections(self) -> None:
        with self._lock:
            ending, self._sockets = self._sockets, set()
        for one in ending:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    client.close()
                    continue
                with self._lock:
                    self._sockets |= {client, server}
                for pump in (self._pass_requests, self._pass_answers):
                    threading.Thread(target=pump, args=(client, server), daemon=True).start()

    def _pass_requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError), client.makefile("rb") as requests:
            while start := requests.read(_LENGTH_BYTES):
                body = requests.read(int.from_bytes(start, "big"))
                held = self._held
                if held is None or int.from_bytes(body[:2], "big") in held:
                    return
                server.sendall(start + body)
            server.shutdown(socket.SHUT_WR)

    def _pass_answers(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)
