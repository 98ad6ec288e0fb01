"""Idempotent producers: tells new batches from retries (KIP-98).

The state is derived from the batch headers of the log.  So it survives leader changes and restarts, and is the same on
every replica.  Producer ids are random and need no record of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import attrs

from kraft_trio.protocol.refusals import Refusal

MAX_SEQUENCE = 2**31 - 1
"""The last sequence number; 0 follows it."""
REMEMBERED_BATCHES = 5
"""How many batches a producer may have in flight, and how far back a retry is recognized."""
DEFAULT_MAX_PRODUCERS = 100_000
PRODUCER_ID_BITS = 63
"""All bits of a non-negative int64.  A stranger who guesses an id can use up its owner's sequences."""

_SEQUENCES = MAX_SEQUENCE + 1
_OLDER_BATCHES = REMEMBERED_BATCHES - 1
_GAPS = 16
"""One in so many places of the table may be that of a forgotten producer."""


@attrs.frozen
class Accept:
    """The batch is new and in order, or carries no producer id."""


@attrs.frozen
class Duplicate:
    """The batch is already in the log, at these offsets (both inclusive).  `ProducerStates.timestamp_ms` tells when."""

    base_offset: int
    last_offset: int


@attrs.frozen
class Refuse:
    """The batch must not be appended: Kafka's error, and the reason for a human."""

    error: Refusal
    reason: str
    is_older: bool = False
    """Whether the sequences were appended before those still known, by this producer or by a stranger with its id."""


SequenceCheck: TypeAlias = Accept | Duplicate | Refuse

_ACCEPT = Accept()


@attrs.frozen
class RememberedBatch:
    """One appended batch of a producer; sequences and offsets are inclusive at both ends."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


_Batch: TypeAlias = tuple[int, int, int, int]
"""Base sequence, last sequence, base offset, last offset."""
_Producer: TypeAlias = tuple[int, tuple[_Batch, ...], int, bool]
"""Epoch, batches (at least one, newest last), timestamp, and whether the sequence passed MAX_SEQUENCE in this epoch.

