"""`Api`: one API of the protocol, its versions, and the conversion of its messages to and from `Fields`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, TypeAlias, TypeVar

import attrs

from kraft_trio.errors import ProtocolError, UnsupportedVersionError
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import EntityShape, Fields, message_shape
from kraft_trio.wire.schema_reader import Reader, message_reader
from kraft_trio.wire.schema_writer import Chunks, Writer, entity_writer

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
_Kind: TypeAlias = Literal["request", "response"]


@attrs.frozen(eq=False, repr=False)
class Api(Generic[RequestT, ResponseT]):
    """One API.  Our values are independent of the version; the wire has versions `min_version` to `max_version`.

    `fields_of_request(request, version)` may return more fields than the version has.  It raises
    UnsupportedVersionError if the version cannot express the request.  `request_of_fields(fields, version)` raises
    ProtocolError.
    """

    key: int
    name: str
    schema: str
    """The fields of its requests and responses, as `kraft_trio/wire/schema.py` describes them."""
    min_version: int
    max_version: int
    flexible_version: int
    """The first version with compact types and tagged fields (KIP-482)."""
    fields_of_request: Callable[[RequestT, int], Fields]
    request_of_fields: Callable[[Fields, int], RequestT]
    fields_of_response: Callable[[ResponseT, int], Fields]
    response_of_fields: Callable[[Fields, int], ResponseT]
    error_response: Callable[[ErrorCode, str | None], ResponseT]
    """Makes the response that reports an error of the whole request, with a message if the API has a field for one."""
    advertised_min_version: int = attrs.field(
        default=attrs.Factory(lambda self: self.min_version, takes_self=True), kw_only=True
    )
    """The lowest version in ApiVersions.  It is below `min_version` only if clients misread the real value."""
    response_header_is_always_0: bool = attrs.field(default=False, kw_only=True)
    _readers: dict[tuple[_Kind, int], Reader] = attrs.field(factory=dict, init=False)
    _writers: dict[tuple[_Kind, int], Writer] = attrs.field(factory=dict, init=False)

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
        write = self._writers.get(("request", version)) or self._compiled_writer("request", version)
        write(chunks, self.fields_of_request(request, version))

    def decode_request(self, version: int, frame: bytes, position: int, elements_left: int) -> RequestT:
        """Read the frame from `position` on; it may hold `elements_left` array elements and tagged fields.

        Raises ProtocolError naming API, version and field.
        """
        read = self._readers.get(("request", version)) or self._compiled_reader("request", version)
        try:
            return self.request_of_fields(read(frame, position, elements_left), version)
        except ProtocolError as error:
            raise ProtocolError(f"{self.name} v{version} request: {error}") from None

    def encode_response(self, response: ResponseT, version: int, chunks: Chunks) -> None:
        """Append the response's bytes, without a header."""
        write = self._writers.get(("response", version)) or self._compiled_writer("response", version)
        write(chunks, self.fields_of_response(response, version))

    def decode_response(self, version: int, frame: bytes | bytearray, position: int, elements_left: int) -> ResponseT:
        """Read the frame from `position` on; it may hold `elements_left` array elements and tagged fields.

        Raises ProtocolError naming API, version and field.
        """
        read = self._readers.get(("response", version)) or self._compiled_reader("response", version)
        try:
            return self.response_of_fields(read(frame, position, elements_left), version)
        except ProtocolError as error:
            raise ProtocolError(f"{self.name} v{version} response: {error}") from None

    def _compiled_writer(self, kind: _Kind, version: int) -> Writer:
        return self._writers.setdefault((kind, version), entity_writer(self.shape(kind, version)))

    def _compiled_reader(self, kind: _Kind, version: int) -> Reader:
        return self._readers.setdefault((kind, version), message_reader(self.shape(kind, version)))

    def shape(self, kind: _Kind, version: int) -> EntityShape:
        """The fields of a request or response.  Raises UnsupportedVersionError."""
        if not self.supports(version):
            raise UnsupportedVersionError(
                f"{self.name}: version {version} is not among {self.min_version} to {self.max_version}"
            )
        flexible = version >= self.flexible_version
        return message_shape(self.schema, self.name, kind, version, flexible=flexible)
