"""The results of an audit: one per check and cluster, and violations with their contradicting facts."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa

from kraft_trio.errors import KraftError


class AuditInputError(KraftError):
    """There is nothing to audit; the message names what was given and what was expected."""

    exit_code = 2


class Status(enum.StrEnum):
    """The outcome of a check."""

    PASSED = "passed"
    VIOLATED = "violated"
    NOTHING = "nothing to see"
    """There was nothing that the check applies to."""


@attrs.frozen
class Violation:
    """Two facts that cannot both be true."""

    check: str
    cluster: str
    subject: str
    """The subject: a replica, an offset, an epoch."""
    fact_a: str
    fact_b: str
    severity: str

    def __str__(self) -> str:
        return f"{self.cluster}, {self.subject}: {self.fact_a}; but {self.fact_b}"


@attrs.frozen
class Result:
    """The result of one check for one cluster."""

    check: str
    cluster: str
    status: Status
    severity: str
    observed: int
    """The number of examined rows."""
    violations: int
    example: str
    """The first violation in words, or empty."""


@attrs.frozen
class ReplicaSummary:
    """What one directory holds."""

    cluster: str
    directory: str
    node: int | None
    """None without meta.properties."""
    directory_id: str | None
    """None before KIP-853."""
    is_voter: bool
    """Whether it is in the newest voter set of its cluster."""
    log_start: int | None
    """Inclusive; None for an empty log."""
    log_end: int | None
    """End of the intact batches, exclusive; None without one."""
    epoch: int | None
    """Of the last intact batch."""
    lag: int | None
    """How many offsets the directory ends before the longest log of its cluster; None if all of them are empty."""
    snapshot_end: int | None
    """End of the newest whole snapshot, exclusive; None without one."""
    snapshot_epoch: int | None
    error: str | None
    """A problem of the whole directory."""


@attrs.frozen
class ClusterSummary:
    """Summary of an audit for one cluster or run."""

    cluster: str
    passed: int
    """How many checks."""
    without: int
    """Number of checks that did not apply."""
    errors: int
    """Number of violations."""
    warnings: int

    @classmethod
    def of(cls, cluster: str, results: Sequence[Result]) -> ClusterSummary:
        """`results` are those of this cluster."""
        return cls(
            cluster,
            sum(result.status is Status.PASSED for result in results),
            sum(result.status is Status.NOTHING for result in results),
            sum(result.violations for result in results if result.severity == "error"),
            sum(result.violations for result in results if result.severity == "warning"),
        )


RESULTS: Final = pa.schema(
    [
        ("run_id", pa.string()),
        ("audited_at", pa.timestamp("us", tz="UTC")),
        ("check", pa.string()),
        ("cluster", pa.string()),
        ("status", pa.string()),
        ("severity", pa.string()),
        ("observed", pa.int64()),
        ("violations", pa.int64()),
        ("example", pa.string()),
    ]
)
VIOLATIONS: Final = pa.schema(
    [
        ("run_id", pa.string()),
        ("audited_at", pa.timestamp("us", tz="UTC")),
        ("check", pa.string()),
        ("cluster", pa.string()),
        ("subject", pa.string()),
        ("fact_a", pa.string()),
        ("fact_b", pa.string()),
        ("severity", pa.string()),
    ]
)


def table_of(rows: Iterable[Result | Violation], schema: pa.Schema, **of_run: Any) -> pa.Table:
    """The rows as a table of that schema, with the run's common columns."""
    return pa.Table.from_pylist([{**of_run, **attrs.asdict(row)} for row in rows], schema=schema)
