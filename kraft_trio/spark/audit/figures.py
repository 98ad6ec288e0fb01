"""The numbers behind the report's plots: bounded, whatever the logs and traces have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kraft_trio.spark.audit.check import View
    from kraft_trio.spark.audit.tables import Tables

MOST_CLUSTERS: Final = 6
"""So many clusters have plots: those with violations first."""

Rows = list[dict[str, Any]]
Figures = Mapping[str, Mapping[str, Rows]]
"""By cluster and by the figure's name: its rows."""


def gather(tables: Tables, figures: Sequence[View], clusters: Sequence[str]) -> Figures:
    """What they say of those clusters."""
    arguments = {"clusters": list(clusters), "percents": [percent / 100 for percent in range(101)]}
    found: dict[str, dict[str, Rows]] = {cluster: {} for cluster in clusters}
    for figure in figures:
        wanted = {name: value for name, value in arguments.items() if f":{name}" in figure.sql}
        for row in tables.spark.sql(figure.sql, args=wanted).collect():
            found[row["cluster"]].setdefault(figure.name, []).append(row.asDict(recursive=True))
    return found
