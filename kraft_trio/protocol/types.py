"""The nouns of the protocol as frozen values: replica keys, offsets with epochs, endpoints.

From KIP-595 (offsets and epochs), and KIP-853 "Voters" and "Directory id" (replica keys, endpoints).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

import attrs

NO_DIRECTORY_ID = UUID(int=0)
"""The unknown directory id, which static voters and peers older than KIP-853 have."""


def directory_id_to_text(directory_id: UUID) -> str:
    """Kafka's text form of a UUID: 22 characters of unpadded URL-safe base64."""
    return base64.urlsafe_b64encode(directory_id.bytes).decode("ascii").rstrip("=")


def directory_id_from_text(text: str) -> UUID:
    """Read Kafka's text form of a UUID.

    Raises ValueError, naming the text, if it is not 22 characters of unpadded URL-safe base64.
    """
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except ValueError:
        raw = b""
    if len(raw) != 16 or len(text) != 22:
        raise ValueError(f"{text!r} is not a UUID as Kafka writes it: expected 22 characters of URL-safe base64")
    return UUID(bytes=raw)


@attrs.frozen(order=True, cache_hash=True)
class ReplicaKey:
    """One incarnation of a replica: its id and the id of its formatted directory (KIP-853)."""

    id: int
    directory_id: UUID = NO_DIRECTORY_ID

    def names(self, id: int, directory_id: UUID) -> bool:
        """Whether (id, directory_id) is this replica.  An unknown directory id on either side matches any."""
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
    it.  Comparison operators compare offsets first.  Votes compare epochs first, with `is_at_least_as_up_to_date_as`.
    """

    offset: int
    epoch: int

    def is_at_least_as_up_to_date_as(self, other: OffsetAndEpoch) -> bool:
        """Compare logs for a vote (KIP-595 "Vote"): by epoch, then by length."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)

    def __str__(self) -> str:
        return f"{self.offset}@{self.epoch}"


@attrs.frozen(order=True)
class Endpoint:
    """The address of a listener: a host name or IP address, and a TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _sorted_items(items: Mapping[str, Endpoint] | Iterable[tuple[str, Endpoint]]) -> tuple[tuple[str, Endpoint], ...]:
    pairs = items.items() if isinstance(items, Mapping) else items
    return tuple((name, endpoint) for name, endpoint in pairs)


@attrs.frozen
class Endpoints:
    """The endpoints of one replica by listener name, in the given order; the first is the default."""

    items: tuple[tuple[str, Endpoint], ...] = attrs.field(default=(), converter=_sorted_items)

    def get(self, listener_name: str) -> Endpoint | None:
        """The endpoint of that listener, or None if the replica has no such listener."""
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
