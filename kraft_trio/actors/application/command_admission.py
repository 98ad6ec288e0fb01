"""Keeps records out of the log that would stop the state machine of every replica."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import Final

import trio

from kraft_trio.actors.application.record_decoder import RecordDecoder
from kraft_trio.storage.batches.batch import Record
from kraft_trio.storage.batches.batch_header import BatchHeader

_RECORDS_A_TURN: Final = 64
_BYTES_A_TURN: Final = 64 * 1024
"""Records, and bytes of them, that are decoded before other tasks get a turn."""


class CommandAdmission:
    """Looks at the records of produced batches as the state machine will.  Has no state."""

    def __init__(self, decoder: RecordDecoder, refusal_of: Callable[[Record], str | None]) -> None:
        """`refusal_of` tells why a record must not enter the log, or returns None."""
        self._decoder = decoder
        self._refusal_of = refusal_of

    async def refusal(self, batch: bytes, header: BatchHeader) -> str | None:
        """Why the batch must not enter the log, which names the first such record; None if it may.

        Raises ProtocolError for records that cannot be read.
        """
        number = in_turn = size = 0
        async with aclosing(self._decoder.lists(batch, header)) as lists:
            async for records in lists:
                for record in records:
                    reason = self._refusal_of(record)
                    if reason is not None:
                        return f"record {number} is no command of the state machine: {reason}"
                    number += 1
                    in_turn += 1
                    size += len(record.value or b"")
                    if in_turn >= _RECORDS_A_TURN or size >= _BYTES_A_TURN:
                        await trio.lowlevel.checkpoint()
                        in_turn = size = 0
        return None
