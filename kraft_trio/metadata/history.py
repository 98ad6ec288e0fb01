"""Applies metadata records in their order, with their transactions (KIP-868), and says what each one changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from kraft_trio.errors import ProtocolError
from kraft_trio.metadata.image import Change, Image
from kraft_trio.metadata.replay import replay
from kraft_trio.protocol.metadata_transactions import TransactionFold
from kraft_trio.wire.metadata_frame import decode_metadata_frame


@attrs.frozen
class Origin:
    """Where a record is in the log."""

    offset: int
    epoch: int
    timestamp_us: int | None


@attrs.frozen
class Made:
    """What one record changed.  Records of a transaction count when that has ended, in their order."""

    origin: Origin
    record: str
    """The record's type as Kafka's tools name it, such as PARTITION_CHANGE_RECORD."""
    changes: tuple[Change, ...]


@attrs.frozen
class Problem:
    """A record that could not be applied.  The image is as before."""

    origin: Origin
    reason: str
    record: str | None = None
    """The record's type if it was decoded, and Kafka refuses what it says."""


@attrs.define
class History:
    """The image after all records that were added and count so far."""

    image: Image = attrs.field(factory=Image)
    _transaction: TransactionFold[tuple[Origin, str, Any]] = attrs.field(factory=TransactionFold)

    @property
    def is_in_transaction(self) -> bool:
        """Whether records wait for the end of a transaction."""
        return self._transaction.is_open

    def copy(self) -> History:
        """One that continues from here by itself."""
        return History(self.image.copy(), self._transaction.copy())

    def add(self, origin: Origin, value: bytes | None) -> Iterator[Made | Problem]:
        """Apply the next record.  Consume the result before the next call."""
        name = ""
        try:
            frame = decode_metadata_frame(value or b"")
            name = f"{frame.name}: "
            record = frame.record()
        except ProtocolError as error:
            yield Problem(origin, f"{name}{error}")
            return
        for place, name, counting in self._transaction.add(frame.api_key, (origin, frame.name, record)):
            try:
                changes = replay(self.image, counting)
            except ProtocolError as error:
                yield Problem(place, str(error), name)
            else:
                if changes:
                    yield Made(place, name, tuple(changes))
