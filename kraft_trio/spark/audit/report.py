"""The report of an audit: a self-contained HTML file with plots."""

from __future__ import annotations

from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from kraft_trio.spark.audit.check import CHECKS
from kraft_trio.spark.audit.plots import plots_of
from kraft_trio.storage.disk.created_files import write_own_text

if TYPE_CHECKING:
    from kraft_trio.spark.audit.audit import Audit

MOST_ROWS: Final = 200
"""Most clusters and violations that the report lists; the history tables contain all."""


def write_report(found: Audit, path: Path) -> None:
    """Write the report into an existing directory.  Raises OSError."""
    write_own_text(path, report(found))


def report(found: Audit) -> str:
    """The text of the HTML file."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files(__package__).joinpath("report.html").read_text(encoding="utf-8"))
    of_check = {check.name: [result for result in found.results if result.check == check.name] for check in CHECKS}
    return template.render(
        found=found,
        clusters=found.clusters[:MOST_ROWS],
        replicas=found.replicas[:MOST_ROWS],
        violations=found.violations[:MOST_ROWS],
        checks=[(check, of_check[check.name]) for check in CHECKS if of_check[check.name]],
        plots={cluster: [Markup(plot) for plot in plots_of(figures)] for cluster, figures in found.figures.items()},
        version=version("kraft-trio"),
    )
