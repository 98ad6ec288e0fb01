"""The frames of one API on one connection, of which most differ from the last one in a few values.

A template is a frame that the general codec made, cut at the values that the class marks as VARIES; those are numbers
of one partition, and records.  One `struct` call makes or reads the next such frame.  Whatever a template does not fit
goes through the general codec.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from struct import Struct
from typing import Any, Final, Generic, TypeVar

import attrs

from kraft_trio.wire.codec import (
    PART_BYTES,
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    encode_response_parts,
)
from kraft_trio.wire.descriptor import Api, Side
from kraft_trio.wire.fields import FORMATS
from kraft_trio.wire.schema import Field, Form
from kraft_trio.wire.writer_source import unsigned_varint

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

LENGTH_BYTES: Final = 4
MAX_TEMPLATE_BYTES: Final = 4096
"""Limit for a frame without its records.  A connection keeps a few templates for as long as it is open."""
_CORRELATION_ID: Final = 0x5AC3_96E1
_MARKS: Final = {
    "i": (0x3C5A_A596,),
    "q": (0x1E87_A5D2_4B96_3CF1, 0x2D69_B4E1_5AC3_87D2, 0x4BF0_96C3_1DA5_78E6),
}
"""Values that mark where in a frame a field is, by the format of the field."""
_RECORDS: Final = b"\x96\xe1\x3c\x5a\xd2\x87\xb4\x69" * 2
_ONE_BYTE_VARINT: Final = 0x80
_LARGEST_SHIFT: Final = 28
"""Of the last byte of a length."""


class _Variation:
    """What varies in one version of an API's requests or responses, and how to get the rest of a message."""

    def __init__(self, api: Api[Any, Any], side: Side, version: int) -> None:
        structure = api.structure(side, version)
        (array,) = (field for field in structure.members if field.form is Form.GROUPS)
        assert array.structure is not None
        inner = array.structure.members[-1].structure
        assert inner is not None
        assert structure.make is not None
        assert inner.make is not None
        self.is_flexible = structure.flexible
        varying = [field for field in (*inner.members, *inner.tagged) if field.varies]
        numbers = [field for field in varying if field.is_fixed]
        self.message_type, self.element_type = structure.make.type, inner.make.type
        self.array = str(array.attribute)
        self.elements: Callable[[Any], Sequence[Any]] = attrgetter(self.array)
        self.names = [str(field.attribute) for field in numbers]
        self.formats = [FORMATS[field.kind] for field in numbers]
        self.marks = _marks(self.formats)
        self.values = _getter(self.names)
        self.records = next((str(field.attribute) for field in varying if not field.is_fixed), None)
        self.unsent = _unsent(numbers)
        """Places of values that are tagged fields, with the value that is not sent."""
        arguments = [one.name for one in attrs.fields(self.element_type)]
        self.places = [arguments.index(name) for name in self.names]
        self.records_place = None if self.records is None else arguments.index(self.records)
        self.array_place = [one.name for one in attrs.fields(self.message_type)].index(self.array)
        self.rest = _all_but(self.message_type, [self.array])
        self.element_rest = _all_but(self.element_type, [str(field.attribute) for field in varying])


_variation = lru_cache(maxsize=64)(_Variation)


def _marks(formats: Sequence[str]) -> list[int]:
    unused = {format: iter(marks) for format, marks in _MARKS.items()}
    return [next(unused[format]) for format in formats]


def _unsent(fields: Sequence[Field]) -> list[tuple[int, Any]]:
    return [(place, field.default) for place, field in enumerate(fields) if field.tag is not None]


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) == 1:
        only = attrgetter(*names)
        return lambda value: (only(value),)
    return attrgetter(*names) if names else lambda value: ()


