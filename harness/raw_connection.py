"""A blocking client that sends whole requests or arbitrary bytes."""

from __future__ import annotations

import socket
import ssl
import struct
from types import TracebackType
from typing import Self, TypeVar

from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.codec import decode_response, encode_request
from kraft_trio.wire.descriptor import Api

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

CLIENT_ID = "acceptance"
ANSWER_SECONDS = 30.0


class RawConnection:
    """One socket, closed on leaving the block.  Every method raises OSError if the peer is silent for too long."""

    def __init__(self, endpoint: Endpoint, seconds: float = ANSWER_SECONDS, tls: ssl.SSLContext | None = None) -> None:
        self._socket = socket.create_connection((endpoint.host, endpoint.port), timeout=seconds)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=endpoint.host)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_frame(self, frame: bytes) -> None:
        """Send bytes behind their correct length."""
        self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def end_sending(self) -> None:
        """Close the sending direction, like a client that stops in the middle of a request."""
        self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Reset the connection, as the kernel does for a killed process with unread data."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def request(self, api: Api[RequestT, ResponseT], request: RequestT, version: int | None = None) -> ResponseT:
        """Send a request, in the newest version by default, and return the response."""
        sent = self.send_request(api, request, version)
        return self.read_response(api, sent)

    def send_request(self, api: Api[RequestT, ResponseT], request: RequestT, version: int | None = None) -> int:
        """Send a request without waiting for the response; return its version."""
        chosen = api.max_version if version is None else version
        self._correlation_id += 1
        self.send_bytes(encode_request(api, chosen, self._correlation_id, CLIENT_ID, request))
        return chosen

    def read_response(self, api: Api[RequestT, ResponseT], version: int) -> ResponseT:
        correlation_id, response = decode_response(api, version, self.read_frame())
        assert correlation_id == self._correlation_id
        return response

    def read_frame(self) -> bytes:
        """Return the next frame without its length.  Raises ConnectionError if the peer closes the connection."""
        (length,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(length)

    def is_closed_by_peer(self) -> bool:
        """Wait until the peer closes the connection (True) or sends something (False)."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionError:
            return True

    def _receive_exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            piece = self._socket.recv(size - len(received))
            if not piece:
                raise ConnectionError(f"the peer closed after {len(received)} of {size} bytes")
            received += piece
        return bytes(received)
