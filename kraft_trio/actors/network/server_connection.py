"""One accepted connection: it reads requests, and sends the responses in the same order."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio

from kraft_trio.actors.context.request_failures import RequestFailedError
from kraft_trio.actors.network.client_lane import (
    ANSWER_BYTES_PER_UNIT,
    HANDSHAKE_UNITS,
    ClientLanes,
    other_units,
    produce_units,
)
from kraft_trio.actors.network.listener_admission import is_of_replica
from kraft_trio.actors.network.request_router import RequestRouter
from kraft_trio.actors.peers.answers import Answer, Worked
from kraft_trio.actors.snapshots.snapshot_server import MAX_PIECE_BYTES
from kraft_trio.actors.waiting.memory_budget import MIN_ANSWER_BYTES, MemoryBudget
from kraft_trio.config.tls_fields import PrincipalRule
from kraft_trio.errors import (
    NetworkError,
    NodeClosedError,
    ProtocolError,
    StorageError,
    StorageFailure,
    UnsupportedVersionError,
)
from kraft_trio.limits.connection_limits import Activity
from kraft_trio.limits.refusals import Refusals
from kraft_trio.logs import get_logger
from kraft_trio.security.authorization import ANONYMOUS
from kraft_trio.wire.api import PRODUCE
from kraft_trio.wire.apis.fetch import FETCH, FetchRequest
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.codec import RequestHeader, decode_request, encode_response_parts
from kraft_trio.wire.frame_templates import Frames
from kraft_trio.wire.framing import FrameReader
from kraft_trio.wire.network import ImmediateStream

if TYPE_CHECKING:
    from kraft_trio.actors.network.sasl_authentication import Session
    from kraft_trio.security.sasl_listener import SaslListener

log = get_logger(__name__)

_PRODUCE: Final = PRODUCE.key.to_bytes(2, "big")
"""The first bytes of a Produce request."""

_BEGINNINGS: Final = 3
"""One of the first three requests of a replica is one that only replicas send.  It asks for versions before, and again
if its version of that is too new."""
_BEGINNING_BYTES: Final = 1024
"""The first requests of a replica are small.  Larger ones of a stranger have no part in what is kept for replicas, and
small ones take less than a fifth of it, with as many connections as there may be by default."""

_READS_LOG: Final = (FetchRequest, FetchSnapshotRequest)
MAX_READING_BYTES: Final = 16 * 1024
"""The largest request that reads the log.  It waits for memory while it holds its own: a few that held all of it would
wait for each other."""


@attrs.define
class _InFlight:
    """A request that has been routed."""

    header: RequestHeader
    answer: Answer
    held: int
    """Bytes of the memory budget to give back when the response is encoded."""


class ServerConnection:
    """Serves one connection until its peer closes it or breaks the protocol, or the server stops.

    Requests are routed in order.  A response is encoded and sent in the step that gives it, without a turn of the
    scheduler.  What the kernel does not take at once is left to the writer task, and later responses wait unencoded.

    A request that reads the log is routed only when its response would be the next to be sent.  The records are read in
    the step that sends them, so a connection never holds more than one such response.
    """

    def __init__(
        self,
        stream: ImmediateStream,
        listener_name: str,
        router: RequestRouter,
        *,
        lanes: ClientLanes,
        memory: MemoryBudget,
        refusals: Refusals,
        may_be_replica: bool,
        initial_request_bytes: int,
        max_request_bytes: int,
        max_in_flight: int = 64,
        sasl: SaslListener | None = None,
        principal_rules: Sequence[PrincipalRule] = (),
    ) -> None:
        """`may_be_replica`: this listener takes the quorum's own requests, which go before those of clients.

        `principal_rules` are those of `ssl.principal.mapping.rules`.
        """
        self._stream = stream
        self._principal_rules = principal_rules
        self.peer_host = stream.peer_host
        self._listener_name = listener_name
        self._router = router
        self._lanes = lanes
        self._memory = memory
        self._refusals = refusals
        self._may_be_replica = may_be_replica
        self.is_of_replica = False
        """Whether the peer has sent a request that only replicas send, and that the rules allow it."""
        self.software = ""
        """What the peer says that it runs (KIP-511)."""
        self._sasl = sasl
        self._session: Session | None = None
        """Set if the peer has authenticated with SASL and must do so again."""
        self.principal = ANONYMOUS
        """Who the peer is, as far as it has authenticated."""
        self._max_request_bytes = min(max_request_bytes, memory.per_connection)
        self._reader = FrameReader(stream, min(initial_request_bytes, self._max_request_bytes), self._admit)
        self._max_in_flight = max_in_flight
        self._fetches = Frames(FETCH)
        self._produces = Frames(PRODUCE)
        self._in_flight: deque[_InFlight] = deque()
        self._held = 0
        """Bytes of the memory budget that this connection holds."""
        self._admitted = 0
        """The part of `_held` for the frame that is being received."""
        self._arriving = 0
        """What to tell the memory budget when it has been received."""
        self._receives = False
        """Whether the connection waits for its peer and nothing else."""
        self._requests = 0
        self._beginnings = 0
        """The requests, valid or not, that may have been a replica's first ones."""
        self._sent = 0
        self._room = trio.lowlevel.ParkingLot()
        self._unsent: list[bytes | memoryview] = []
        """The rest of one frame."""
        self._unsent_held = 0
        self._has_unsent = trio.lowlevel.ParkingLot()
        self._scope = trio.CancelScope()
        self._failure: RequestFailedError | None = None

    async def run(self) -> None:
        """Serve, then close the stream.  Raises errors that the node must count or end with."""
        try:
            async with self._stream, trio.open_nursery() as nursery:
                self._scope = nursery.cancel_scope
                await self._start()
                nursery.start_soon(self._write)
                await self._read(nursery)
                nursery.cancel_scope.cancel()
        except* (NetworkError, NodeClosedError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except* (ProtocolError, UnsupportedVersionError) as group:
            self._refusals.malformed_requests += 1
            reasons = "; ".join(map(str, group.exceptions))
            log.warning("connection closed", listener=self._listener_name, peer=self.peer_host, reason=reasons)
        finally:
            self._abandon_answers()
            self._end_arrival()
            self._memory.give_back(self._held)
        if self._failure is not None:
            raise self._failure

    async def _start(self) -> None:
        """Do the handshakes of TLS and SASL.  Raises trio.BrokenResourceError if one fails.

        Raises ProtocolError if the certificate has no name that makes a principal.
        """
        try:
            await self._start_stream()
            certificate = self._stream.peer_certificate()
            if self._sasl is not None:
                from kraft_trio.actors.network.sasl_authentication import authenticate

                self._receives = True
                try:
                    session = await authenticate(self._stream, self._reader, self._sasl, self._router, self._take_turn)
                except trio.BrokenResourceError:
                    self._refusals.authentications += 1
                    raise
                self._requests += 1
                self.principal = session.principal
                self._session = session if session.ends_s < math.inf else None
            elif certificate is not None:
                from kraft_trio.security.principal import principal_of  # imports cryptography

                self.principal = principal_of(certificate, self._principal_rules)
        except trio.BrokenResourceError as error:
            self._tell_of_end(str(error))
            raise

    async def _start_stream(self) -> None:
        try:
            await self._stream.start(self._take_turn)
        except trio.BrokenResourceError:
            self._refusals.tls_handshakes += 1
            raise

    async def _take_turn(self) -> None:
        """Wait for a turn of the event loop in which one step of a handshake may be done.

        A replica that renews its login does not wait: its leader, or its vote, cannot wait for strangers either.
        """
        if self.is_of_replica:
            return
        lane = self._lanes.beginnings if self._may_be_replica else self._lanes.handshakes
        if not lane.enter_now(HANDSHAKE_UNITS):
            await lane.enter(HANDSHAKE_UNITS, self.peer_host)

    def review(self) -> None:
        """Take the priority of replicas from a peer that changed rules no longer let be one."""
        self.is_of_replica = self.is_of_replica and self._router.trusts(self)

    def close(self) -> None:
        """End the connection from outside."""
        self._scope.cancel()

    @property
    def activity(self) -> Activity:
        return Activity(
            requests=self._requests,
            received=self._reader.bytes_received,
            is_within_frame=self._receives and self._reader.is_within_frame,
            unanswered=len(self._in_flight),
            sent=self._sent,
            has_unsent=bool(self._unsent),
            peer_has_closed=not self._receives and self._stream.peer_has_closed(),
        )

    def answer_room(self) -> int:
        """How many bytes may be read for a response that is sent in the same step."""
        return self._memory.answer_room(for_replica=self.is_of_replica)

    # In

    async def _read(self, nursery: trio.Nursery) -> None:
        """Read requests and pass each on; one loop without helpers, because it runs for every request."""
        fetches, produces = self._fetches, self._produces
        frame: bytes | None
        request: Any
        answer: Answer | None
        while True:
            self._receives = True
            # What was served gave its memory back, and must not take it until the next request comes.
            frame = request = answer = None
            frame = await self._reader.read()
            self._receives = False
            if frame is None:
                return
            if self._session is not None and await self._has_renewed(self._session, frame):
                continue
            held = len(frame)
            if is_admitted := self._admitted > 0:
                self._end_arrival()
            # A replica that connects must not wait for all clients, whatever they send and however long they hold it.
            is_beginning = (
                self._may_be_replica
                and not self.is_of_replica
                and self._beginnings < _BEGINNINGS
                and held <= _BEGINNING_BYTES
            )
            if not self.is_of_replica:
                self._beginnings += 1
                if is_beginning:
                    lane, units = self._lanes.beginnings, other_units(held)
                elif frame.startswith(_PRODUCE):
                    lane, units = self._lanes.produce, produce_units(held)
                else:
                    lane, units = self._lanes.others, other_units(held)
                if not lane.enter_now(units):
                    await lane.enter(units, self.peer_host)
            if not is_admitted:
                if self._held + held > self._memory.per_connection:
                    await self._wait_for_share(held)
                for_replica = self.is_of_replica or is_beginning
                if not self._memory.take_now(held, for_replica=for_replica):
                    await self._memory.take(held, for_replica=for_replica, address=self.peer_host)
                self._held += held
            try:
                if self.is_of_replica:
                    header, request = fetches.decode_request(frame)
                elif frame.startswith(_PRODUCE):
                    header, request = produces.decode_request(frame)
                else:
                    header, request = decode_request(frame)
            except UnsupportedVersionError as error:
                header, answer = self._router.refuse_version(error, self._listener_name)
            else:
                self._reader.limit = self._max_request_bytes
                self._requests += 1
                if self._may_be_replica and not self.is_of_replica:
                    self.is_of_replica = is_of_replica(request) and self._router.trusts(self)
                if isinstance(request, _READS_LOG):
                    if held > MAX_READING_BYTES:
                        raise ProtocolError(f"{header.api.name}: {held} bytes, at most {MAX_READING_BYTES} are allowed")
                    held += await self._wait_to_read_log(request)
                answer = await self._router.route(header, self._listener_name, request, asker=self)
            self._in_flight.append(_InFlight(header, answer, held))
            if isinstance(answer, Worked):
                nursery.start_soon(answer.work)
            answer.when_ready(self._flush)
            while len(self._in_flight) >= self._max_in_flight or self._unsent:
                self._refusals.pauses += 1
                await self._room.park()

    async def _has_renewed(self, session: Session, frame: bytes) -> bool:
        """Authenticate again if the request asks for that, or close the connection if the session has ended (KIP-368).

        Raises trio.BrokenResourceError.
        """
        now_s = trio.current_time()
        if session.may_be_renewed(frame, now_s):
            from kraft_trio.actors.network.sasl_authentication import authenticate

            assert self._sasl is not None, "a session without SASL"
            while self._in_flight or self._unsent:
                await self._room.park()
            self._receives = True
            try:
                self._session = await authenticate(
                    self._stream,
                    self._reader,
                    self._sasl,
                    self._router,
                    self._take_turn,
                    first=frame,
                    only_user=session.user,
                )
            except trio.BrokenResourceError as error:
                self._refusals.authentications += 1
                self._tell_of_end(str(error))
                raise
            self._requests += 1
            return True
        if now_s >= session.ends_s:
            self._refusals.expired_sessions += 1
            reason = "the session has ended, and its client has not authenticated again"
            self._tell_of_end(reason)
            raise trio.BrokenResourceError(reason)
        return False

    def _tell_of_end(self, reason: str) -> None:
        log.warning("connection closed", listener=self._listener_name, peer=self.peer_host, reason=reason)

    async def _wait_to_read_log(self, request: FetchRequest | FetchSnapshotRequest) -> int:
        """Wait until the answer would be the next to be sent, and until there is memory for it.

        Returns how many bytes of the memory budget this has taken.
        """
        while self._in_flight or self._unsent:
            await self._room.park()
        if isinstance(request, FetchSnapshotRequest):
            return await self._take_for_piece()
        if not self.answer_room():
            await self._wait_for_answer_room()
        return 0

    async def _admit(self, size: int) -> None:
        """Wait for memory for a large frame, in this connection's share and in the whole budget."""
        self._receives = False
        if self._held + size > self._memory.per_connection:
            await self._wait_for_share(size)
        if self.is_of_replica:
            await self._memory.take(size, for_replica=True, address=self.peer_host)
        else:
            self._arriving = await self._memory.take_for_arrival(size, self.peer_host)
        self._held += size
        self._admitted = size
        self._receives = True

    async def _wait_for_share(self, size: int) -> None:
        """Wait until this connection may hold so many bytes more: it holds too many now."""
        self._memory.waits += 1
        while self._held + size > self._memory.per_connection:
            await self._room.park()

    def _end_arrival(self) -> None:
        """The frame that was being received, if any, is here or will never be."""
        if self._arriving:
            self._memory.arrived(self._arriving)
        self._admitted = self._arriving = 0

    async def _take_for_piece(self) -> int:
        size = min(MAX_PIECE_BYTES, self._memory.per_connection)
        await self._memory.take(size, for_replica=self.is_of_replica, address=self.peer_host)
        self._held += size
        return size

    async def _wait_for_answer_room(self) -> None:
        """Wait for a turn in the budget.  The memory itself is taken when there is something to read."""
        await self._memory.take(MIN_ANSWER_BYTES, for_replica=self.is_of_replica, address=self.peer_host)
        self._memory.give_back(MIN_ANSWER_BYTES)

    # Out

    def _flush(self) -> None:
        """Send the responses that are ready, in the order of their requests."""
        in_flight = self._in_flight
        while in_flight and not self._unsent and in_flight[0].answer.is_ready:
            done = in_flight.popleft()
            header = done.header
            try:
                response = done.answer.response()
                if header.api is FETCH:
                    parts = self._fetches.encode_response_parts(header.version, header.correlation_id, response)
                elif response is None:
                    parts = []
                elif header.api is PRODUCE:
                    parts = self._produces.encode_response_parts(header.version, header.correlation_id, response)
                else:
                    parts = encode_response_parts(header.api, header.version, header.correlation_id, response)
            except (StorageError, StorageFailure):
                raise
            except Exception as error:
                # This runs in a step of the actor that answered: one client's request must not end the leader.
                self._failure = RequestFailedError(f"{header.api.name} v{header.version}: no answer can be made")
                self._failure.__cause__ = error
                self._give_up()
                return
            finally:
                self._held -= done.held
                self._memory.give_back(done.held)
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
        self._sent += sent
        if sent >= ANSWER_BYTES_PER_UNIT and not self.is_of_replica:
            self._lanes.others.charge(sent // ANSWER_BYTES_PER_UNIT)
        if len(frame) == 1 and sent == len(frame[0]):
            return
        self._unsent = _rest(frame, sent)
        if self._unsent:
            self._unsent_held = sum(map(len, self._unsent))
            self._memory.take_beyond(self._unsent_held)
            self._held += self._unsent_held
            self._has_unsent.unpark_all()

    def _give_up(self) -> None:
        self._abandon_answers()
        self._scope.cancel()

    def _abandon_answers(self) -> None:
        """Drop all answers that were not sent."""
        while self._in_flight:
            self._in_flight.popleft().answer.abandon()

    async def _write(self) -> None:
        """Send what the kernel did not take at once."""
        while True:
            while not self._unsent:
                await self._has_unsent.park()
            while self._unsent:
                await self._stream.wait_send_all_might_not_block()
                sent = self._stream.send_now(*self._unsent)
                self._sent += sent
                self._unsent = _rest(self._unsent, sent)
            self._held -= self._unsent_held
            self._memory.give_back(self._unsent_held)
            self._flush()


def _rest(parts: Sequence[bytes | memoryview], sent: int) -> list[bytes | memoryview]:
    """What is left of the parts after `sent` bytes."""
    for index, part in enumerate(parts):
        if sent < len(part):
            return [memoryview(part)[sent:], *parts[index + 1 :]]
        sent -= len(part)
    return []
