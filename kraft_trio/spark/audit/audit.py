"""Runs one audit: tables, checks, results."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import attrs

from kraft_trio.spark.audit.check import FIGURES, Check, cluster_of
from kraft_trio.spark.audit.figures import MOST_CLUSTERS, Figures, gather
from kraft_trio.spark.audit.inputs import check_inputs, chosen
from kraft_trio.spark.audit.results import AuditInputError, ClusterSummary, Result, Status, Violation
from kraft_trio.spark.audit.tables import (
    MAIN_TABLES,
    Tables,
    make_tables,
    names_there,
    read_directories,
    read_traces,
    views_for,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_VIOLATIONS: Final = 1000
"""About this many violations of each check are listed, at least one per cluster; all are counted."""

_CHECKS_AT_A_TIME: Final = 3
"""While Spark plans one query, others run."""

OnProgress = Callable[[str, int, int], object]
"""Called with the next step, the number of finished steps, and their total."""


@attrs.frozen
class Audit:
    """The result of an audit."""

    run_id: str
    audited_at: datetime
    results: tuple[Result, ...]
    violations: tuple[Violation, ...]
    """At most about MOST_VIOLATIONS of each check."""
    figures: Figures
    """Data for the report's plots, for the most important clusters; empty unless requested."""

    @property
    def errors(self) -> int:
        """Number of violations, excluding warnings."""
        return sum(result.violations for result in self.results if result.severity == "error")

    @property
    def warnings(self) -> int:
        return sum(result.violations for result in self.results if result.severity == "warning")

    @property
    def clusters(self) -> list[ClusterSummary]:
        """One per cluster or run, those with most errors first."""
        of: dict[str, list[Result]] = {}
        for result in self.results:
            of.setdefault(result.cluster, []).append(result)
        found = [ClusterSummary.of(cluster, results) for cluster, results in of.items()]
        return sorted(found, key=lambda one: (-one.errors, -one.warnings, one.cluster))


def audit(
    spark: SparkSession,
    *,
    directories: Sequence[str] = (),
    traces: Sequence[str] = (),
    checks: Collection[str] | None = None,
    with_figures: bool = False,
    on_progress: OnProgress = lambda what, done, total: None,
) -> Audit:
    """Audit directories of replicas, of any number of clusters, and traces of any number of runs.

    `directories` and `traces` are paths, globs or URLs; `checks` names the wanted checks (default: all); `with_figures`
    collects data for a report.  Blocks.  An interrupt leaves only Spark's own files behind.  Raises AuditInputError if
    there is nothing to audit.
    """
    check_inputs(directories, traces, checks or ())
    raw: dict[str, DataFrame] = {}
    if directories:
        raw |= read_directories(spark, directories)
    if traces:
        raw |= read_traces(spark, traces)
    return audit_tables(spark, raw, checks=checks, with_figures=with_figures, on_progress=on_progress)


def audit_tables(
    spark: SparkSession,
    raw: Mapping[str, DataFrame],
    *,
    checks: Collection[str] | None = None,
    with_figures: bool = False,
    on_progress: OnProgress = lambda what, done, total: None,
) -> Audit:
    """Audit existing tables."""
    began = datetime.now(UTC)
    folder = tempfile.mkdtemp(prefix="kraft-audit-")
    try:
        there = names_there(raw)
        able = [check for check in chosen(checks or ()) if there >= set(check.reads)]
        figures = [figure for figure in FIGURES if there >= set(figure.reads)] if with_figures else []
        reads = [*(check.reads for check in able), *(figure.reads for figure in figures)]
        views = views_for(name for names in reads for name in names)
        progress = _Progress(len(raw) + len(views) + len(able) + with_figures, on_progress)
        # Views in a session of its own disturb nobody.
        tables = make_tables(spark.newSession(), raw, views, folder, progress.next)
        _check_readable(tables, tuple(raw))
        observed = _observed(tables, able)
        found = _run(tables, able, progress)
        results = [result for check in able for result in _results(check, observed[check.name], *found[check.name])]
        violations = [violation for check in able for violation in found[check.name][1]]
        run_id = f"{began:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"
        done = Audit(run_id, began, tuple(results), tuple(violations), {})
        if with_figures:
            progress.next("figures")
            drawn = [one.cluster for one in done.clusters[:MOST_CLUSTERS]]
            done = attrs.evolve(done, figures=gather(tables, figures, drawn))
        return done
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Progress:
    def __init__(self, total: int, tell: OnProgress) -> None:
        self._total, self._tell, self._done = total, tell, 0

    def next(self, what: str) -> None:
        self._tell(what, self._done, self._total)
        self._done += 1


