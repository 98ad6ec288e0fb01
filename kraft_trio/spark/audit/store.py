"""Results kept as Parquet: a history of runs to be queried, one row a check and cluster, and every violation told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_trio.spark.audit.results import RESULTS, VIOLATIONS, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kraft_trio.spark.audit.audit import Audit


def append_history(spark: SparkSession, found: Audit, out: str) -> None:
    """Append to the tables `results` and `violations` below `out`, a path or URL that Spark can write; they are made.

    Two audits may append at a time.  Raises what Spark does where it cannot write.
    """
    of_run = {"run_id": found.run_id, "audited_at": found.audited_at}
    for name, table in (
        ("results", table_of(found.results, RESULTS, **of_run)),
        ("violations", table_of(found.violations, VIOLATIONS, **of_run)),
    ):
        frame = spark.createDataFrame(table).coalesce(1)
        frame.write.mode("append").option("compression", "zstd").parquet(f"{out}/{name}")
