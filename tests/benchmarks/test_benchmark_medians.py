"""What several runs say together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import medians


def report(started: str, ratio: str, *, met: bool = True, **section: Any) -> dict[str, Any]:
    plain = {
        "name": "latency",
        "title": "Commit latency",
        "columns": ["system", "p50 ms", "per second"],
        "rows": [["ours", "1.5", "1,000"], ["ratio, ours : etcd", ratio, "1.20"]],
        "aims": [{"text": "p50 at most 1.0 × etcd's", "measured": ratio, "met": met}],
        "failed": False,
        "fsync": {"p50_ms": 0.1, "p99_ms": 0.25},
        "has_own_disks": False,
    }
    machine = {"fdatasync_p50_ms": 0.7, "fdatasync_p99_ms": 0.9}
    return {
        "started": f"{started} 10:00:00+00:00",
        "quick": False,
        "revision": "abc",
        "machine": machine,
        "sections": [{**plain, **section}],
    }


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["0.9", "0.85", "1.00"], "0.90 (0.85–1.00)"),
        (["1,200", "800"], "1,000 (800–1,200)"),
        (["0.91 ×", "0.93 ×"], "0.92 (0.91–0.93) ×"),
        (["+2.0", "-1.0"], "0.5 (-1.0–2.0)"),
        (["0.85"], "0.85"),
        (["–", "–"], "–"),
        (["met", "missed"], "–"),
    ],
)
def test_a_cell_is_the_median_and_the_range(cells: list[str], expected: str) -> None:
    assert medians.summarized(cells) == expected


def test_ratios_and_aims_of_several_runs() -> None:
    text = medians.summary([report("2026-11-30", "1.10", met=False), report("2026-11-29", "0.90")], all_rows=False)
    assert "| ratio, ours : etcd | 2 | 1.00 (0.90–1.10) | 1.20 (1.20–1.20) |" in text
    assert "| ours |" not in text
    assert "- Aim: p50 at most 1.0 × etcd's: met in 1 of 2" in text
    first, second = (line for line in text.splitlines() if "UTC" in line)
    assert first == "- 2026-11-29 10:00 UTC, abc, fdatasync of 1 KiB p50, p99: 0.1, 0.25 ms"
    assert second.startswith("- 2026-11-30")


def test_all_rows_and_rows_of_one_name() -> None:
    rows = [["ours", "1.5", "1,000"], ["ratio", "0.9", "1"], ["ours", "2.5", "2,000"], ["ratio", "0.8", "2"]]
    text = medians.summary([report("2026-11-29", "0.90", rows=rows)], all_rows=True)
    assert [line for line in text.splitlines() if line.startswith(("| ours", "| ratio"))] == [
        "| ours | 1 | 1.5 | 1,000 |",
        "| ratio | 1 | 0.9 | 1 |",
        "| ours (2) | 1 | 2.5 | 2,000 |",
        "| ratio (2) | 1 | 0.8 | 2 |",
    ]


def test_a_section_without_ratios_has_all_rows() -> None:
    rows = [["leader: garbage collection, generation 0", "0.1", "1"]]
    text = medians.summary([report("2026-11-29", "0.90", rows=rows)], all_rows=False)
    assert "| leader: garbage collection, generation 0 | 1 | 0.1 | 1 |" in text


def test_an_older_run_has_the_fdatasync_of_its_start() -> None:
    older = report("2026-11-28", "0.90")
    del older["sections"][0]["fsync"], older["sections"][0]["has_own_disks"]
    assert "p50, p99: 0.7, 0.9 ms" in medians.summary([older], all_rows=False)


def test_what_cannot_be_compared_is_left_out() -> None:
    other = report("2026-11-28", "0.90", columns=["system", "p50 ms", "p99 ms"])
    failed = report("2026-11-27", "0.90", failed=True)
    text = medians.summary([report("2026-11-29", "0.80"), other, failed], all_rows=False)
    assert "- 1 more had other columns: left out" in text
    assert "| ratio, ours : etcd | 1 | 0.80 | 1.20 |" in text


def test_the_command_reads_files(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps(report("2026-11-29", "0.90")))
    outcome = CliRunner().invoke(medians.main, [str(file)])
    assert outcome.exit_code == 0
    assert outcome.output.startswith("## Commit latency\n")
