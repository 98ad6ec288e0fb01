"""One accepted connection: requests in, answers out in the same order, each sent as soon as it is there."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import structlog
import trio

from kraft_trio.actors.answers import Answer, Worked
from kraft_trio.actors.request_router import RequestRouter
from kraft_trio.errors import NetworkError, ProtocolError, UnsupportedVersionError
from kraft_trio.wire.codec import RequestHeader, decode_request, encode_response_parts
from kraft_trio.wire.framing import FrameReader
from kraft_trio.wire.immediate_stream import ImmediateStream

log = structlog.get_logger(__name__)

IN_FLIGHT = 64


class ServerConnection:
    """Serves one connection until its peer closes it, breaks the protocol, or the server stops.

    Requests are handed to their owners in order.  An answer is encoded and sent in the step that gives it, so that
    nothing waits for a turn of the scheduler; only what the kernel does not take at once is left to the writer task,
    and the answers after it then wait unencoded.
    """

    def __init__(
        self,
        stream: ImmediateStream,
        listener_name: str,
        router: RequestRouter,
        *,
        initial_request_bytes: int,
        max_request_bytes: int,
    ) -> None:
        self._stream = stream
        self._listener_name = listener_name
        self._router = router
        self._reader = FrameReader(stream, initial_request_bytes)
        self._max_request_bytes = max_request_bytes
        self._answers: deque[tuple[RequestHeader, Answer]] = deque()
        self._room = trio.lowlevel.ParkingLot()
        self._unsent: list[bytes | memoryview] = []
        """Of one frame."""
        self._has_unsent = trio.lowlevel.ParkingLot()
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        """Serve; owns the stream and closes it."""
        try:
            async with self._stream, trio.open_nursery() as nursery:
                self._scope = nursery.cancel_scope
                nursery.start_soon(self._write)
                await self._read(nursery)
                nursery.cancel_scope.cancel()
        except* (NetworkError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except* (ProtocolError, UnsupportedVersionError) as group:
            reasons = "; ".join(map(str, group.exceptions))
            log.warning("connection closed", listener=self._listener_name, reason=reasons)
        finally:
            self._abandon_answers()

    async def _read(self, nursery: trio.Nursery) -> None:
        while (frame := await self._reader.read()) is not None:
            try:
                header, request = decode_request(frame)
            except UnsupportedVersionError as error:
                refused = self._router.refuse_version(error)
                if refused is None:
                    raise
                header, answer = refused
            else:
                self._reader.limit = self._max_request_bytes
                answer = await self._router.route(header, self._listener_name, request, asker=self)
            self._answers.append((header, answer))
            if isinstance(answer, Worked):
                nursery.start_soon(answer.work)
            answer.when_ready(self._flush)
            while len(self._answers) >= IN_FLIGHT or self._unsent:
                await self._room.park()

    def _flush(self) -> None:
        """Send the answers that are there, in the order of their requests."""
        answers = self._answers
        while answers and not self._unsent and answers[0][1].is_ready:
            header, answer = answers.popleft()
            try:
                response = answer.response()
                parts = (
                    []
                    if response is None
                    else encode_response_parts(header.api, header.version, header.correlation_id, response)
                )
            except Exception:
                # This runs in the step of whoever gave the answer: what one client asked must not end the leader.
                log.exception("answer cannot be sent, connection closed", api=header.api.name, version=header.version)
                self._give_up()
                return
            if parts:
                self._send(parts)
        if self._room:
            self._room.unpark_all()

    def _send(self, frame: list[bytes]) -> None:
        try:
            sent = self._stream.send_now(*frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._give_up()
            return
        self._unsent = _rest(frame, sent)
        if self._unsent:
            self._has_unsent.unpark_all()

    def _give_up(self) -> None:
        self._abandon_answers()
        self._scope.cancel()

    def _abandon_answers(self) -> None:
        """Tell those who still owe an answer that nobody waits for it."""
        while self._answers:
            _, answer = self._answers.popleft()
            answer.abandon()

    async def _write(self) -> None:
        """Send what could not be sent at once."""
        while True:
            while not self._unsent:
                await self._has_unsent.park()
            while self._unsent:
                await self._stream.wait_send_all_might_not_block()
                self._unsent = _rest(self._unsent, self._stream.send_now(*self._unsent))
            self._flush()


def _rest(parts: Sequence[bytes | memoryview], sent: int) -> list[bytes | memoryview]:
    """What is left of them after so many bytes."""
    for index, part in enumerate(parts):
        if sent < len(part):
            return [memoryview(part)[sent:], *parts[index + 1 :]]
        sent -= len(part)
    return []
