"""Passes an administrator's change of voters on to the leader, as Kafka's brokers do (KIP-853 "AddVoter")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from kraft_trio.actors.peers.answers import Answer, Worked
from kraft_trio.actors.peers.network_client import NetworkClient
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

MOST_AT_ONCE: Final = 16
"""Limit for the changes that a node passes on at the same time, because each has a connection of its own."""


class ChangeForwarding:
    """The changes that one node has passed on and that the leader has not answered."""

    def __init__(self, client: NetworkClient) -> None:
        self._client = client
        self._under_way = 0

    def forward(
        self,
        leader: Endpoint,
        api: Api[RequestT, ResponseT],
        request: RequestT,
        timeout_ms: int,
        respond: Callable[[ErrorCode, str], ResponseT],
    ) -> Answer:
        """The leader's answer, or what `respond` makes of an error.

        `leader` is its controller listener, where no node passes anything on, so a request is forwarded once.
        """

        async def ask() -> ResponseT:
            if self._under_way >= MOST_AT_ONCE:
                return respond(ErrorCode.request_timed_out, f"{MOST_AT_ONCE} voter changes are passed on already")
            self._under_way += 1
            try:
                return await self._client.request_apart(leader, api, request, timeout_ms)
            except NetworkError as error:
                reason = f"passed on to the leader, which did not answer; the change may have been made: {error}"
                return respond(ErrorCode.request_timed_out, reason)
            except UnsupportedVersionError as error:
                return respond(ErrorCode.unsupported_version, str(error))
            finally:
                self._under_way -= 1

        return Worked(ask)
