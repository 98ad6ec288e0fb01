"""Runs one audit: tables, checks, results."""

from __future__ import annotations

import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import attrs

from kraft_trio.spark.audit.check import FIGURES, METADATA, REPAIRS, TRACE, Check, cluster_of
from kraft_trio.spark.audit.engine import Engine
from kraft_trio.spark.audit.figures import MOST_CLUSTERS, Figures, gather
from kraft_trio.spark.audit.inputs import check_inputs, chosen
from kraft_trio.spark.audit.repair import Repair, find_repairs
from kraft_trio.spark.audit.results import (
    AuditInputError,
    ClusterSummary,
    ReplicaSummary,
    Result,
    Status,
    Violation,
)
from kraft_trio.spark.audit.tables import LOG_TABLES, MAIN_TABLES, NO_LIMITS, Limits, names_there, views_for
from kraft_trio.spark.classic import check_classic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_VIOLATIONS: Final = 1000
"""About this many violations of each check are listed, at least one per cluster; all are counted."""

_REPLICAS: Final = "log_replicas"
_LAG: Final = "log_lag"
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
    repairs: tuple[Repair, ...] = ()
    """Whole copies of what is damaged."""
    replicas: tuple[ReplicaSummary, ...] = ()
    """One per directory, by cluster and node."""

    @property
    def errors(self) -> int:
        """Number of violations, excluding warnings."""
        return sum(result.violations for result in self.results if result.severity == "error")

    @property
    def warnings(self) -> int:
        return sum(result.violations for result in self.results if result.severity == "warning")

    def fails(self, on: str) -> bool:
        """Whether there are violations of that severity, "error" or "warning", or a worse one."""
        return bool(self.errors or (on == "warning" and self.warnings))

    @property
    def clusters(self) -> list[ClusterSummary]:
        """One per cluster or run, those with most errors first."""
        of: dict[str, list[Result]] = {}
        for result in self.results:
            of.setdefault(result.cluster, []).append(result)
        found = [ClusterSummary.of(cluster, results) for cluster, results in of.items()]
        return sorted(found, key=lambda one: (-one.errors, -one.warnings, one.cluster))


def audit(
    spark: SparkSession | None,
    *,
    directories: Sequence[str] = (),
    traces: Sequence[str] = (),
    checks: Collection[str] | None = None,
    with_figures: bool = False,
    limits: Limits = NO_LIMITS,
    scratch: str | None = None,
    on_progress: OnProgress = lambda what, done, total: None,
) -> Audit:
    """Audit directories of replicas, of any number of clusters, and traces of any number of runs.

    `directories` and `traces` are paths, globs or URLs; `checks` names the wanted checks (default: all); `with_figures`
    collects data for a report; `limits` are demands on directories beyond the protocol's guarantees.  Without Spark,
    the audit of directories runs in this process.  With Spark, decoded data goes to a new folder in `scratch`, a path
    or URL that all executors share (default: the local temporary directory).  Blocks.  An interrupt leaves only Spark's
    own files behind.  Raises AuditInputError if there is nothing to audit, or traces without Spark; ConfigError for a
    session of Spark Connect.
    """
    check_classic(spark, "an audit")
    check_inputs(directories, traces, checks or ())
    if spark is None:
        if traces:
            raise AuditInputError("traces: audited by Spark only; expected a session")
        return _audit_here(directories, checks, with_figures, limits, on_progress)
    from kraft_trio.spark.audit.scratch import scratch_folder
    from kraft_trio.spark.audit.spark_engine import SparkEngine, read_directories, read_traces

    raw: dict[str, DataFrame] = {}
    if directories:
        raw |= read_directories(spark, directories, limits, is_metadata_wanted=_reads_metadata(checks))
    if traces:
        raw |= read_traces(spark, traces)
    with scratch_folder(spark, scratch) as folder:
        engine = SparkEngine(spark, raw, folder)
        return audit_tables(
            engine, directories=directories, checks=checks, with_figures=with_figures, on_progress=on_progress
        )


def _audit_here(
    directories: Sequence[str],
    checks: Collection[str] | None,
    with_figures: bool,
    limits: Limits,
    on_progress: OnProgress,
) -> Audit:
    from kraft_trio.spark.audit.local_engine import LocalEngine, decode_directories

    raw = decode_directories(directories, limits, is_metadata_wanted=_reads_metadata(checks))
    with tempfile.TemporaryDirectory(prefix="kraft-audit-", ignore_cleanup_errors=True) as folder:
        with closing(LocalEngine(raw, folder)) as engine:
            return audit_tables(
                engine, directories=directories, checks=checks, with_figures=with_figures, on_progress=on_progress
            )


def _reads_metadata(checks: Collection[str] | None) -> bool:
    return any(check.source == METADATA for check in chosen(checks or ()))


