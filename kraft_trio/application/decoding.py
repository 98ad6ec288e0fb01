"""Decodes committed records, and does what the application has chosen with those that its serde cannot decode."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Generic, Literal, TypeVar, get_args

from kraft_trio.application.serde import Serde
from kraft_trio.application.state_machine import Committed
from kraft_trio.errors import BadRecordError, SerdeError
from kraft_trio.logs import get_logger
from kraft_trio.storage.batches.batch import Record

T = TypeVar("T")

log = get_logger(__name__)

OnBadRecord = Literal["stop", "skip"]
ON_BAD_RECORD: Final[tuple[str, ...]] = get_args(OnBadRecord)

_SHOWN_BYTES: Final = 64


class Decoding(Generic[T]):
    """Decodes the records of one reader."""

    def __init__(self, serde: Serde[T], on_bad_record: OnBadRecord, skipped_offsets: Collection[int] = ()) -> None:
        """A record at one of `skipped_offsets` is skipped if it cannot be decoded, and must not be decodable."""
        self._serde = serde
        self.skips = on_bad_record == "skip"
        self._skipped_offsets = frozenset(skipped_offsets)
        self.skipped_records = 0
        """How many records could not be decoded and were skipped."""
        self._skipped_offset = -1
        """That of the last one."""

    def decode(self, record: Record) -> Committed[T] | None:
        """Decode a record, perhaps once more; None if it is skipped.  Raises BadRecordError."""
        value = record.value or b""
        try:
            decoded = self._serde.decode(value)
        except SerdeError as error:
            shown = value[:_SHOWN_BYTES].hex() + ("…" if len(value) > _SHOWN_BYTES else "")
            if not self.skips and record.offset not in self._skipped_offsets:
                raise BadRecordError(
                    f"the record at offset {record.offset} cannot be decoded: {error}; its {len(value)} bytes: {shown}"
                ) from error
            if record.offset > self._skipped_offset:
                self._skipped_offset = record.offset
                self.skipped_records += 1
                log.warning("record skipped", offset=record.offset, reason=str(error), size=len(value), value=shown)
            return None
        if record.offset in self._skipped_offsets:
            raise BadRecordError(
                f"the record at offset {record.offset} can be decoded: kraft.state.machine.skip.offsets names it, so "
                "other nodes, of another version, may have passed over it"
            )
        return Committed(record.offset, record.timestamp_ms, decoded, record.key, record.headers, record.leader_epoch)

    def decode_new(self, record: Record) -> Committed[T]:
        """Decode a record that is not in the log yet; its offset will be -1.  Raises SerdeError."""
        decoded = self._serde.decode(record.value or b"")
        return Committed(-1, record.timestamp_ms, decoded, record.key, record.headers)
