"""Apache Kafka's metadata records (KIP-631): a frame around a message, which has a schema.

The frame is three unsigned varints before the message: frame version 1, the record's API key and its version.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final
from uuid import UUID

import attrs

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import directory_id_to_text
from kraft_trio.wire.metadata_schemas import SCHEMAS, record_reader
from kraft_trio.wire.schema import Field, Structure

MAX_ELEMENTS: Final = 100_000
"""The most array elements and tagged fields in one record."""

_FRAME_VERSION = 1
_MAX_VARINT_BYTES = 5


@attrs.frozen
class MetadataFrame:
    """One framed record.  `message` is everything after the frame."""

    api_key: int
    version: int
    message: bytes

    @property
    def name(self) -> str:
        """The record's name, or UNKNOWN(key)."""
        schema = SCHEMAS.get(self.api_key)
        return f"UNKNOWN({self.api_key})" if schema is None else schema.type_name

    def record(self) -> Any:
        """Decode the message into the class that `metadata_schemas` declares for it.

        Raises ProtocolError for an unknown record or version, and for a message that does not follow the schema.
        """
        try:
            read = record_reader(self.api_key, self.version)
        except ValueError as error:
            raise ProtocolError(str(error)) from error
        return read(self.message, 0, MAX_ELEMENTS)

    def fields(self) -> dict[str, Any]:
        """Decode the message.  The fields have the names and the JSON values that Kafka's tools give them.

        Like there, a tagged field is left out if it has its default.  Raises ProtocolError as `record` does.
        """
        record = self.record()
        return _shown(SCHEMAS[self.api_key].structure(self.version), record)


def frame_start(api_key: int) -> bytes:
    """The first two bytes of a framed record with an API key below 128."""
    return bytes((_FRAME_VERSION, api_key))


def kafkas_name(name: str) -> str:
    """The name that Kafka's tools have for a field: `broker_id` is brokerId."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _shown(structure: Structure, record: Any) -> dict[str, Any]:
    values = [(field, getattr(record, field.attribute or field.name)) for field in structure.all_fields]
    return {
        kafkas_name(field.name): _value(field, value)
        for field, value in values
        if field.tag is None or value != field.default
    }


def _value(field: Field, value: Any) -> Any:
    if field.is_array and value is not None:
        return [_element(field, element) for element in value]
    return _element(field, value)


def _element(field: Field, value: Any) -> Any:
    if field.structure is not None:
        return _shown(field.structure, value)
    if isinstance(value, UUID):
        return directory_id_to_text(value)
    return b64encode(value).decode() if isinstance(value, bytes) else value


def decode_metadata_frame(value: bytes) -> MetadataFrame:
    """Split a record's value into frame and message.  Raises ProtocolError unless it has a frame of version 1."""
    if len(value) > 2 and value[0] == _FRAME_VERSION and value[1] < 0x80 and value[2] < 0x80:
        return MetadataFrame(value[1], value[2], value[3:])
    frame_version, position = _unsigned_varint(value, 0)
    if frame_version != _FRAME_VERSION:
        raise ProtocolError(f"metadata frame: version {frame_version}, expected {_FRAME_VERSION}")
    api_key, position = _unsigned_varint(value, position)
    version, position = _unsigned_varint(value, position)
    return MetadataFrame(api_key, version, value[position:])


def _unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(data[position : position + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise ProtocolError(f"metadata frame: the integer at position {position} does not end")
