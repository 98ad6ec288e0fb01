from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kraft_trio.simulation.history import Outcome
from kraft_trio.simulation.invariants.evidence import Evidence
from kraft_trio.simulation.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.history import Operation
    from kraft_trio.simulation.replica import Replica
    from kraft_trio.storage.batch import Record


class AcknowledgedWrites(Invariant):
    """The log is the linearization: an append takes effect at its offset, once its high watermark passes.  So an
    acknowledged one is committed already, at the offsets it was told, and behind all that was acknowledged before it
    began; one that failed is nowhere, and no value is there twice (KIP-98: a retry is recognized).  A read gives the
    committed values from where it begins, without a gap; a linearizable one all of them that were acknowledged, or read
    by anybody, before it began.

    What a state machine was given stands for the committed log; where it lags behind a client, the comparison waits."""

    number = 21
    title = "acknowledged writes are never lost nor doubled, and histories are linearizable"

    def __init__(self, cluster: Cluster, evidence: Evidence) -> None:
        super().__init__(cluster, evidence)
        self._offsets: list[int] = []
        """Those of the application's committed records, ascending."""
        self._values: list[bytes] = []
        """Theirs."""
        self._offset_of: dict[bytes, int] = {}
        """Where a value that somebody appends by a registered operation stands."""
        self._failed: dict[bytes, Operation] = {}
        self._appended: dict[bytes, Operation] = {}
        self._acknowledged_end = 0
        self._seen_end = 0
        """Up to where appends were acknowledged, and up to where anybody has read."""
        self._floors: dict[str, int] = {}
        """By the operations under way: what was the seen end, for an append the acknowledged one, when they began."""
        self._waiting: list[Operation] = []
        """Ended operations that say of the log more than any state machine was given yet."""

    # What is in the log

    def applied(self, replica: Replica, base_offset: int, records: Sequence[Record]) -> None:
        fresh = [record for record in records if not self._offsets or record.offset > self._offsets[-1]]
        for record in fresh:
            value = record.value or b""
            self._offsets.append(record.offset)
            self._values.append(value)
            if value in self._appended:
                self._found(value, record.offset)
        if fresh and self._waiting:
            waiting, self._waiting = self._waiting, []
            for operation in waiting:
                self._check_ended(operation)

    def _found(self, value: bytes, offset: int) -> None:
        operation = self._appended[value]
        other_offset = self._offset_of.setdefault(value, offset)
        if other_offset != offset:
            fact = f"{value!r} of {operation.name} is committed at offset {other_offset}"
            self.violated(fact, f"it is committed at offset {offset} too", _nodes(operation))
        if value in self._failed:
            self.violated(f"{operation} has failed", f"{value!r} is committed at offset {offset}", _nodes(operation))

    # What clients were told

    def operation(self, operation: Operation) -> None:
        if operation.is_pending:
            self._invoked(operation)
            return
        floor = self._floors.pop(operation.name, 0)
        if operation.outcome is Outcome.FAIL:
            self._failed.update(dict.fromkeys(operation.values, operation))
            for value in operation.values:
                if value in self._offset_of:
                    self._found(value, self._offset_of[value])
        elif operation.outcome is Outcome.OK:
            if operation.from_offset is None and operation.values:
                self._check_acknowledged(operation, floor)
            elif operation.from_offset is not None:
                self._check_fresh(operation, floor)
            self._check_ended(operation)

    def _invoked(self, operation: Operation) -> None:
        is_read = operation.from_offset is not None
        self._floors[operation.name] = self._seen_end if is_read else self._acknowledged_end
        if not is_read:
            self._appended.update(dict.fromkeys(operation.values, operation))

    def _check_acknowledged(self, operation: Operation, floor: int) -> None:
        if len(operation.offsets) != len(operation.values):
            fact = f"{operation.name} appends {len(operation.values)} values"
            self.violated(fact, f"it was acknowledged at {len(operation.offsets)} offsets", _nodes(operation))
            return
        first, end = operation.offsets[0], operation.offsets[-1] + 1
        committed = self.evidence.committed.end
        if end > committed:
            self.violated(
                f"{operation} was acknowledged", f"no leader has committed beyond {committed}", _nodes(operation)
            )
        if first < floor:
            fact = f"offsets below {floor} were acknowledged before {operation.name} began"
            self.violated(fact, f"it took effect at offset {first}", _nodes(operation))
        self._acknowledged_end = max(self._acknowledged_end, end)
        self._seen_end = max(self._seen_end, end)

    def _check_fresh(self, operation: Operation, floor: int) -> None:
        assert operation.from_offset is not None
        end = operation.from_offset if operation.end_offset is None else operation.end_offset
        if operation.is_linearizable and end < floor:
            fact = f"up to offset {floor} the log was acknowledged or read before {operation.name} began"
            self.violated(fact, f"it is linearizable, and read up to offset {end}", _nodes(operation))
        if end > self.evidence.committed.end:
            fact = f"leaders have committed up to offset {self.evidence.committed.end}"
            self.violated(fact, f"{operation.name} read up to offset {end}", _nodes(operation))
        if operation.is_linearizable:
            self._seen_end = max(self._seen_end, end)

    # Comparing the two

    def _check_ended(self, operation: Operation) -> None:
        """Compare with the log, once that is known far enough."""
        known_end = self._offsets[-1] + 1 if self._offsets else 0
        if _end_of(operation) > known_end:
            self._waiting.append(operation)
        else:
            self._compare(operation)

    def _compare(self, operation: Operation) -> None:
        if operation.from_offset is not None:
            self._check_read(operation, operation.from_offset, _end_of(operation))
        else:
            for offset, value in zip(operation.offsets, operation.values, strict=True):
                self._check_stands(operation, offset, value)

    def _check_stands(self, operation: Operation, offset: int, value: bytes) -> None:
        index = bisect_left(self._offsets, offset)
        found = self._values[index] if index < len(self._offsets) and self._offsets[index] == offset else None
        if found != value:
            fact = f"{operation.name} was acknowledged: {value!r} at offset {offset}"
            stands = "no value of the application's" if found is None else repr(found)
            self.violated(fact, f"committed there is {stands}", _nodes(operation))

    def _check_read(self, operation: Operation, from_offset: int, end: int) -> None:
        first, last = bisect_left(self._offsets, from_offset), bisect_left(self._offsets, end)
        committed = tuple(self._values[first:last])
        if committed != operation.values:
            fact = f"{operation.name} read from offset {from_offset} to {end}: {_shown(operation.values)}"
            self.violated(fact, f"committed there is {_shown(committed)}", _nodes(operation))

    def finished(self) -> None:
        """Everything committed has been applied by now; only the quorum's own records may still come behind it."""
        for operation in self._waiting:
            self._compare(operation)


def _end_of(operation: Operation) -> int:
    """Up to where an operation that is ok says something of the application's values."""
    if operation.from_offset is None:
        return operation.offsets[-1] + 1 if operation.offsets else 0
    return operation.from_offset if operation.end_offset is None else operation.end_offset


def _nodes(operation: Operation) -> tuple[int, ...]:
    return () if operation.via is None else (operation.via,)


def _shown(values: Iterable[bytes]) -> str:
    shown = [repr(value) for value in values]
    return f"{len(shown)} values, " + " ".join(shown[:5] + ["…"] * (len(shown) > 5)) if shown else "nothing"
