"""Queries over tables in memory, in DuckDB's SQL."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import duckdb
import pyarrow as pa

from kraft_trio.errors import ConfigError
from kraft_trio.metadata.entities import ENTITIES
from kraft_trio.spark.schemas import CHANGES


def tables_in(query: str) -> set[str]:
    """The tables that a query names, in lower case.  Raises ConfigError if DuckDB refuses it."""
    _check_is_text(query)
    with _database() as database:
        try:
            return {name.lower() for name in database.get_table_names(query)}
        except duckdb.Error as error:
            raise _refusal(query, error) from error


def _database() -> duckdb.DuckDBPyConnection:
    """A database that reads nothing but what it is given."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    database = duckdb.connect(":memory:", config=settings)
    database.execute("set enable_external_access = false")
    database.execute("set timezone = 'UTC'")
    return database


def _check_is_text(query: str) -> None:
    """An argument of a command may have bytes that are no text."""
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{query}: not UTF-8; expected SQL") from error


def _refusal(query: str, error: duckdb.Error) -> ConfigError:
    """What DuckDB says, with what it offers instead, and without its picture of the query."""
    first, *others = str(error).partition("\n\n")[0].splitlines()
    told = [first, *(line for line in others if line.startswith("Candidate"))]
    if first.startswith("Catalog Error: Table"):  # it does not know those that are not made
        told.append(f"The tables are {', '.join((*ENTITIES, CHANGES))}.")
    return ConfigError(f"{' '.join(query.split())}: {' '.join(told)}")


def selected(tables: Mapping[str, pa.Table], query: str) -> pa.Table:
    """The result of a query over these tables.  Raises ConfigError if DuckDB refuses it."""
    _check_is_text(query)
    with _database() as database:
        for name, made in tables.items():
            database.register(name, made)
        try:
            return _with_own_names(_in_microseconds(answered(database, query)))
        except duckdb.Error as error:
            raise _refusal(query, error) from error


def answered(database: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    """The answer, made in a thread of its own: in the main one, DuckDB would let an interrupt wait for it."""
    with ThreadPoolExecutor(1) as pool:
        try:
            return pool.submit(lambda: database.sql(query).to_arrow_table()).result()
        except KeyboardInterrupt:
            database.interrupt()
            raise


def rows_of(query: str, found: pa.Table) -> list[dict[str, Any]]:
    """The rows of a result.  Raises ConfigError for a value that Python does not have."""
    try:
        rows: list[dict[str, Any]] = found.to_pylist()
    except (OverflowError, ValueError) as error:
        raise ConfigError(
            f"{' '.join(query.split())}: a time outside of the years 1 to 9999, or of nanoseconds in a list; expected "
            "times that Python has, or VARCHAR"
        ) from error
    return rows


def _in_microseconds(table: pa.Table) -> pa.Table:
    """The table with its nanoseconds cut off, which Python's times do not have."""
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            cut = table.column(at).cast(pa.timestamp("us", field.type.tz), safe=False)
            table = table.set_column(at, field.name, cut)
    return table


def _with_own_names(table: pa.Table) -> pa.Table:
    """The table with numbers behind names that several columns have, so that none hides another."""
    names: list[str] = []
    for name in table.column_names:
        numbered = (f"{name}_{number}" for number in count(1))
        taken = {*table.column_names, *names}
        names.append(name if name not in names else next(one for one in numbered if one not in taken))
    return table.rename_columns(names) if names != table.column_names else table