def audit_tables(
    engine: Engine,
    *,
    directories: Sequence[str] = (),
    checks: Collection[str] | None = None,
    with_figures: bool = False,
    on_progress: OnProgress = lambda what, done, total: None,
) -> Audit:
    """Audit the raw tables of an engine.  Repairs are found if it read them from these directories."""
    began = datetime.now(UTC)
    there = names_there(engine.raw)
    able = [check for check in chosen(checks or ()) if there >= set(check.reads)]
    figures = [figure for figure in FIGURES if there >= set(figure.reads)] if with_figures else []
    reads = [*(check.reads for check in able), *(figure.reads for figure in figures)]
    reads += [repair.reads for repair in REPAIRS if there >= set(repair.reads)]
    views = views_for(name for names in reads for name in names)
    progress = _Progress(len(engine.raw) + len(views) + len(able) + with_figures, on_progress)
    for name in engine.raw:
        progress.next(name)
        engine.decode(name)
    _check_readable(engine)
    able = _as_demanded(engine, able)
    for view in views:
        progress.next(view.name)
        engine.add(view)
    observed = _observed(engine, able)
    found = _run(engine, able, progress)
    results = [result for check in able for result in _results(check, observed[check.name], *found[check.name])]
    violations = [violation for check in able for violation in found[check.name][1]]
    run_id = f"{began:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"
    done = Audit(run_id, began, tuple(results), tuple(violations), {}, replicas=_replicas(engine, there))
    if directories:
        done = attrs.evolve(done, repairs=find_repairs(engine, directories, violations))
    if with_figures:
        progress.next("figures")
        drawn = [one.cluster for one in done.clusters[:MOST_CLUSTERS]]
        done = attrs.evolve(done, figures=gather(engine, figures, drawn))
    return done


def _as_demanded(engine: Engine, checks: Sequence[Check]) -> list[Check]:
    """The checks; a violated limit that the user has set is an error."""
    limits = engine.rows("select max_lag from limits") if "limits" in engine.raw else []
    is_set = any(row["max_lag"] is not None for row in limits)
    return [attrs.evolve(check, severity="error") if is_set and check.name == _LAG else check for check in checks]


def _replicas(engine: Engine, there: Collection[str]) -> tuple[ReplicaSummary, ...]:
    if _REPLICAS not in there:
        return ()
    names = ", ".join(field.name for field in attrs.fields(ReplicaSummary))
    rows = engine.rows(f"select {names} from {_REPLICAS} order by cluster, node nulls last, directory")
    return tuple(ReplicaSummary(**row) for row in rows)


class _Progress:
    def __init__(self, total: int, tell: OnProgress) -> None:
        self._total, self._tell, self._done = total, tell, 0

    def next(self, what: str) -> None:
        self._tell(what, self._done, self._total)
        self._done += 1


def _check_readable(engine: Engine) -> None:
    """Raises AuditInputError, naming the problems, if nothing at all was readable."""
    decoded = [name for name in engine.raw if name in (TRACE, *LOG_TABLES)]
    if any(engine.rows(f"select 1 as one from {name} where error is null limit 1") for name in decoded):
        return
    errors = []
    for name in decoded:
        where = "file" if name == "trace" else "directory"
        for row in engine.rows(f"select {where} as place, error from {name} limit 3"):
            errors.append(row["error"] if row["error"].startswith(row["place"]) else f"{row['place']}: {row['error']}")
    raise AuditInputError(f"nothing to audit: {'; '.join(dict.fromkeys(errors)) or 'the files are empty'}")


def _observed(engine: Engine, checks: Sequence[Check]) -> dict[str, Counter[str]]:
    """How many rows each check examines, by cluster, in one pass over each table.  Includes all clusters."""
    counts: dict[str, Counter[str]] = {}
    clusters: dict[str, set[str]] = {}
    for source in dict.fromkeys(check.source for check in checks):
        main = MAIN_TABLES[source]
        of_source = [check for check in checks if check.source == source]
        for table in dict.fromkeys([main, *(check.table for check in of_source)]):
            of_table = [check for check in of_source if check.table == table]
            wanted = "".join(f", count(if({check.condition}, 1, null)) as `{check.name}`" for check in of_table)
            query = f"select {cluster_of(table)} as cluster{wanted} from {table} group by {cluster_of(table)}"
            rows = engine.rows(query)
            clusters.setdefault(source, set()).update(row["cluster"] for row in rows)
            for check in of_table:
                counts[check.name] = Counter({row["cluster"]: row[check.name] for row in rows})
    for check in checks:
        counts[check.name].update(dict.fromkeys(clusters[check.source], 0))
    return counts


Found = tuple[Counter[str], list[Violation]]


def _run(engine: Engine, checks: Sequence[Check], progress: _Progress) -> dict[str, Found]:
    with ThreadPoolExecutor(_CHECKS_AT_A_TIME) as pool:
        running = [(check, pool.submit(violations_of, engine, check)) for check in checks]
        found = {}
        for check, future in running:
            progress.next(check.name)
            found[check.name] = future.result()
    return found


def violations_of(engine: Engine, check: Check) -> Found:
    """The number of violations per cluster, and the listed ones in order."""
    rows = engine.rows(f"select * from ({check.sql}) limit {MOST_VIOLATIONS + 1}")
    counts = Counter(row["cluster"] for row in rows)
    if len(rows) > MOST_VIOLATIONS:
        counted = engine.rows(f"select cluster, count(*) as count from ({check.sql}) group by cluster")
        counts = Counter({row["cluster"]: row["count"] for row in counted})
        # Keep some of each cluster, however many another one has.
        most = max(1, MOST_VIOLATIONS // len(counts))
        numbered = "select *, row_number() over (partition by cluster order by subject, fact_a, fact_b) as number"
        rows = engine.rows(f"select * from ({numbered} from ({check.sql})) where number <= {most}")
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
