"""What a run says: tables on the terminal, one JSON file, one Markdown summary."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table

from benchmarks.machine import FsyncTimes, Machine


@attrs.frozen
class Aim:
    """A number the project wants to reach, and what was measured."""

    text: str
    measured: str
    met: bool

    @property
    def verdict(self) -> str:
        return "met" if self.met else "MISSED"


@attrs.frozen
class Section:
    """One measurement."""

    name: str
    title: str
    method: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    aims: tuple[Aim, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader must know in addition to the numbers: a peer that is missing, a step that could not be taken."""
    data: dict[str, Any] = attrs.field(factory=dict)
    """Everything that was measured, for the JSON file."""
    failed: bool = False
    fsync: FsyncTimes | None = None
    """Of the disk of the data, a moment before."""
    has_own_disks: bool = False
    """Whether the table itself says how fast its disks were."""

    @classmethod
    def not_measured(cls, name: str, reason: str) -> Section:
        return cls(name, name, "", ("measurement", "result"), ((name, f"FAILED: {reason}"),), failed=True)


@attrs.frozen
class Report:
    """One run of `benchmarks/run`."""

    started: datetime
    command: str
    revision: str
    quick: bool
    overrides: dict[str, str]
    machine: Machine
    sections: Sequence[Section]

    def print_to(self, console: Console) -> None:
        for section in self.sections:
            table = Table(title=section.title, caption="\n".join(section.notes) or None, title_justify="left")
            for number, column in enumerate(section.columns):
                table.add_column(column, justify="left" if number == 0 else "right")
            for row in section.rows:
                table.add_row(*row)
            console.print(table)
            if section.fsync:
                console.print(f"  before: {section.fsync}", highlight=False)
            for aim in section.aims:
                style = "green" if aim.met else "bold red"
                console.print(f"  aim: {aim.text}: {aim.measured} ", f"[{style}]{aim.verdict}[/{style}]")
            console.print()

    def write_to(self, directory: Path) -> tuple[Path, Path]:
        """Write `<time>-<sections>.json` and `.md`; return their paths."""
        directory.mkdir(parents=True, exist_ok=True)
        names = "-".join(section.name for section in self.sections) + ("-quick" if self.quick else "")
        stem = directory / f"{self.started:%Y%m%dT%H%M%SZ}-{names}"
        as_json, as_markdown = stem.with_suffix(".json"), stem.with_suffix(".md")
        as_json.write_text(json.dumps(attrs.asdict(self), default=str, indent=1) + "\n")
        as_markdown.write_text(self.markdown())
        return as_json, as_markdown

    def markdown(self) -> str:
        machine = self.machine
        versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
        lines = [
            f"# Benchmarks, {self.started:%Y-%m-%d %H:%M} UTC{' (quick form)' if self.quick else ''}",
            "",
            f"- Command: `{self.command}`, revision {self.revision}",
            f"- Machine: {machine.processors} × {machine.processor}, {machine.memory_gib} GiB, Linux {machine.kernel}, "
            f"{machine.file_system}; load average before the run {machine.load_average}",
            f"- Versions: Python {machine.python}, {versions}",
            f"- Floors: fdatasync of 1 KiB {machine.fdatasync_p50_ms} ms p50, {machine.fdatasync_p99_ms} ms p99; "
            f"loopback round trip of 1 KiB {machine.round_trip_p50_ms} ms p50",
        ]
        if self.overrides:
            lines.append(f"- Settings: {', '.join(f'`{key}={value}`' for key, value in self.overrides.items())}")
        for section in self.sections:
            lines += ["", *_section_markdown(section)]
        return "\n".join(lines) + "\n"


def _section_markdown(section: Section) -> list[str]:
    rule = ["---", *["---:"] * (len(section.columns) - 1)]
    lines = [f"## {section.title}", "", section.method, ""]
    lines += [f"| {' | '.join(cells)} |" for cells in (section.columns, rule, *section.rows)]
    if section.fsync:
        lines += ["", f"Before it: {section.fsync}."]
    if section.aims:
        lines += ["", *[f"- Aim: {aim.text}: {aim.measured}, **{aim.verdict}**" for aim in section.aims]]
    if section.notes:
        lines += ["", *[f"- {note}" for note in section.notes]]
    return lines


def now() -> datetime:
    return datetime.now(UTC)
