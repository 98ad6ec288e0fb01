"""The nouns of the protocol: replica keys, offsets with epochs, endpoints.

All of them are frozen values, compared by content.  Sources: KIP-595 (offsets and epochs), KIP-853 "Voters" and
"Directory id" (replica keys, endpoints).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

import attrs

NO_DIRECTORY_ID = UUID(int=0)
"""The directory id that stands for "unknown": static voters and peers older than KIP-853 carry it."""


def directory_id_to_text(directory_id: UUID) -> str:
    """Kafka's text form of a UUID: 22 characters of unpadded URL-safe base64."""
    return base64.urlsafe_b64encode(directory_id.bytes).decode("ascii").rstrip("=")


def directory_id_from_text(text: str) -> UUID:
    """Read Kafka's text form of a UUID.

    Raises ValueError, naming the text, unless it is 22 characters of unpadded URL-safe base64.
    """
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except ValueError:
        raw = b""
    if len(raw) != 16 or len(text) != 22:
        raise ValueError(f"{text!r} is not a UUID as Kafka writes it: expected 22 characters of URL-safe base64")
    return UUID(bytes=raw)


@attrs.frozen(order=True)
class ReplicaKey:
    """One incarnation of a replica: its id and the id of the log directory it was formatted with (KIP-853)."""

    id: int
    directory_id: UUID = NO_DIRECTORY_ID

    def names(self, id: int, directory_id: UUID) -> bool:
        """Whether (id, directory_id) is this replica, an unknown directory id on either side matching any."""
        return self.id == id and (
            self.directory_id == directory_id or NO_DIRECTORY_ID in (self.directory_id, directory_id)
        )

    def __str__(self) -> str:
        if self.directory_id == NO_DIRECTORY_ID:
            return str(self.id)
        return f"{self.id}-{directory_id_to_text(self.directory_id)}"


@attrs.frozen(order=True)
class OffsetAndEpoch:
    """An offset and the leader epoch that belongs to it.

    As a log end, `offset` is exclusive (the next offset to be written) and `epoch` is that of the last record before
    it.  Logs are compared for votes by (epoch, offset); the field order makes comparison operators compare offsets
    first, so use `is_at_least_as_up_to_date_as` for votes.
    """

    offset: int
    epoch: int

    def is_at_least_as_up_to_date_as(self, other: OffsetAndEpoch) -> bool:
        """KIP-595 "Vote": the later epoch wins; in one epoch, the longer log."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)

    def __str__(self) -> str:
        return f"{self.offset}@{self.epoch}"


@attrs.frozen(order=True)
class Endpoint:
    """Where a listener can be reached: a host name or address, and a TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _sorted_items(items: Mapping[str, Endpoint] | Iterable[tuple[str, Endpoint]]) -> tuple[tuple[str, Endpoint], ...]:
    pairs = items.items() if isinstance(items, Mapping) else items
    return tuple((name, endpoint) for name, endpoint in pairs)


@attrs.frozen
class Endpoints:
    """The endpoints of one replica, by listener name, in the order they were given (the first is the default)."""

    items: tuple[tuple[str, Endpoint], ...] = attrs.field(default=(), converter=_sorted_items)

    def get(self, listener_name: str) -> Endpoint | None:
        """The endpoint of that listener; None where the replica has none of that name."""
        return next((endpoint for name, endpoint in self.items if name == listener_name), None)

    def __iter__(self) -> Iterator[tuple[str, Endpoint]]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@attrs.frozen
class VersionRange:
    """The versions of a feature that a replica supports, both ends inclusive."""

    minimum: int = 0
    maximum: int = 0

    def includes(self, version: int) -> bool:
        return self.minimum <= version <= self.maximum
