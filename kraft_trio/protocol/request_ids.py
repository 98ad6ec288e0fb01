"""Request ids: UUIDs of version 7 (RFC 9562), which tell when they were issued."""

from __future__ import annotations

from typing import Final
from uuid import UUID

_VERSION: Final = 7
RANDOM_BITS: Final = 74


def new_request_id(issued_at_ms: int, random_bits: int) -> UUID:
    """Make an id from milliseconds since 1970 and 74 random bits or more."""
    high, low = divmod(random_bits & ((1 << RANDOM_BITS) - 1), 1 << 62)
    return UUID(int=(issued_at_ms & ((1 << 48) - 1)) << 80 | _VERSION << 76 | high << 64 | 0b10 << 62 | low)


def issued_at_ms(request_id: UUID) -> int:
    """When the id was issued, in milliseconds since 1970."""
    return request_id.int >> 80


def is_request_id(request_id: object) -> bool:
    return isinstance(request_id, UUID) and request_id.version == _VERSION


def request_id_from_bytes(data: bytes) -> UUID | None:
    """The id of these bytes, or None if they are not a request id."""
    if len(data) != 16:
        return None
    request_id = UUID(bytes=data)
    return request_id if is_request_id(request_id) else None
