"""The table in which `scripts/attack` ends."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.attacks.judge import Verdict

_TITLES = ("attack", "frames", "bytes", "worst stall", "silence", "peak RSS", "elections", "commits", "verdict")


def table(verdicts: Sequence[Verdict]) -> str:
    """In Markdown, its columns aligned."""
    rows = [_TITLES, *map(_row, verdicts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES) - 1)]
    lines = [
        "| " + " | ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|---|")
    return "\n".join(lines)


def _row(verdict: Verdict) -> tuple[str, ...]:
    return (
        verdict.attack,
        f"{verdict.frames:,}",
        f"{verdict.sent_bytes:,}",
        f"{verdict.longest_stall_s * 1000:,.0f} ms",
        f"{verdict.longest_silence_s * 1000:,.0f} ms",
        f"{verdict.peak_mib:,.0f} MiB",
        str(verdict.elections),
        str(verdict.commits),
        "; ".join(line.replace("\n", " ") for line in verdict.broken) or "withstood",
    )
