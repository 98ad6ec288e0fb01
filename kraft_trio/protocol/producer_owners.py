"""Who uses an idempotent producer's id, where an authorizer tells clients apart."""

from __future__ import annotations

from collections import OrderedDict


class ProducerOwners:
    """The principal that has appended with each producer id first, as far as this node has seen as a leader.

    An id is random, and nobody else knows it before the first batch is in the log.  Above `max_producers`, the one that
    was used longest ago is forgotten, as the log does.
    """

    def __init__(self, max_producers: int) -> None:
        self._max_producers = max_producers
        self._owners: OrderedDict[int, str] = OrderedDict()

    def may_use(self, producer_id: int, principal: str) -> bool:
        return self._owners.get(producer_id, principal) == principal

    def used(self, producer_id: int, principal: str) -> None:
        """Note that a batch with that id was appended.  The first principal stays the owner."""
        self._owners.setdefault(producer_id, principal)
        self._owners.move_to_end(producer_id)
        if len(self._owners) > self._max_producers:
            self._owners.popitem(last=False)
