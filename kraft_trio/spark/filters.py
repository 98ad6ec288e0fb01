"""The reader that is told what a query filters by, and does not read what cannot pass.

A class of its own, as Spark refuses a reader with `pushFilters` unless `spark.sql.python.filterPushdown.enabled` is
set.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
from pyspark.sql.datasource import (
    ColumnPath,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from kraft_trio.spark.decoding.batch_filter import BatchFilter
from kraft_trio.spark.partitions import DirectoryReader

_FIRST = {
    "offset": "start_offset",
    "base_offset": "start_offset",
    "last_offset": "start_offset",
    "epoch": "first_epoch",
}
_LAST = {"offset": "end_offset", "base_offset": "end_offset", "last_offset": "end_offset", "epoch": "last_epoch"}
_OF_REPLICA = ("directory", "cluster_id", "node", "directory_id")


class FilteringReader(DirectoryReader):
    """Passes over replicas, segments and batches that a filter rules out.

    Spark applies every filter to the rows as well: what is read here is a part of what would be read without them, and
    all of the rows that pass.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for filter in filters:
            self._narrow(filter)
        return filters

    def _narrow(self, filter: Filter) -> None:
        match filter:
            case EqualTo(attribute, value):
                self._narrow_numbers(attribute, value, value)
                self._narrow_replicas(attribute, (value,))
                if attribute == ("control",) and value is True and self._plan.content == "records":
                    self._want(attrs.evolve(self._plan.wanted, only_control=True))
            case In(attribute, values):
                self._narrow_replicas(attribute, values)
            case GreaterThan(attribute, value):
                self._narrow_numbers(attribute, value + 1 if isinstance(value, int) else None, None)
            case GreaterThanOrEqual(attribute, value):
                self._narrow_numbers(attribute, value, None)
            case LessThan(attribute, value):
                self._narrow_numbers(attribute, None, value - 1 if isinstance(value, int) else None)
            case LessThanOrEqual(attribute, value):
                self._narrow_numbers(attribute, None, value)
            case _:
                pass

    def _narrow_numbers(self, attribute: ColumnPath, first: Any, last: Any) -> None:
        """Both ends are inclusive; None for an open one."""
        name = attribute[0]
        if len(attribute) > 1 or name not in _FIRST:
            return
        wanted = self._plan.wanted
        if first is not None:
            lower = _FIRST[name]
            wanted = attrs.evolve(wanted, **{lower: max(getattr(wanted, lower), first)})
        if last is not None:
            upper = _LAST[name]
            end = last + 1 if upper == "end_offset" else last
            wanted = attrs.evolve(wanted, **{upper: min(getattr(wanted, upper), end)})
        self._want(wanted)

    def _narrow_replicas(self, attribute: ColumnPath, values: tuple[Any, ...]) -> None:
        if len(attribute) == 1 and attribute[0] in _OF_REPLICA:
            self._of_replicas.append((attribute[0], frozenset(values)))

    def _want(self, wanted: BatchFilter) -> None:
        if self._plan.content in ("records", "batches", "control", "snapshot-records"):
            self._plan = attrs.evolve(self._plan, wanted=wanted)
