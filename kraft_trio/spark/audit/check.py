"""The checks and their views: one SQL file each, with a header that describes it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import attrs

TRACE: Final = "trace"
LOG: Final = "log"
METADATA: Final = "metadata"


def cluster_of(table: str) -> str:
    """A SQL expression for the cluster of a row of that table."""
    match table:
        case "trace":
            return "coalesce(run, file)"
        case "batches" | "control" | "snapshots" | "quorum_state" | "epochs" | "replicas" | "metadata_changes":
            return "coalesce(cluster_id, 'unknown')"
        case _:
            return "cluster" if table.startswith((LOG, METADATA)) else "run"


_FIELD = re.compile(r"-- (invariant|title|reads|observes|severity|stored|a row): (.*)")
_SEVERITIES = ("error", "warning")


@attrs.frozen(kw_only=True)
class Check:
    """One guarantee of the protocol as a query; each row of the result is a violation."""

    name: str
    """The file's name without extension."""
    invariant: int | None
    """The invariant's number in docs/reference/simulator.md; None for checks without one, such as file integrity."""
    title: str
    """What must hold."""
    reads: tuple[str, ...]
    """Tables and views."""
    observes: str
    """The rows it examines: a table, optionally with a condition."""
    severity: str
    """"error", or "warning" for normal effects of a crash."""
    sql: str
    """Returns cluster, subject, fact_a and fact_b."""

    @property
    def source(self) -> str:
        """The kind of input: "trace", "log", or "metadata", which is a log of Apache Kafka's controllers."""
        return self.name.partition("_")[0]

    @property
    def table(self) -> str:
        """The table in `observes`."""
        return self.observes.split()[0]

    @property
    def condition(self) -> str:
        """The condition for the examined rows."""
        return self.observes.partition(" where ")[2] or "true"


@attrs.frozen
class View:
    """A table derived from others before the checks run."""

    name: str
    reads: tuple[str, ...]
    sql: str
    is_stored: bool
    """Whether it is computed once instead of on each read."""


def _check(name: str, text: str) -> Check:
    header, sql = _split(text)
    fields = dict(_fields(header))
    missing = [field for field in ("title", "reads", "observes", "severity", "a row") if field not in fields]
    assert not missing, f"{name}.sql: the header lacks {', '.join(missing)}"
    assert fields["severity"] in _SEVERITIES, (
        f"{name}.sql: severity {fields['severity']!r}, expected one of {_SEVERITIES}"
    )
    return Check(
        name=name,
        invariant=int(fields["invariant"]) if "invariant" in fields else None,
        title=fields["title"],
        reads=tuple(fields["reads"].split(", ")),
        observes=fields["observes"],
        severity=fields["severity"],
        sql=sql,
    )


def _view(name: str, text: str) -> View:
    header, sql = _split(text)
    fields = dict(_fields(header))
    return View(name, tuple(fields["reads"].split(", ")), sql, fields.get("stored") != "no")


def _split(text: str) -> tuple[list[str], str]:
    lines = text.splitlines()
    count = next(number for number, line in enumerate(lines) if not line.startswith("--"))
    return lines[:count], "\n".join(lines[count:])


def _fields(header: list[str]) -> Iterator[tuple[str, str]]:
    """The fields of a header.  "a row" extends to the header's end; all others are single lines."""
    name, value = "", ""
    for line in header:
        match = _FIELD.match(line)
        if match is None:
            value += " " + line.removeprefix("--").strip() if name == "a row" else ""
            continue
        if name:
            yield name, value
        name, value = match[1], match[2]
    if name:
        yield name, value


def _sql_files(folder: str) -> list[Traversable]:
    found = files(__package__).joinpath(folder).iterdir()
    return sorted((file for file in found if file.name.endswith(".sql")), key=lambda file: file.name)


def _texts(folder: str) -> Iterator[tuple[str, str]]:
    for file in _sql_files(folder):
        yield file.name.removesuffix(".sql"), file.read_text(encoding="utf-8")


def _in_order(views: Mapping[str, View]) -> Iterator[View]:
    """Sorted so that each one follows those it reads."""
    waiting = dict(views)
    while waiting:
        name = next(name for name, view in waiting.items() if not waiting.keys() & set(view.reads))
        yield waiting.pop(name)


FUNCTIONS: Final[tuple[str, ...]] = tuple(text for _, text in _texts("functions"))
"""Statements that create the functions used by the queries."""

CHECKS: Final[tuple[Check, ...]] = tuple(_check(name, text) for name, text in _texts("checks"))
"""All views, by name."""

VIEWS: Final[tuple[View, ...]] = tuple(_in_order({name: _view(name, text) for name, text in _texts("views")}))
"""The views that the checks read, in the order of creation."""

FIGURES: Final[tuple[View, ...]] = tuple(_view(name, text) for name, text in _texts("figures"))
"""The queries behind the report's plots; their parameter is the clusters to draw."""

REPAIRS: Final[tuple[View, ...]] = tuple(_view(name, text) for name, text in _texts("repairs"))
"""The queries that find whole copies of what is damaged."""
