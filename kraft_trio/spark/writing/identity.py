"""Who writes the rows of a partition, in the terms of an idempotent producer.

See docs/explanation/exactly-once.md.

Every attempt at the same rows has the same identity, whichever process makes it, and whenever.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final
from uuid import uuid4

import attrs

from kraft_trio.errors import ConfigError

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
"""Local properties that Spark gives every task of a micro-batch.  The query id is that of the checkpoint."""

_EPOCH_BITS: Final = 15
"""A producer epoch is an int16, and not negative."""
_PRODUCER_ID_BITS: Final = 63


@attrs.frozen
class Write:
    """One write of a whole table or micro-batch.  Can be pickled.

    Versions of one application may only rise: the log refuses a lower one than it has.
    """

    application: str
    """The query's id, what the user called the writer, or something random."""
    version: int
    """The micro-batch's id, or what the user gave; 0 or more."""
    is_micro_batch: bool = False

    @classmethod
    def nameless(cls) -> Write:
        """A write that nothing else repeats."""
        return cls(f"nameless-{uuid4()}", 0)

    @classmethod
    def of_micro_batch(cls, local_property: Callable[[str], str | None]) -> Write:
        """The micro-batch of a task, from its local properties.  Raises ConfigError if Spark does not tell."""
        query, batch = local_property(QUERY_ID), local_property(BATCH_ID)
        if not query or batch is None or not batch.isdecimal():
            raise ConfigError(
                f"exactlyOnce=true: the task's {QUERY_ID} is {query} and its {BATCH_ID} is {batch}, expected those of "
                "a micro-batch; with exactlyOnce=false, rows are written at least once"
            )
        return cls(query, int(batch), is_micro_batch=True)

    def __str__(self) -> str:
        if self.is_micro_batch:
            return f"micro-batch {self.version} of query {self.application}"
        return f"version {self.version} of {self.application}"


@attrs.frozen
class PartitionWrite:
    """The rows of one partition of a write."""

    write: Write
    partition: int

    @property
    def producer_id(self) -> int:
        """The same for 32,768 versions, whose number within them is the epoch.

        Others cannot have it by accident: the chance is that of two random ids to be equal.
        """
        of = f"{self.write.application}\0{self.partition}\0{self.write.version >> _EPOCH_BITS}"
        digest = hashlib.sha256(b"kraft-trio rows of Spark\0" + of.encode()).digest()
        return int.from_bytes(digest[:8]) >> (64 - _PRODUCER_ID_BITS)

    @property
    def producer_epoch(self) -> int:
        return self.write.version & ((1 << _EPOCH_BITS) - 1)

    def __str__(self) -> str:
        return f"{self.write}, partition {self.partition}"
