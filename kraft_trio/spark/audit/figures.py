"""The numbers behind the report's plots, bounded for any size of logs and traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kraft_trio.spark.audit.check import View
    from kraft_trio.spark.audit.engine import Engine

MOST_CLUSTERS: Final = 6
"""How many clusters have plots, those with violations first."""

Rows = list[dict[str, Any]]
Figures = Mapping[str, Mapping[str, Rows]]
"""The rows, by cluster and name of the figure."""


def gather(engine: Engine, figures: Sequence[View], clusters: Sequence[str]) -> Figures:
    """The figures of these clusters."""
    arguments = {"clusters": list(clusters), "percents": [percent / 100 for percent in range(101)]}
    found: dict[str, dict[str, Rows]] = {cluster: {} for cluster in clusters}
    for figure in figures:
        wanted = {name: value for name, value in arguments.items() if f":{name}" in figure.sql}
        for row in engine.rows(figure.sql, **wanted):
            found[row["cluster"]].setdefault(figure.name, []).append(row)
    return found