def _all_but(cls: Any, names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    return _getter([one.name for one in attrs.fields(cls) if one.name not in names])


class _Template:
    """A frame for one partition.  The values that vary may differ, and the correlation id."""

    def __init__(self, variation: _Variation, message: Any, constants: list[bytes], end: bytes | None) -> None:
        element = variation.elements(message)[0]
        self._variation = variation
        self._rest, self._element_rest = variation.rest(message), variation.element_rest(element)
        self._arguments = list(attrs.astuple(message, recurse=False))
        self._element_arguments = list(attrs.astuple(element, recurse=False))
        self._constants = tuple(constants)
        self._end = end
        formats = zip(constants, ["i", *variation.formats, ""], strict=True)
        layout = "".join(f"{len(constant)}s{format}" for constant, format in formats)
        self._head = Struct(">" + layout)
        self._frame_head = Struct(">i" + layout)
        self._pieces: list[Any] = [piece for constant in constants for piece in (0, constant)]
        """The arguments of `_frame_head`: values at even places, and the constants between them."""

    @classmethod
    def like(cls, variation: _Variation, encode: Callable[[Any], bytes], message: Any) -> _Template | None:
        """None if nothing varies in the frame of the message, or if it is too large."""
        elements = variation.elements(message)
        if not variation.is_flexible or len(elements) != 1:
            return None
        values = variation.values(elements[0])
        if any(values[place] == unsent for place, unsent in variation.unsent):
            return None
        marked = attrs.evolve(elements[0], **dict(zip(variation.names, variation.marks, strict=True)))
        if variation.records is not None:
            # Without the records, which may be large.
            marked = attrs.evolve(marked, **{variation.records: _RECORDS})
        message = attrs.evolve(message, **{variation.array: (marked,)})
        formats = zip(variation.formats, variation.marks, strict=True)
        marks = [_CORRELATION_ID.to_bytes(4, "big"), *(Struct(">" + format).pack(mark) for format, mark in formats)]
        frame = encode(message)[LENGTH_BYTES:]
        if variation.records is None:
            gaps = _gaps(frame, *marks)
            return None if gaps is None else cls(variation, message, gaps, None)
        gaps = _gaps(frame, *marks, _RECORDS)
        if gaps is None:
            return None
        *constants, last, end = gaps
        # The length of the records is before them.
        return cls(variation, message, [*constants, last[:-1]], end)

    def parts(self, correlation_id: int, message: Any) -> list[bytes] | None:
        """The frame of a message, length included, in parts to send; None if the template does not fit."""
        variation = self._variation
        elements = variation.elements(message)
        if len(elements) != 1 or variation.rest(message) != self._rest:
            return None
        (element,) = elements
        if variation.element_rest(element) != self._element_rest:
            return None
        values = variation.values(element)
        for place, unsent in variation.unsent:
            if values[place] == unsent:
                return None
        pieces = self._pieces
        if variation.records is None:
            pieces[::2] = (self._head.size, correlation_id, *values)
            return [self._frame_head.pack(*pieces)]
        records = getattr(element, variation.records)
        if records is None:
            return None
        length, end = unsigned_varint(len(records) + 1), self._end
        assert end is not None
        pieces[::2] = (self._head.size + len(length) + len(records) + len(end), correlation_id, *values)
        head = self._frame_head.pack(*pieces)
        if len(records) < PART_BYTES:
            return [b"".join((head, length, records, end))]
        return [head + length, records, end]

    def read(self, frame: bytes) -> tuple[int, Any] | None:
        """The correlation id and the message in a frame without its length; None if the template does not fit."""
        head, end, variation = self._head, self._end, self._variation
        if len(frame) <= head.size if end is not None else len(frame) != head.size:
            return None
        found = head.unpack_from(frame)
        if found[::2] != self._constants:
            return None
        arguments = self._element_arguments.copy()
        at = 3
        for place in variation.places:
            arguments[place] = found[at]
            at += 2
        if end is not None:
            records = _last_bytes(frame, head.size, end)
            if records is None:
                return None
            assert variation.records_place is not None
            arguments[variation.records_place] = records
        message = self._arguments.copy()
        message[variation.array_place] = (variation.element_type(*arguments),)
        return found[1], variation.message_type(*message)


def _gaps(frame: bytes, *marks: bytes) -> list[bytes] | None:
    """The parts between the marks, in their order.  None unless each mark is there once, and if they are too large."""
    if len(frame) > MAX_TEMPLATE_BYTES:
        return None
    found = []
    for mark in marks:
        if frame.count(mark) != 1:
            return None
        gap, _, frame = frame.partition(mark)
        found.append(gap)
    return [*found, frame]


def _last_bytes(frame: bytes, position: int, end: bytes) -> bytes | None:
    """The compact byte string at `position`, which `end` follows, and nothing more.  None if the frame differs."""
    start, size, shift = position, 0, 0
    length = len(frame)
    while True:
        if start == length or shift > _LARGEST_SHIFT:
            return None
        byte = frame[start]
        start += 1
        size |= (byte & 0x7F) << shift
        if byte < _ONE_BYTE_VARINT:
            break
        shift += 7
    # Compact lengths are one more, and 0 means null.
    stop = start + size - 1
    if not size or size > length or frame[stop:] != end or unsigned_varint(size) != frame[position:start]:
        return None
    return frame[start:stop]


class _Last:
    """The newest template, and when to make another: the more rarely, the more often none of them has fitted."""

    __slots__ = ("_misses", "client_id", "template", "version")

    def __init__(self) -> None:
        self.template: _Template | None = None
        self.version = -1
        self.client_id: str | None = None
        self._misses = 0

    def fitted(self) -> None:
        self._misses = 0

    def is_due(self, version: int, client_id: str | None = None) -> bool:
        """Note that the template did not fit.  Returns whether to make another: after 1, 2, 4, 8 … misses in a row."""
        self._misses += 1
        if self._misses & (self._misses - 1):
            return False
        self.template, self.version, self.client_id = None, version, client_id
        return True


class Frames(Generic[RequestT, ResponseT]):
    """Encodes and decodes the frames of one API on one connection, of the client or the server.

    Only for APIs whose class marks values as VARIES.  The methods return and raise what the functions of the same names
    in `wire/codec.py` do.
    """

    __slots__ = ("_api", "_requests", "_responses")

    def __init__(self, api: Api[RequestT, ResponseT]) -> None:
        self._api = api
        self._requests = _Last()
        self._responses = _Last()

    def encode_request(self, version: int, correlation_id: int, client_id: str, request: RequestT) -> bytes:
        last = self._requests
        if last.template is not None and version == last.version and client_id == last.client_id:
            parts = last.template.parts(correlation_id, request)
            if parts is not None:
                last.fitted()
                return parts[0] if len(parts) == 1 else b"".join(parts)
        self._missed_request(version, client_id, request)
        return encode_request(self._api, version, correlation_id, client_id, request)

    def decode_request(self, frame: bytes) -> tuple[RequestHeader, Any]:
        """Also decodes the requests of other APIs."""
        last = self._requests
        if last.template is not None:
            read = last.template.read(frame)
            if read is not None:
                last.fitted()
                return RequestHeader(self._api, last.version, read[0], last.client_id), read[1]
        header, request = decode_request(frame)
        if header.api is self._api:
            self._missed_request(header.version, header.client_id, request)
        return header, request

    def _missed_request(self, version: int, client_id: str | None, request: RequestT) -> None:
        if self._requests.is_due(version, client_id):
            encode = partial(encode_request, self._api, version, _CORRELATION_ID, client_id)
            self._requests.template = _Template.like(_variation(self._api, "request", version), encode, request)

    def encode_response_parts(self, version: int, correlation_id: int, response: ResponseT) -> list[bytes]:
        last = self._responses
        if last.template is not None and version == last.version:
            parts = last.template.parts(correlation_id, response)
            if parts is not None:
                last.fitted()
                return parts
        self._missed_response(version, response)
        return encode_response_parts(self._api, version, correlation_id, response)

    def decode_response(self, version: int, frame: bytes) -> ResponseT:
        """Without the correlation id."""
        last = self._responses
        if last.template is not None and version == last.version:
            read = last.template.read(frame)
            if read is not None:
                last.fitted()
                known: ResponseT = read[1]
                return known
        response = decode_response(self._api, version, frame)[1]
        self._missed_response(version, response)
        return response

    def _missed_response(self, version: int, response: ResponseT) -> None:
        if self._responses.is_due(version):
            encode = partial(encode_response, self._api, version, _CORRELATION_ID)
            self._responses.template = _Template.like(_variation(self._api, "response", version), encode, response)