A plain tuple, because each batch makes one.  Copies of the states share unchanged tuples."""


@attrs.frozen
class ProducerSummary:
    """The state of one producer, for a producer-state file."""

    producer_id: int
    producer_epoch: int
    batches: tuple[RememberedBatch, ...]
    """Oldest first, at least one."""
    timestamp_ms: int
    """Time of its newest batch in milliseconds since 1970; -1 if unknown."""


class ProducerStates:
    """The idempotent producers of one log.  Above `max_producers`, it forgets the one that has not written for longest.

    The log owns it and calls `record` in the step in which it appends.
    """

    __slots__ = ("_gaps", "_max_producers", "_producers")

    def __init__(self, max_producers: int = DEFAULT_MAX_PRODUCERS) -> None:
        if max_producers < 1:
            raise ValueError(f"max_producers: {max_producers}, expected 1 or more")
        self._max_producers = max_producers
        self._producers: dict[int, _Producer] = {}
        self._gaps = 0

    def __len__(self) -> int:
        return len(self._producers)

    def __contains__(self, producer_id: int) -> bool:
        """Whether a producer with that id has written."""
        return producer_id in self._producers

    def __iter__(self) -> Iterator[ProducerSummary]:
        """All producers, beginning with the one that has been silent longest."""
        for producer_id, (epoch, batches, timestamp_ms, _) in self._producers.items():
            yield ProducerSummary(producer_id, epoch, tuple(RememberedBatch(*batch) for batch in batches), timestamp_ms)

    def newest_batches(self) -> Iterator[tuple[int, int, int, int, int, int]]:
        """Each producer's id and epoch, and its newest batch's last sequence, offsets (inclusive) and timestamp.

        In the order of `__iter__`.  Plain numbers, because there may be 100,000 producers.
        """
        for producer_id, (epoch, batches, timestamp_ms, _) in self._producers.items():
            _, last_sequence, base_offset, last_offset = batches[-1]
            yield producer_id, epoch, last_sequence, base_offset, last_offset, timestamp_ms

    def timestamp_ms(self, producer_id: int) -> int:
        """Time of a known producer's newest batch in milliseconds since 1970; -1 if unknown."""
        return self._producers[producer_id][2]

    def newest_batch(self, producer_id: int) -> tuple[int, int] | None:
        """Epoch and last sequence (inclusive) of a producer's newest batch; None for an unknown producer."""
        producer = self._producers.get(producer_id)
        return None if producer is None else (producer[0], producer[1][-1][1])

    def check(self, producer_id: int, producer_epoch: int, base_sequence: int, record_count: int) -> SequenceCheck:
        """Decide what the leader does with a batch of `record_count` records.  Changes nothing."""
        if producer_id < 0:
            return _ACCEPT
        if producer_epoch < 0 or not 0 <= base_sequence <= MAX_SEQUENCE or record_count < 1:
            return Refuse(
                Refusal.INVALID_RECORD,
                f"producer {producer_id}: epoch {producer_epoch}, base sequence {base_sequence}, "
                f"{record_count} records; expected 0 or more, 0 or more, 1 or more",
            )
        producer = self._producers.get(producer_id)
        if producer is None:
            if base_sequence == 0:
                return _ACCEPT
            return Refuse(
                Refusal.UNKNOWN_PRODUCER_ID,
                f"producer {producer_id}: not known here, and base sequence {base_sequence} is not 0",
            )
        known_epoch, batches, _, wrapped = producer
        if producer_epoch == known_epoch:
            return _check_sequence(producer_id, batches, wrapped, base_sequence, record_count)
        if producer_epoch < known_epoch:
            return Refuse(
                Refusal.INVALID_PRODUCER_EPOCH, f"producer {producer_id}: epoch {producer_epoch} is below {known_epoch}"
            )
        if base_sequence != 0:
            return Refuse(
                Refusal.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id}: epoch {producer_epoch} starts at base sequence {base_sequence}, not 0",
            )
        return _ACCEPT

    def record(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        base_offset: int,
        last_offset: int,
        timestamp_ms: int = -1,
    ) -> None:
        """Note a batch that is now in the log, from `base_offset` to `last_offset` (inclusive).

        Ignores batches without a producer id or sequence, and those of a fenced epoch.
        """
        if producer_id < 0 or base_sequence < 0:
            return
        producers = self._producers
        producer = producers.pop(producer_id, None)
        batches: tuple[_Batch, ...] = ()
        wrapped = False
        if producer is None:
            if len(producers) >= self._max_producers:
                del producers[next(iter(producers))]
                self._gaps += 1
                if self._gaps * _GAPS > self._max_producers:
                    # Finding the oldest one passes over the places of those that were forgotten before.
                    producers = self._producers = dict(producers.items())
                    self._gaps = 0
        elif producer_epoch == producer[0]:
            _, batches, _, wrapped = producer
        elif producer_epoch < producer[0]:
            producers[producer_id] = producer
            return
        last_sequence = base_sequence + last_offset - base_offset
        if last_sequence > MAX_SEQUENCE:
            last_sequence -= _SEQUENCES
            wrapped = True
        elif base_sequence == 0 and batches:
            wrapped = True
        batch = (base_sequence, last_sequence, base_offset, last_offset)
        producers[producer_id] = (producer_epoch, (*batches[-_OLDER_BATCHES:], batch), timestamp_ms, wrapped)

    def copy(self) -> ProducerStates:
        """A copy that no longer follows this log.  Cheap, because both share the producers."""
        copied = ProducerStates(self._max_producers)
        copied._producers = self._producers.copy()
        return copied

    def clear(self) -> None:
        """Forget everything."""
        self._producers.clear()


def _check_sequence(
    producer_id: int, batches: tuple[_Batch, ...], wrapped: bool, base_sequence: int, record_count: int
) -> SequenceCheck:
    last_sequence = (base_sequence + record_count - 1) % _SEQUENCES
    for batch in batches:
        if batch[0] == base_sequence and batch[1] == last_sequence:
            return Duplicate(batch[2], batch[3])
    expected = (batches[-1][1] + 1) % _SEQUENCES
    if base_sequence == expected:
        return _ACCEPT
    oldest = batches[0][0]
    if wrapped:
        is_older = 0 < (oldest - last_sequence) % _SEQUENCES < _SEQUENCES // 2
    else:
        is_older = base_sequence <= last_sequence < oldest
    if is_older:
        # Clients take DUPLICATE_SEQUENCE_NUMBER for success.  None that has as many batches in flight as are remembered
        # sends an older one, so somebody else has used its sequences.
        return Refuse(
            Refusal.DUPLICATE_SEQUENCE_NUMBER
            if len(batches) < REMEMBERED_BATCHES
            else Refusal.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {producer_id}: sequences {base_sequence}-{last_sequence} were appended "
            f"before those still known, which start at {oldest}",
            is_older=True,
        )
    return Refuse(
        Refusal.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {producer_id}: base sequence {base_sequence}, expected {expected}",
    )


def new_producer_id(states: ProducerStates, draw: Callable[[int], int]) -> int:
    """Return a producer id that nobody can guess and that the log does not know; `draw(bits)` is random.

    Needs no log write.  A collision with a producer that has not written yet, or was forgotten, happens once in 10**13
    epochs of a million producers each.
    """
    while (producer_id := draw(PRODUCER_ID_BITS)) in states:
        pass
    return producer_id
