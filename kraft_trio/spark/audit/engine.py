"""What answers an audit's queries: Spark, or DuckDB in this process.  Both run the same checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from kraft_trio.spark.audit.check import View

Row = dict[str, Any]


class Engine(Protocol):
    """Holds an audit's tables.  The code that made it closes it."""

    @property
    def raw(self) -> Sequence[str]:
        """The names of the tables that are decoded from files."""
        ...

    def decode(self, name: str) -> None:
        """Decode that raw table, once."""
        ...

    def add(self, view: View) -> None:
        """Add a view of tables and views that are there.  All raw tables must be decoded."""
        ...

    def rows(self, sql: str, **arguments: Any) -> list[Row]:
        """The result of a query in Spark's dialect.  May be called by several threads at a time."""
        ...
