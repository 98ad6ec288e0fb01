"""Connects to one node of a quorum and asks it one question, each within a time limit."""

from __future__ import annotations

from typing import Final, TypeVar

import trio

from kraft_trio.errors import NetworkError, ProtocolError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.security.sasl_network import LoginRefusedError
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.network import Network
from kraft_trio.wire.os_reason import os_reason

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

MAX_RESPONSE_BYTES: Final = 100 * 1024 * 1024
"""The largest response a client accepts: Kafka's default for the largest request."""


async def open_connection(network: Network, endpoint: Endpoint, client_id: str, timeout_ms: int) -> Connection:
    """Connect and agree on versions within `timeout_ms`.  The caller closes the connection.

    Raises NetworkError naming the endpoint and the reason, LoginRefusedError if that is the login, and
    UnsupportedVersionError.
    """
    failure = "no connection"
    with trio.move_on_after(timeout_ms / 1000):
        try:
            stream = await network.connect(endpoint)
            failure = "it took the connection, but did not say which versions it speaks"
            return await Connection.negotiated(stream, client_id, MAX_RESPONSE_BYTES)
        except LoginRefusedError as error:
            raise LoginRefusedError(f"{endpoint}: {error}") from error
        except (NetworkError, ProtocolError, UnicodeError) as error:
            raise NetworkError(f"{endpoint}: {os_reason(error).removeprefix(f'{endpoint}: ')}") from error
    raise NetworkError(f"{endpoint}: {failure} within {timeout_ms} ms")


async def ask(connection: Connection, api: Api[RequestT, ResponseT], request: RequestT, timeout_ms: int) -> ResponseT:
    """Send a request and wait at most `timeout_ms` for its response.

    Raises UnsupportedVersionError with nothing sent.  After a NetworkError, the connection is closed, and the request
    may or may not have taken effect.
    """
    with trio.move_on_after(timeout_ms / 1000):
        try:
            return await connection.request(api, request)
        except ProtocolError as error:
            raise NetworkError(str(error)) from error
    raise NetworkError(f"{api.name}: no answer within {timeout_ms} ms")


async def drop(connection: Connection) -> None:
    """Close a connection without waiting for data that is still being sent."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await connection.aclose()
