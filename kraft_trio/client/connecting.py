"""Opening a connection to one node of a quorum, asking it a question within a time, and which answers are final."""

from __future__ import annotations

from typing import Final, TypeVar

import trio

from kraft_trio.errors import KraftError, NetworkError, ProtocolError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.network import Network
from kraft_trio.wire.os_reason import os_reason

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

MAX_RESPONSE_BYTES: Final = 100 * 1024 * 1024
"""The largest response a client accepts: Kafka's default for the largest request."""

NOT_LEADING: Final = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.not_controller})
"""What a node that does not lead answers to a change; to UpdateFeatures it is the second."""

TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.leader_not_available,
        ErrorCode.broker_not_available,
        ErrorCode.offset_not_available,
        ErrorCode.request_timed_out,
        ErrorCode.network_exception,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
    }
)
"""Another attempt, at the leader there is by then, may fare better; an append that got one may yet take effect."""


class RefusedError(KraftError):
    """A node refused a request for good.  The request had no effect."""


async def open_connection(network: Network, endpoint: Endpoint, client_id: str, timeout_ms: int) -> Connection:
    """Connect and agree on versions, in `timeout_ms` at most.  The caller closes the connection.

    Raises NetworkError naming the endpoint and the reason, UnsupportedVersionError.
    """
    failure = "no connection"
    with trio.move_on_after(timeout_ms / 1000):
        try:
            stream = await network.connect(endpoint)
            failure = "it took the connection, but did not say which versions it speaks"
            return await Connection.negotiated(stream, client_id, MAX_RESPONSE_BYTES)
        except (NetworkError, ProtocolError, UnicodeError) as error:
            raise NetworkError(f"{endpoint}: {os_reason(error).removeprefix(f'{endpoint}: ')}") from error
    raise NetworkError(f"{endpoint}: {failure} within {timeout_ms} ms")


async def ask(connection: Connection, api: Api[RequestT, ResponseT], request: RequestT, timeout_ms: int) -> ResponseT:
    """Send a request and wait for its response, `timeout_ms` at most.

    Raises NetworkError, after which the connection is closed and the request may or may not have taken effect, and
    UnsupportedVersionError, with nothing sent.
    """
    with trio.move_on_after(timeout_ms / 1000):
        try:
            return await connection.request(api, request)
        except ProtocolError as error:
            raise NetworkError(str(error)) from error
    raise NetworkError(f"{api.name}: no answer within {timeout_ms} ms")


async def drop(connection: Connection) -> None:
    """Close a connection without waiting for the peer to take what is still on its way."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await connection.aclose()
