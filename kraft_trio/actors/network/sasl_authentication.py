"""The authentication of an accepted connection, within a time limit, before its first request is routed, and later."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import attrs
import trio

from kraft_trio.errors import NetworkError, ProtocolError
from kraft_trio.security.sasl_listener import SaslListener
from kraft_trio.security.sasl_server import SaslExchange, ServesVersions, Step
from kraft_trio.wire.apis.sasl_handshake import SASL_HANDSHAKE
from kraft_trio.wire.framing import UNADMITTED_BYTES, FrameReader
from kraft_trio.wire.network import ImmediateStream

_HANDSHAKE: Final = SASL_HANDSHAKE.key.to_bytes(2, "big")
_RENEWAL_INTERVAL_S: Final = 1.0
_SEND_ANSWER_S: Final = 1.0
"""The time limit for the answer to a failed exchange."""


@attrs.frozen
class Session:
    """How long an authentication counts (KIP-368).  Times are on Trio's clock."""

    user: str
    began_s: float
    ends_s: float

    @property
    def principal(self) -> str:
        return f"User:{self.user}"

    def may_be_renewed(self, frame: bytes, now_s: float) -> bool:
        """Whether a request begins another authentication, which may come once a second, also after the end."""
        return (
            self.ends_s < math.inf
            and now_s - self.began_s >= _RENEWAL_INTERVAL_S
            and len(frame) <= UNADMITTED_BYTES
            and frame.startswith(_HANDSHAKE)
        )


async def authenticate(
    stream: ImmediateStream,
    reader: FrameReader,
    sasl: SaslListener,
    versions: ServesVersions,
    take_turn: Callable[[], Awaitable[object]],
    *,
    first: bytes | None = None,
    only_user: str | None = None,
) -> Session:
    """Returns the new session.  Raises trio.BrokenResourceError if the peer fails; the caller closes the stream.

    `take_turn` is awaited before each step.  `first` is a request that has been read already.  `only_user`: who must
    authenticate, because it has before.
    """
    limit, reader.limit = reader.limit, min(reader.limit, UNADMITTED_BYTES)
    step = Step(b"", failure=f"not done within {sasl.time_limit_s:g} s")
    exchange = sasl.exchange(versions, only_user)
    with trio.move_on_after(sasl.time_limit_s):
        step = await _exchange(stream, reader, exchange, take_turn, first)
    reader.limit = limit
    if step.user is not None:
        now_s = trio.current_time()
        return Session(step.user, now_s, now_s + sasl.session_ms / 1000 if sasl.session_ms else math.inf)
    await trio.sleep(sasl.failure_delay_s)
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError), trio.move_on_after(_SEND_ANSWER_S):
        await stream.send_all(step.response)
    raise trio.BrokenResourceError(f"SASL: {step.failure}")


async def _exchange(
    stream: ImmediateStream,
    reader: FrameReader,
    exchange: SaslExchange,
    take_turn: Callable[[], Awaitable[object]],
    first: bytes | None,
) -> Step:
    """Answer request by request.  Returns the last step, whose answer has been sent only if nothing failed."""
    while True:
        try:
            frame, first = await reader.read() if first is None else first, None
        except (NetworkError, ProtocolError) as error:
            return Step(b"", failure=str(error))
        if frame is None:
            return Step(b"", failure="the peer closed the connection")
        await take_turn()
        step = exchange.receive(frame)
        if step.failure is not None:
            return step
        await stream.send_all(step.response)
        if step.user is not None:
            return step