def _check_readable(tables: Tables, raw: Sequence[str]) -> None:
    """Raises AuditInputError, naming the problems, if nothing at all was readable."""
    if any(tables.spark.table(name).where("error is null").limit(1).count() for name in raw):
        return
    errors = []
    for name in raw:
        where = "file" if name == "trace" else "directory"
        for row in tables.spark.table(name).select(where, "error").limit(3).collect():
            errors.append(row["error"] if row["error"].startswith(row[where]) else f"{row[where]}: {row['error']}")
    raise AuditInputError(f"nothing to audit: {'; '.join(dict.fromkeys(errors)) or 'the files are empty'}")


def _observed(tables: Tables, checks: Sequence[Check]) -> dict[str, Counter[str]]:
    """How many rows each check examines, by cluster, in one pass over each table.  Includes all clusters."""
    counts: dict[str, Counter[str]] = {}
    clusters: dict[str, set[str]] = {}
    for source in dict.fromkeys(check.source for check in checks):
        main = MAIN_TABLES[source]
        of_source = [check for check in checks if check.source == source]
        for table in dict.fromkeys([main, *(check.table for check in of_source)]):
            of_table = [check for check in of_source if check.table == table]
            wanted = "".join(f", count_if({check.condition}) as `{check.name}`" for check in of_table)
            query = f"select {cluster_of(table)} as cluster{wanted} from {table} group by {cluster_of(table)}"
            rows = tables.spark.sql(query).collect()
            clusters.setdefault(source, set()).update(row["cluster"] for row in rows)
            for check in of_table:
                counts[check.name] = Counter({row["cluster"]: row[check.name] for row in rows})
    for check in checks:
        counts[check.name].update(dict.fromkeys(clusters[check.source], 0))
    return counts


Found = tuple[Counter[str], list[Violation]]


def _run(tables: Tables, checks: Sequence[Check], progress: _Progress) -> dict[str, Found]:
    with ThreadPoolExecutor(_CHECKS_AT_A_TIME) as pool:
        running = [(check, pool.submit(violations_of, tables, check)) for check in checks]
        found = {}
        for check, future in running:
            progress.next(check.name)
            found[check.name] = future.result()
    return found


def violations_of(tables: Tables, check: Check) -> Found:
    """The number of violations per cluster, and the listed ones in order."""
    frame = tables.spark.sql(check.sql)
    rows = frame.limit(MOST_VIOLATIONS + 1).collect()
    counts = Counter(row["cluster"] for row in rows)
    if len(rows) > MOST_VIOLATIONS:
        counts = Counter({row["cluster"]: row["count"] for row in frame.groupBy("cluster").count().collect()})
        # Keep some of each cluster, however many another one has.
        most = max(1, MOST_VIOLATIONS // len(counts))
        numbered = "select *, row_number() over (partition by cluster order by subject, fact_a, fact_b) as number"
        rows = tables.spark.sql(
            f"select * from ({numbered} from {{found}}) where number <= {most}", found=frame
        ).collect()
    violations = [
        Violation(check.name, row["cluster"], row["subject"], row["fact_a"], row["fact_b"], check.severity)
        for row in rows
    ]
    return counts, sorted(violations, key=lambda v: (v.cluster, v.subject, v.fact_a, v.fact_b))


def _results(check: Check, observed: Counter[str], counts: Counter[str], violations: list[Violation]) -> list[Result]:
    examples = {violation.cluster: str(violation) for violation in reversed(violations)}
    results = []
    for cluster in sorted(observed.keys() | counts.keys()):
        count = counts[cluster]
        status = Status.VIOLATED if count else Status.PASSED if observed[cluster] else Status.NOTHING
        example = examples.get(cluster, "")
        results.append(Result(check.name, cluster, status, check.severity, observed[cluster], count, example))
    return results
