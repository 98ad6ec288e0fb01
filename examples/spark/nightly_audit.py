"""Audits the newest backup of every cluster, and compares the result with the night before.

    python nightly_audit.py BACKUPS OUT

BACKUPS has a folder per cluster, with a folder per night whose names sort by age, with the nodes' directories:
BACKUPS/orders/2026-11-21/node-1 and so on.  OUT keeps the history of all nights as Parquet, and a report of each. The
program prints what got worse or better, and exits with 1 if any cluster now violates a check.

A night counts once it has its name: copy into a folder whose name begins with a dot, then rename it.  Copies of a
running node are fine if the log is copied before quorum-state; a torn tail is only a warning.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kraft_trio.spark import session
from kraft_trio.spark.audit import audit
from kraft_trio.spark.audit.report import write_report
from kraft_trio.spark.audit.store import append_history

CHANGED = """
with nights as (
    select cluster, check, run_id, audited_at, violations, example,
        lag(violations, 1, 0) over (partition by cluster, check order by audited_at) as before
    from {results}
)
select cluster, check, before, violations, example from nights
where run_id = :run_id and violations <> before order by cluster, check
"""


def newest_backups(backups: Path) -> list[str]:
    """The nodes' directories in the newest backup of each cluster."""
    found = []
    for cluster in _folders(backups):
        for night in _folders(cluster)[-1:]:
            found += [str(node) for node in _folders(night)]
    return found


def _folders(path: Path) -> list[Path]:
    return sorted(inner for inner in path.iterdir() if inner.is_dir() and not inner.name.startswith("."))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backups", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()

    spark = session(app_name="nightly-audit")
    found = audit(spark, directories=newest_backups(arguments.backups), with_figures=True)
    append_history(spark, found, str(arguments.out))
    write_report(found, arguments.out / f"report-{found.run_id}.html")
    results = spark.read.parquet(str(arguments.out / "results"))
    for row in spark.sql(CHANGED, args={"run_id": found.run_id}, results=results).collect():
        print(f"{row.cluster}: {row.check}: {row.before} -> {row.violations} violations  {row.example}".rstrip())
    print(f"{len(found.clusters)} clusters, {found.errors} errors, {found.warnings} warnings")
    sys.exit(1 if found.errors else 0)


if __name__ == "__main__":
    main()
