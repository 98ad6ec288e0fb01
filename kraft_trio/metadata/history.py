"""Applies the records of a log in their order, with their transactions (KIP-868), and says what each one changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from kraft_trio.errors import ProtocolError
from kraft_trio.metadata.columns import why_undecodable
from kraft_trio.metadata.image import Change, Image
from kraft_trio.metadata.replay import replay
from kraft_trio.protocol.metadata_transactions import MARKERS, TransactionFold
from kraft_trio.storage.batches.control_records import LeaderChange, decode_control_record
from kraft_trio.wire.metadata_frame import decode_metadata_frame
from kraft_trio.wire.metadata_schemas import record_type_name


@attrs.frozen
class Origin:
    """Where a record is in the log.  A snapshot's has neither an offset nor a time."""

    offset: int | None
    epoch: int | None
    timestamp_us: int | None


@attrs.frozen
class Election:
    """Who leads an epoch, and when its clock said that it began."""

    leader_id: int
    timestamp_us: int | None


@attrs.frozen
class Made:
    """What one record changed.  Records of a transaction count when that has ended, in their order."""

    origin: Origin
    record: str
    """The record's type as Kafka's tools name it, such as PARTITION_CHANGE_RECORD."""
    changes: tuple[Change, ...]
    controller: int | None = None
    """The leader of the record's epoch, if the log tells."""


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
    elections: dict[int, Election] = attrs.field(factory=dict)
    """By epoch, as the log tells."""
    newest: Origin = Origin(None, None, None)
    """Of the last record that was added."""
    _transaction: TransactionFold[tuple[Origin, Any]] = attrs.field(factory=TransactionFold)

    def copy(self) -> History:
        """One that continues from here by itself."""
        return History(self.image.copy(), dict(self.elections), self.newest, self._transaction.copy())

    def add_control(self, origin: Origin, key: bytes | None, value: bytes | None) -> None:
        """Apply the next record if it is a control record."""
        self.newest = origin
        try:
            record = decode_control_record(key, value)
        except ProtocolError:
            return  # What it says is of the quorum, and checked there.
        if isinstance(record, LeaderChange) and origin.epoch is not None:
            self.elections[origin.epoch] = Election(record.leader_id, origin.timestamp_us)

    def add(self, origin: Origin, value: bytes | None) -> Sequence[Made | Problem]:
        """Apply the next record, and return what the records changed that count from now on, or what is wrong."""
        self.newest = origin
        try:
            frame = decode_metadata_frame(value or b"")
        except ProtocolError as error:
            return (Problem(origin, str(error)),)
        try:
            record = frame.record()
        except ProtocolError as error:
            return (Problem(origin, why_undecodable(frame, error)[0]),)
        if frame.api_key in MARKERS and (problem := self._transaction.problem(frame.api_key)) is not None:
            return (Problem(origin, f"{type(record).__name__}: {problem}", frame.name),)
        steps: list[Made | Problem] = []
        for place, counting in self._transaction.add(frame.api_key, (origin, record)):
            try:
                changes = replay(self.image, counting)
            except ProtocolError as error:
                steps.append(Problem(place, str(error), record_type_name(type(counting))))
            else:
                if changes:
                    steps.append(Made(place, record_type_name(type(counting)), tuple(changes), self._controller(place)))
        return steps

    def _controller(self, origin: Origin) -> int | None:
        elected = None if origin.epoch is None else self.elections.get(origin.epoch)
        return None if elected is None else elected.leader_id
