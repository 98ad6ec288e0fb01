"""`Api`: one API of the protocol, its versions, and the classes of its messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, TypeAlias, TypeVar

import attrs

from kraft_trio.errors import ProtocolError, UnsupportedVersionError
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Structure, structure_of
from kraft_trio.wire.schema_reader import Reader, message_reader
from kraft_trio.wire.schema_writer import Chunks, Writer, message_writer

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
Side: TypeAlias = Literal["request", "response"]


@attrs.frozen(eq=False, repr=False)
class Api(Generic[RequestT, ResponseT]):
    """One API.  Our values are independent of the version; the wire has versions `min_version` to `max_version`."""

    key: int
    name: str
    request: type[RequestT]
    """The class of its requests, which declares their fields with the words of `kraft_trio/wire/fields.py`."""
    response: type[ResponseT]
    min_version: int
    max_version: int
    flexible_version: int
    """The first version with compact types and tagged fields (KIP-482)."""
    error_response: Callable[[ErrorCode, str | None], ResponseT]
    """Makes the response that reports an error of the whole request, with a message if the API has a field for one."""
    advertised_min_version: int = attrs.field(
        default=attrs.Factory(lambda self: self.min_version, takes_self=True), kw_only=True
    )
    """The lowest version in ApiVersions.  It is below `min_version` only if clients misread the real value."""
    response_header_is_always_0: bool = attrs.field(default=False, kw_only=True)
    _readers: dict[tuple[Side, int], Reader] = attrs.field(factory=dict, init=False)
    _writers: dict[tuple[Side, int], Writer] = attrs.field(factory=dict, init=False)

    def __repr__(self) -> str:
        return f"<Api {self.name} {self.min_version}-{self.max_version}>"

    def supports(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    def request_header_version(self, version: int) -> int:
        return 2 if version >= self.flexible_version else 1

    def response_header_version(self, version: int) -> int:
        return 1 if version >= self.flexible_version and not self.response_header_is_always_0 else 0

    def encode_request(self, request: RequestT, version: int, chunks: Chunks) -> None:
        """Append the request's bytes, without a header.  Raises UnsupportedVersionError."""
        write = self._writers.get(("request", version)) or self.writer("request", version)
        write(chunks, request)

    def decode_request(self, version: int, frame: bytes, position: int, elements_left: int) -> RequestT:
        """Read the frame from `position` on; it may hold `elements_left` array elements and tagged fields.

        Raises ProtocolError naming API, version and field.
        """
        read = self._readers.get(("request", version)) or self.reader("request", version)
        try:
            request: RequestT = read(frame, position, elements_left)
        except ProtocolError as error:
            raise ProtocolError(f"{self.name} v{version} request: {error}") from None
        return request

    def encode_response(self, response: ResponseT, version: int, chunks: Chunks) -> None:
        """Append the response's bytes, without a header."""
        write = self._writers.get(("response", version)) or self.writer("response", version)
        write(chunks, response)

    def decode_response(self, version: int, frame: bytes | bytearray, position: int, elements_left: int) -> ResponseT:
        """Read the frame from `position` on; it may hold `elements_left` array elements and tagged fields.

        Raises ProtocolError naming API, version and field.
        """
        read = self._readers.get(("response", version)) or self.reader("response", version)
        try:
            response: ResponseT = read(frame, position, elements_left)
        except ProtocolError as error:
            raise ProtocolError(f"{self.name} v{version} response: {error}") from None
        return response

    def writer(self, side: Side, version: int) -> Writer:
        """The function that writes its requests or responses.  Raises UnsupportedVersionError."""
        writer = self._writers.get((side, version))
        if writer is None:
            writer = self._writers[side, version] = message_writer(self.structure(side, version), self._title(side))
        return writer

    def reader(self, side: Side, version: int) -> Reader:
        """The function that reads its requests or responses.  Raises UnsupportedVersionError."""
        reader = self._readers.get((side, version))
        if reader is None:
            reader = self._readers[side, version] = message_reader(self.structure(side, version), self._title(side))
        return reader

    def _title(self, side: Side) -> str:
        return self.name + side.capitalize()

    def structure(self, side: Side, version: int) -> Structure:
        """The fields of a request or response.  Raises UnsupportedVersionError."""
        if not self.supports(version):
            raise UnsupportedVersionError(
                f"{self.name}: version {version} is not among {self.min_version} to {self.max_version}"
            )
        message = self.request if side == "request" else self.response
        return structure_of(message, version, flexible=version >= self.flexible_version)
