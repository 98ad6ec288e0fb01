"""The client's side of one connection: it agrees on versions, then sends requests that are answered in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar, cast

import trio

from kraft_trio.errors import ApiNotServedError, NetworkError, ProtocolError, UnsupportedVersionError
from kraft_trio.wire.apis.api_versions import (
    API_VERSIONS,
    ApiRange,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from kraft_trio.wire.apis.fetch import FETCH, FetchRequest
from kraft_trio.wire.codec import decode_response, encode_request, response_correlation_id
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.frame_templates import Frames
from kraft_trio.wire.framing import Frame, FrameReader
from kraft_trio.wire.network import Session

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

_CORRELATION_IDS: Final = 2**31


class Connection:
    """A connection to one peer, for one task at a time.

    It owns the stream.  It closes the stream in `aclose`, and also after any failure, since later answers could then
    not be trusted.
    """

    def __init__(self, stream: trio.abc.Stream, client_id: str, limit: int, apis: tuple[ApiRange, ...] = ()) -> None:
        self._stream = stream
        self._reader = FrameReader(stream, limit)
        self._client_id = client_id
        self._fetches = Frames(FETCH)
        self._correlation_id = -1
        self._busy = False
        self._session: Session | None = getattr(stream, "session", None)
        self._early: deque[bytes] = deque()
        """Responses received before they were asked for, because the session had to be renewed."""
        self._unanswered: deque[tuple[int, int]] = deque()
        """Version and correlation id of each request that `begin` sent, in order."""
        self.usable = True
        """False once the stream is closed."""
        self.peer_versions: Mapping[int, ApiRange] = {api.key: api for api in apis}
        self.api_versions = ApiVersionsResponse(apis=apis)
        """The peer's whole answer to ApiVersions, including features."""

    @classmethod
    async def negotiated(cls, stream: trio.abc.Stream, client_id: str, limit: int) -> Connection:
        """Own the stream from now on and ask the peer for its versions (KIP-35).

        `limit` is the largest accepted response in bytes.  Raises what `request` raises, and UnsupportedVersionError if
        there is no common version of ApiVersions.  The stream is closed after an error and after a cancellation.
        """
        connection = cls(stream, client_id, limit)
        try:
            await connection._negotiate()
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return connection

    async def request(self, api: Api[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """Send a request in the highest common version and wait for its response.

        Raises

        - UnsupportedVersionError, with nothing sent, if no common version can carry the request,
        - NetworkError if the connection breaks or is closed,
        - ProtocolError if the answer is malformed.

        After the latter two, and after a cancellation, the stream is closed, and the request may or may not have taken
        effect.
        """
        return await self._exchange(api, negotiate(api, self.peer_versions), request)

    async def begin(self, api: Api[RequestT, ResponseT], request: RequestT) -> None:
        """Send a request without waiting for the response.

        The caller calls `finish` once for each request, in order, and sends nothing else until then.  Raises what
        `request` raises.
        """
        await self._begin(api, negotiate(api, self.peer_versions), request)

    async def finish(self, api: Api[RequestT, ResponseT]) -> ResponseT:
        """Wait for the response to the oldest unanswered request of `begin`; `api` is the API of that request.

        Raises NetworkError and ProtocolError.  The stream is closed after an error and after a cancellation.
        """
        return await self._finish(api, self._reader.read)

    async def finish_lent(self, api: Api[RequestT, ResponseT]) -> ResponseT:
        """Like `finish`, but do not copy the byte strings of a large response.

        They are valid until the next request is begun or response asked for.
        """
        return await self._finish(api, self._reader.read_lent)

    async def _finish(self, api: Api[RequestT, ResponseT], read: Callable[[], Awaitable[Frame | None]]) -> ResponseT:
        self._check_free(api)
        version, correlation_id = self._unanswered.popleft()
        self._busy = True
        try:
            frame: Frame | None = self._early.popleft() if self._early else await read()
            if frame is None:
                raise NetworkError(f"{api.name}: the peer closed the connection instead of answering")
            return self._decode(api, version, correlation_id, frame)
        except BaseException:
            self.usable = False
            await trio.aclose_forcefully(self._stream)
            raise
        finally:
            self._busy = False

    async def aclose(self) -> None:
        """Close the stream.  May be called again."""
        self.usable = False
        await self._stream.aclose()

    async def _negotiate(self) -> None:
        """Ask in our highest version.  A peer that does not know it answers in version 0 with those that it knows."""
        response = await self._exchange(API_VERSIONS, API_VERSIONS.max_version, ApiVersionsRequest())
        if response.error == ErrorCode.unsupported_version:
            ranges = {api.key: api for api in response.apis}
            version = negotiate(API_VERSIONS, ranges) if API_VERSIONS.key in ranges else 0
            response = await self._exchange(API_VERSIONS, version, ApiVersionsRequest())
        if response.error != ErrorCode.none:
            raise ProtocolError(f"ApiVersions: the peer answers {response.error.name}")
        self.api_versions = response
        self.peer_versions = {api.key: api for api in response.apis}

    async def _exchange(self, api: Api[RequestT, ResponseT], version: int, request: RequestT) -> ResponseT:
        self._check_free(api)
        assert not self._unanswered, "one request at a time, unless they are begun and finished"
        await self._begin(api, version, request)
        return await self.finish(api)

    async def _renew(self, session: Session) -> None:
        """Authenticate again, after the responses to earlier requests.  Raises NetworkError."""
        self._session = None  # The exchange itself needs none.
        unanswered, self._unanswered = self._unanswered, deque()
        try:
            while len(self._early) < len(unanswered):
                frame = await self._reader.read()
                if frame is None:
                    raise NetworkError("the peer closed the connection instead of answering")
                self._early.append(frame)
            early, self._early = self._early, deque()
            await session.renew(self)
        except BaseException:
            self.usable = False
            await trio.aclose_forcefully(self._stream)
            raise
        self._session, self._unanswered, self._early = session, unanswered, early

    async def _begin(self, api: Api[RequestT, ResponseT], version: int, request: RequestT) -> None:
        self._check_free(api)
        if self._session is not None and trio.current_time() >= self._session.due_s:
            await self._renew(self._session)
        self._correlation_id = (self._correlation_id + 1) % _CORRELATION_IDS
        if api is FETCH:
            fetch = cast(FetchRequest, request)
            frame = self._fetches.encode_request(version, self._correlation_id, self._client_id, fetch)
        else:
            frame = encode_request(api, version, self._correlation_id, self._client_id, request)
        self._unanswered.append((version, self._correlation_id))
        self._busy = True
        try:
            await self._send(frame)
        except BaseException:
            self.usable = False
            await trio.aclose_forcefully(self._stream)
            raise
        finally:
            self._busy = False

    def _check_free(self, api: Api[RequestT, ResponseT]) -> None:
        if not self.usable:
            raise NetworkError(f"{api.name}: the connection is closed")
        assert not self._busy, "one task at a time"

    async def _send(self, frame: bytes) -> None:
        try:
            await self._stream.send_all(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise NetworkError(f"connection broken: {error}") from error

    def _decode(self, api: Api[RequestT, ResponseT], version: int, asked: int, frame: Frame) -> ResponseT:
        correlation_id = response_correlation_id(frame)
        if correlation_id != asked:
            raise ProtocolError(f"{api.name}: answer to request {correlation_id}, but {asked} was asked")
        if api.key == API_VERSIONS.key and _is_too_new(frame):
            version = 0
        if api is FETCH and isinstance(frame, bytes):
            return cast(ResponseT, self._fetches.decode_response(version, frame))
        return decode_response(api, version, frame)[1]


def _is_too_new(frame: Frame) -> bool:
    """Whether an ApiVersions response begins with UNSUPPORTED_VERSION; it is then in version 0 (KIP-511)."""
    return frame[4:6] == int(ErrorCode.unsupported_version).to_bytes(2, "big")


def negotiate(api: Api[Any, Any], peer_ranges: Mapping[int, ApiRange]) -> int:
    """The highest common version of `api` (KIP-35).  Raises UnsupportedVersionError if there is none."""
    theirs = peer_ranges.get(api.key)
    if theirs is None:
        raise ApiNotServedError(f"{api.name}: the peer does not serve it")
    version = min(api.max_version, theirs.max_version)
    if version < max(api.min_version, theirs.min_version):
        raise UnsupportedVersionError(
            f"{api.name}: the peer serves versions {theirs.min_version} to {theirs.max_version}, "
            f"we speak {api.min_version} to {api.max_version}"
        )
    return version
