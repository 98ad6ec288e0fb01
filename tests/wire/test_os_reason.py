"""What an operator reads of a connection that cannot be made."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest
import trio

from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.os_reason import os_reason
from kraft_trio.wire.tcp_network import TcpNetwork


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed"), "Connection refused"),
        (caused(NetworkError("no"), OSError(errno.EHOSTUNREACH, "x")), "No route to host"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (
            caused(
                OSError("all attempts to connect to x:1 failed"),
                ExceptionGroup("", [OSError(errno.ECONNREFUSED, "1"), OSError(errno.ECONNREFUSED, "2")]),
            ),
            "Connection refused",
        ),
        (ValueError("no such name"), "no such name"),
        # An error of TLS has the number 1, which would read "Operation not permitted".
        (caused(NetworkError("TLS handshake failed"), ssl.SSLCertVerificationError(1, "x")), "TLS handshake failed"),
        (caused(ssl.SSLError(1, "x"), ConnectionResetError(errno.ECONNRESET, "y")), "Connection reset by peer"),
    ],
)
def test_the_systems_words_are_what_counts(error: Exception, reason: str) -> None:
    assert os_reason(error) == reason


def test_a_refused_connection_says_so() -> None:
    async def connect() -> None:
        with socket.socket() as bound:  # which does not listen
            bound.bind(("127.0.0.1", 0))
            await TcpNetwork().connect(Endpoint("127.0.0.1", bound.getsockname()[1]))

    with pytest.raises(NetworkError, match=r"^cannot connect: Connection refused$"):
        trio.run(connect)
