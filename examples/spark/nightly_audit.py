"""The nightly audit of a directory of backups: every cluster's newest, against what it was the night before.

    python nightly_audit.py BACKUPS OUT

BACKUPS has a folder for each cluster, in it one for each night, named so that the newest sorts last, and in that the
directories of the nodes: BACKUPS/orders/2026-11-21/node-1 and so on.  OUT keeps the history of all nights as Parquet,
and a report of each.  Printed is what is worse or better; the exit code is 1 if any cluster violates a check now.

A night is whole once it has its name: copy into a folder that begins with a dot, and rename it.  The copies of a
running node are good for this if its log is copied before its quorum-state: a torn tail is a warning.
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
    """The directories of the nodes in the newest backup of each cluster."""
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
