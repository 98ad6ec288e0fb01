"""Executes commands: appends each one, waits until this replica has applied it, and returns its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

import trio

from kraft_trio.actors.application.appender import Appender
from kraft_trio.actors.application.state_machine_driver import StateMachineDriver
from kraft_trio.application.machine_adapter import CALL_HEADER, REQUEST_HEADER, RULE_HEADER, Call, MachineAdapter
from kraft_trio.application.outcomes import Outcome
from kraft_trio.errors import NodeClosedError, NotAppendedError, OutcomeUnknownError, ResultLostError
from kraft_trio.protocol.request_ids import is_request_id
from kraft_trio.storage.batches.batch import NewRecord
from kraft_trio.storage.batches.new_record_check import check_new_record

R = TypeVar("R")

RETRY_S: Final = 0.1
"""Delay before a request whose fate is unknown is appended again."""


class CommandExecutor(Generic[R]):
    """Has no task of its own: each call runs in the task of its caller."""

    def __init__(
        self,
        appender: Appender,
        driver: StateMachineDriver,
        machine: MachineAdapter[Any, R],
        wall_clock_ms: Callable[[], int],
        secret_bits: Callable[[int], int],
    ) -> None:
        self._appender = appender
        self._driver = driver
        self._machine = machine
        self._wall_clock_ms = wall_clock_ms
        self._process = secret_bits(64).to_bytes(8, "big")
        """Tells the calls of this process from those of all others whose commands are in the log."""
        self._calls = 0

    async def execute(self, record: NewRecord, request_id: UUID | None) -> R:
        """Append a record and return the result of this replica's state machine.  `Node.execute` tells the errors."""
        for name, _ in record.headers:
            if name in (CALL_HEADER, REQUEST_HEADER, RULE_HEADER):
                raise ValueError(f"header {name!r}: reserved for execute; pass request_id= instead")
        if request_id is None:
            self._calls += 1
            headers: tuple[tuple[str, bytes], ...] = ((CALL_HEADER, self._process + self._calls.to_bytes(8, "big")),)
        else:
            if not is_request_id(request_id):
                raise ValueError(f"request_id: {request_id!r} given, a UUID of version 7 expected (see new_request_id)")
            known = self._machine.known(request_id, self._wall_clock_ms())
            if known is not None:
                await trio.lowlevel.checkpoint()
                return known.get()
            headers = self._machine.request_headers(request_id)
        tagged = NewRecord(record.value, record.key, (*headers, *record.headers), record.timestamp_ms)
        if record.headers:
            check_new_record(tagged)
        with self._machine.call(headers[0][1]) as call:
            return (await self._outcome(tagged, call, request_id)).get()

    async def _outcome(self, record: NewRecord, call: Call[R], request_id: UUID | None) -> Outcome[R]:
        """Append the record, a request again if its fate is unknown, and wait until this replica has applied it."""
        unknown: OutcomeUnknownError | None = None
        while call.outcome is None:
            try:
                offset = await self._appender.append([record])
            except OutcomeUnknownError as error:
                if request_id is None:
                    raise
                unknown = error
                await trio.sleep(RETRY_S)
            except (NotAppendedError, NodeClosedError) as error:
                if unknown is not None:
                    raise OutcomeUnknownError(str(unknown), request_id=request_id) from error
                if isinstance(error, NotAppendedError):
                    raise
                raise NotAppendedError(f"execute: {error}") from error
            else:
                await self._wait_until_applied(offset, request_id)
                if call.outcome is None:
                    message = f"execute: applied at offset {offset}, but this replica got that in a snapshot"
                    raise ResultLostError(message)
        return call.outcome

    async def _wait_until_applied(self, offset: int, request_id: UUID | None) -> None:
        try:
            await self._driver.wait_until_applied(offset)
        except NodeClosedError as error:
            message = f"execute: committed at offset {offset}, but the node stopped before it had applied that"
            raise OutcomeUnknownError(message, request_id=request_id) from error
