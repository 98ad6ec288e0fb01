"""The authentication of an accepted connection, within a time limit, before its first request is routed."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import trio

from kraft_trio.errors import NetworkError, ProtocolError
from kraft_trio.security.sasl_listener import SaslListener
from kraft_trio.security.sasl_server import SaslExchange, ServesVersions, Step
from kraft_trio.wire.framing import UNADMITTED_BYTES, FrameReader
from kraft_trio.wire.network import ImmediateStream

_SEND_ANSWER_S: Final = 1.0
"""The time limit for the answer to a failed exchange."""


async def authenticate(
    stream: ImmediateStream, reader: FrameReader, sasl: SaslListener, versions: ServesVersions
) -> str:
    """Returns the principal.  Raises trio.BrokenResourceError if the peer fails; the caller closes the stream."""
    limit, reader.limit = reader.limit, min(reader.limit, UNADMITTED_BYTES)
    step = Step(b"", failure=f"not done within {sasl.time_limit_s:g} s")
    exchange = sasl.exchange(versions)
    with trio.move_on_after(sasl.time_limit_s):
        step = await _exchange(stream, reader, exchange)
    reader.limit = limit
    if step.user is not None:
        return f"User:{step.user}"
    await trio.sleep(sasl.failure_delay_s)
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError), trio.move_on_after(_SEND_ANSWER_S):
        await stream.send_all(step.response)
    raise trio.BrokenResourceError(f"SASL: {step.failure}")


async def _exchange(stream: ImmediateStream, reader: FrameReader, exchange: SaslExchange) -> Step:
    """Answer request by request.  Returns the last step, whose answer has been sent only if nothing failed."""
    while True:
        try:
            frame = await reader.read()
        except (NetworkError, ProtocolError) as error:
            return Step(b"", failure=str(error))
        if frame is None:
            return Step(b"", failure="the peer closed the connection")
        step = exchange.receive(frame)
        if step.failure is not None:
            return step
        await stream.send_all(step.response)
        if step.user is not None:
            return step
