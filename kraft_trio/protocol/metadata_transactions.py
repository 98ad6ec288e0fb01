"""Which metadata records of Kafka's controllers count: those of a transaction once it has ended (KIP-868).

A snapshot has no transactions.  So it can end only where none is open, and it has their records only if they count.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

ItemT = TypeVar("ItemT")

NO_OP: Final = 20
BEGIN: Final = 23
END: Final = 24
ABORT: Final = 25
MARKERS: Final = frozenset({BEGIN, END, ABORT})
"""The API keys of the records that begin and end transactions."""


class TransactionFold(Generic[ItemT]):
    """Takes committed records in their order, in any form, and gives back those that count."""

    def __init__(self) -> None:
        self._pending: list[ItemT] | None = None

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun, and neither ended nor been aborted."""
        return self._pending is not None

    def copy(self) -> TransactionFold[ItemT]:
        made = TransactionFold[ItemT]()
        made._pending = None if self._pending is None else list(self._pending)
        return made

    def problem(self, api_key: int) -> str | None:
        """Why Kafka's nodes refuse a marker, and leave all as it was; None for other records."""
        if api_key == BEGIN and self._pending is not None:
            return "the transaction before it has not ended"
        if api_key in (END, ABORT) and self._pending is None:
            return "no transaction has begun"
        return None

    def add(self, api_key: int, item: ItemT) -> list[ItemT]:
        """The records that count from now on.  Those without an effect are left out."""
        counting: list[ItemT] = []
        if api_key == BEGIN:
            self._pending = []
        elif api_key in (END, ABORT):
            if api_key == END:
                counting = self._pending or []
            self._pending = None
        elif api_key != NO_OP:
            (counting if self._pending is None else self._pending).append(item)
        return counting
