"""Medians and ranges over several runs: `.venv/bin/python -m benchmarks.medians benchmarks/results/*.json`.

Prints Markdown: for each section the runs, with the fdatasync of their time, the rows of ratios, or all if it has none,
and how often an aim was met.  A cell is the median, with the least and the most of the runs in parentheses.
"""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import click

_RATIO: Final = re.compile(r"\bratio\b")
_NUMBER: Final = re.compile(r"(\+?-?[0-9][0-9,]*(?:\.[0-9]+)?)( ?[×%]?)")


@attrs.frozen
class Run:
    """One section of one run."""

    when: str
    """Day and time in UTC, and whether the run was quick."""
    revision: str
    fsync: str
    """p50 and p99 of the fdatasync before the section, or before an older run, in milliseconds."""
    columns: tuple[str, ...]
    rows: dict[str, tuple[str, ...]]
    """The cells after the first one, by that one."""
    aims: dict[str, bool]
    title: str


def runs_of(report: dict[str, Any]) -> Iterator[tuple[str, Run]]:
    """The sections of a result file that were measured, by name."""
    machine = report["machine"]
    when = f"{report['started'][:16]} UTC{' (quick)' if report['quick'] else ''}"
    for section in report["sections"]:
        if section["failed"]:
            continue
        fsync = section.get("fsync") or {name: machine[f"fdatasync_{name}"] for name in ("p50_ms", "p99_ms")}
        seen: Counter[str] = Counter()
        rows = {}
        for first, *cells in section["rows"]:
            seen[first] += 1
            rows[first if seen[first] == 1 else f"{first} ({seen[first]})"] = tuple(cells)
        yield (
            section["name"],
            Run(
                when,
                report["revision"],
                "in the table" if section.get("has_own_disks") else f"{fsync['p50_ms']}, {fsync['p99_ms']} ms",
                tuple(section["columns"]),
                rows,
                {aim["text"]: aim["met"] for aim in section["aims"]},
                section["title"],
            ),
        )


def summarized(cells: Sequence[str]) -> str:
    """The median and the range of cells that are numbers, as precise as the most precise; of others the first one."""
    matches = [_NUMBER.fullmatch(cell) for cell in cells]
    found = [match for match in matches if match is not None]
    if len(found) < len(cells):
        return cells[0] if len(set(cells)) == 1 else "–"
    numbers = [float(match[1].replace(",", "")) for match in found]
    digits = max(len(match[1].partition(".")[2]) for match in found)
    median, *ends = (f"{number:,.{digits}f}" for number in (statistics.median(numbers), min(numbers), max(numbers)))
    unit = found[0][2]
    return f"{median}{unit}" if len(numbers) == 1 else f"{median} ({'–'.join(ends)}){unit}"


def table(runs: Sequence[Run], *, all_rows: bool) -> list[str]:
    """The lines of one section.  Runs whose columns differ from the newest one's are left out, and that is said."""
    newest = runs[-1]
    alike = [run for run in runs if run.columns == newest.columns]
    lines = [f"## {newest.title}", ""]
    lines += [f"- {run.when}, {run.revision}, fdatasync of 1 KiB p50, p99: {run.fsync}" for run in alike]
    if len(alike) < len(runs):
        lines.append(f"- {len(runs) - len(alike)} more had other columns: left out")
    names = list(dict.fromkeys(name for run in alike for name in run.rows))
    ratios = [name for name in names if _RATIO.search(name)]
    if ratios and not all_rows:
        names = ratios
    if names:
        head = [newest.columns[0], "runs", *newest.columns[1:]]
        lines += ["", f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    for name in names:
        of = [run.rows[name] for run in alike if name in run.rows]
        cells = [summarized(column) for column in zip(*of, strict=True)]
        lines.append(f"| {' | '.join([name, f'{len(of)}', *cells])} |")
    aims = list(dict.fromkeys(text for run in alike for text in run.aims))
    if aims:
        lines.append("")
    for text in aims:
        met = [run.aims[text] for run in alike if text in run.aims]
        lines.append(f"- Aim: {text}: met in {sum(met)} of {len(met)}")
    return lines


def summary(reports: Sequence[dict[str, Any]], *, all_rows: bool) -> str:
    """The Markdown of all sections, in the order in which the runs had them first."""
    sections: dict[str, list[Run]] = {}
    for report in sorted(reports, key=lambda report: str(report["started"])):
        for name, run in runs_of(report):
            sections.setdefault(name, []).append(run)
    return "\n\n".join("\n".join(table(runs, all_rows=all_rows)) for runs in sections.values()) + "\n"


@click.command(help=__doc__)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--all", "all_rows", is_flag=True, help="All rows of all sections.")
def main(files: tuple[Path, ...], all_rows: bool) -> None:
    click.echo(summary([json.loads(file.read_text()) for file in files], all_rows=all_rows), nl=False)


if __name__ == "__main__":
    main()
