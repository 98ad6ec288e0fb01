"""Runs a StateMachine behind the interface of the node: encoded records in batches, and their snapshots."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Generator, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Final, Generic, Self, TypeVar
from uuid import UUID

import attrs
import trio

from kraft_trio.application.decoding import Decoding, OnBadRecord
from kraft_trio.application.machine_fault import MachineFault, loaded, saved
from kraft_trio.application.outcomes import Outcome, OutcomeSerde
from kraft_trio.application.request_records import load_requests, request_records
from kraft_trio.application.serde import Serde
from kraft_trio.application.state_machine import Committed, StateMachine
from kraft_trio.errors import CommandFailed, EncodeError, RefusedError, RequestTooOldError, SerdeError
from kraft_trio.logs import get_logger
from kraft_trio.messages import QuorumView
from kraft_trio.protocol.request_ids import request_id_from_bytes
from kraft_trio.protocol.request_table import AppliedRequest, RequestTable, Standing
from kraft_trio.storage.batches.batch import NewRecord, Record

T = TypeVar("T")
R = TypeVar("R")

log = get_logger(__name__)

REQUEST_HEADER: Final = "kraft.request"
"""The record header with a request id, 16 bytes.  Such a command is applied once, however often it is in the log."""
RULE_HEADER: Final = "kraft.request.rule"
"""The record header from which on the table of requests distrusts times (`RequestTable.distrust_times`)."""
RULE: Final = b"2"
CALL_HEADER: Final = "kraft.call"
"""The record header that tells a call of `Node.execute` without a request id from all others."""

_RECORDS_A_TURN: Final = 64
_BYTES_A_TURN: Final = 64 * 1024
"""Records of a batch, and bytes of them, that are applied before other tasks get a turn."""


@attrs.define(eq=False)
class Call(Generic[R]):
    """Gets, within its block, the outcome of one command on this replica."""

    _tag: bytes
    _calls: dict[bytes, list[Call[R]]]
    outcome: Outcome[R] | None = None

    def __enter__(self) -> Self:
        self._calls.setdefault(self._tag, []).append(self)
        return self

    def __exit__(self, *error: object) -> None:
        same = self._calls[self._tag]
        same.remove(self)
        if not same:
            del self._calls[self._tag]


class MachineAdapter(Generic[T, R]):
    """Decodes the records that StateMachineDriver gives it, and has the state machine apply them one by one.

    It owns the table of requests, which is part of the state: folded from the log, saved and loaded in snapshots.
    """

    def __init__(
        self,
        machine: StateMachine[T, R],
        serde: Serde[T],
        on_bad_record: OnBadRecord = "stop",
        skipped_offsets: Collection[int] = (),
    ) -> None:
        self._machine = machine
        self._decoding = Decoding(serde, on_bad_record, skipped_offsets)
        self._outcomes: OutcomeSerde[R] = OutcomeSerde(machine)
        self._requests = RequestTable()
        self._has_told_of_clocks = False
        self._calls: dict[bytes, list[Call[R]]] = {}
        self._in_steps: Callable[[Committed[T]], Generator[None, None, R] | None] | None
        self._in_steps = getattr(machine, "apply_in_steps", None)
        self._decoded: tuple[Sequence[Record], Sequence[Committed[T] | None]] | None = None
        """Records that do not take long, as `takes_long` has said, so that `on_commit` need not decode them again."""
        self._accepts: Callable[[Any], bool] | None = getattr(machine, "accepts", None)
        self.on_leader_change: Callable[[QuorumView], object] | None = getattr(machine, "on_leader_change", None)
        """The state machine's method of that name, if it has one."""

    @property
    def complaint(self) -> str | None:
        """What the state machine says is wrong with its state; None if nothing is, or if it cannot tell."""
        complaint: str | None = getattr(self._machine, "complaint", None)
        return complaint

    @property
    def skipped_records(self) -> int:
        """How many records this process has skipped, because the serde could not decode them."""
        return self._decoding.skipped_records

    def check_accepted(self, value: object, record: NewRecord) -> None:
        """Raises RefusedError if the state machine does not accept a value that this node is about to append."""
        if self._accepts is None:
            return
        timestamp_ms = -1 if record.timestamp_ms is None else record.timestamp_ms
        if not self._accepts(Committed(-1, timestamp_ms, value, record.key, record.headers)):
            raise RefusedError("value: not appended: the state machine does not accept it")

    def refusal_of(self, record: Record) -> str | None:
        """Why a record that a client has produced must not enter the log; None if it may."""
        try:
            check_request_header(record)
            proposed = self._decoding.decode_new(record)
        except EncodeError as error:
            return str(error)
        except SerdeError as error:
            return None if self._decoding.skips else str(error)
        is_accepted = self._accepts is None or self._accepts(proposed)
        return None if is_accepted else "the state machine does not accept it"

    def request_headers(self, request_id: UUID) -> tuple[tuple[str, bytes], ...]:
        """The headers of a record with that request.

        Each asks for the rule, because a node may later begin with a snapshot of version 1, which does not name it.
        """
        return (REQUEST_HEADER, request_id.bytes), (RULE_HEADER, RULE)

    def call(self, tag: bytes) -> Call[R]:
        """A call of the command whose header has this value."""
        return Call(tag, self._calls)

    def known(self, request_id: UUID, now_ms: int) -> Outcome[R] | None:
        """The outcome of a request whose outcome is certain already.  None means that it must be appended.

        The caller appends nothing then, so what the table says later makes no difference.  A table that trusts times
        is certain of what was applied only: the record of a request ends that.
        """
        standing = self._requests.standing(request_id, now_ms)
        is_certain = standing is Standing.APPLIED or self._requests.ahead_ms is not None
        return self._outcome_of(request_id, standing) if is_certain and standing is not Standing.NEW else None

    def takes_long(self, records: Sequence[Record]) -> bool:
        """Whether `on_commit` would let others run before it has applied these few records."""
        if sum(len(record.value or b"") for record in records) >= _BYTES_A_TURN:
            return True
        decoded = [self._decoding.decode(record) for record in records]
        if self._in_steps is not None and any(
            committed is not None and self._in_steps(committed) is not None for committed in decoded
        ):
            return True
        self._decoded = (records, decoded)
        return False

    async def on_commit(self, records: Sequence[Record]) -> None:
        """Apply the records of one batch, or of a part of it.  Lets others run, unless they are few and short.

        A command may take longer than `takes_long` has said, by what those before it in its batch have done.
        """
        given, decoded = self._decoded or (None, ())
        self._decoded = None
        is_prompt = given is records
        ahead = decoded if is_prompt else map(self._decoding.decode, records)
        number = size = 0
        for record, committed in zip(records, ahead, strict=True):
            number += 1
            size += len(record.value or b"")
            if committed is not None:
                for _ in self._take(record, committed):
                    if not is_prompt:
                        await trio.lowlevel.checkpoint()
                        number = size = 0
            if number >= _RECORDS_A_TURN or size >= _BYTES_A_TURN:
                await trio.lowlevel.checkpoint()
                number = size = 0

    def _take(self, record: Record, committed: Committed[T]) -> Generator[None, None, None]:
        """Apply a record, and yield where others may run."""
        tag, is_request = _tag_of(record) if record.headers else (None, False)
        if is_request and self._requests.ahead_ms is None and (RULE_HEADER, RULE) in record.headers:
            self._requests.distrust_times()
        if tag is None:
            yield from self._apply(committed)
            return
        outcome = yield from (self._take_request(tag, committed) if is_request else self._apply(committed))
        if outcome is not None and tag in self._calls:
            self._answer(tag, outcome)

    def _take_request(self, tag: bytes, record: Committed[T]) -> Generator[None, None, Outcome[R] | None]:
        """Apply a request if it is new.  Returns None if nobody waits for the outcome."""
        request_id = request_id_from_bytes(tag)
        if request_id is None:
            log.warning("not applied: no request id", offset=record.offset, header=tag[:32].hex())
            return None
        standing = self._requests.standing(request_id, record.timestamp_ms)
        if standing is not Standing.NEW:
            return self._outcome_of(request_id, standing) if tag in self._calls else None
        outcome = yield from self._apply(record)
        floor_ms = self._requests.floor_ms
        self._requests.add(AppliedRequest(request_id, record.timestamp_ms, self._outcomes.encode(outcome)))
        if self._requests.floor_ms < floor_ms and not self._has_told_of_clocks:
            self._has_told_of_clocks = True
            log.warning(
                "a clock was ahead or is behind; nodes of older builds refuse this request: upgrade all of them",
                offset=record.offset,
                floor_ms=floor_ms,
                timestamp_ms=record.timestamp_ms,
            )
        return outcome

    def _apply(self, record: Committed[T]) -> Generator[None, None, Outcome[R]]:
        try:
            steps = None if self._in_steps is None else self._in_steps(record)
            if steps is None:
                return Outcome(self._machine.apply(record))
            # Of a command before it in the same turn, little may be left.
            yield
            return Outcome((yield from steps))
        except CommandFailed as error:
            return Outcome(error=error)
        except GeneratorExit:
            raise
        except BaseException as error:
            raise MachineFault(error) from error

    def _outcome_of(self, request_id: UUID, standing: Standing) -> Outcome[R]:
        if standing is Standing.TOO_OLD:
            return Outcome(error=RequestTooOldError(f"request {request_id}: too old to know whether it was applied"))
        if standing is Standing.FROM_THE_FUTURE:
            return Outcome(error=RefusedError(f"request {request_id}: issued in the future, by a clock that is wrong"))
        applied = self._requests.get(request_id)
        assert applied is not None, f"request {request_id} is in the table"
        return self._outcomes.decode(applied.outcome)

    def _answer(self, tag: bytes, outcome: Outcome[R]) -> None:
        for call in self._calls.get(tag, ()):
            call.outcome = call.outcome or outcome

    def save(self) -> Iterable[NewRecord | bytes]:
        return request_records(self._requests, saved(self._machine.save))

    async def load(self, end_offset: int, records: AsyncIterator[Sequence[Record]]) -> None:
        async with aclosing(_one_by_one(records)) as single:
            requests, own = await load_requests(single)
            await loaded(self._machine.load(own))
        # Until then, what the table says was applied is not in this machine's state.
        self._requests = requests
        for tag in self._calls:
            request_id = request_id_from_bytes(tag)
            if request_id is not None and self._requests.get(request_id) is not None:
                self._answer(tag, self._outcome_of(request_id, Standing.APPLIED))


def check_request_header(record: Record | NewRecord) -> None:
    """Raises EncodeError for a request id that no replica could read: none would apply the command."""
    tag, is_request = _tag_of(record)
    if is_request and request_id_from_bytes(tag or b"") is None:
        shown = (tag or b"")[:32].hex()
        raise EncodeError(f"value: not appended: header {REQUEST_HEADER!r}: {shown}, expected a UUID of version 7")


def _tag_of(record: Record | NewRecord) -> tuple[bytes | None, bool]:
    """The value of the header that identifies the command, if any, and whether it is a request id."""
    for name, value in record.headers:
        if name in (REQUEST_HEADER, CALL_HEADER):
            return value or b"", name == REQUEST_HEADER
    return None, False


async def _one_by_one(records: AsyncIterator[Sequence[Record]]) -> AsyncGenerator[Record, None]:
    async for some in records:
        for record in some:
            yield record
