"""Kafka's own classes read the logs and snapshots of simulated clusters, and find in them what we find."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from harness.kafka import adapted, java
from kraft_trio.storage.batches.batch import Compression
from tests.interop.simulated_logs import Written, lines_of, write_simulated
from tests.support import sizes

READER = Path(__file__).with_name("LogReader.java")
JVM_SECONDS = 600
FIRST_SEEDS = 10
INTEROP_SEEDS = 40
ALL_SEEDS = 100
COVERED = (
    *("truncations", "snapshots taken", "logs trimmed", "idempotent batches"),
    *("KRAFT_VOTERS", "KRAFT_VERSION", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER"),
    *(f"batches of {compression.name}" for compression in Compression),
)
"""What the logs must have for the test to mean something."""


def read_by_kafka(directory: Path, files: Sequence[Path]) -> list[list[str]]:
    """The lines of each file, in the order of the files."""
    program = directory / READER.name
    program.write_text(adapted(READER.read_text()))
    done = subprocess.run(
        java(str(program)),
        input="".join(f"{path}\n" for path in files),
        capture_output=True,
        text=True,
        timeout=JVM_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: list[list[str]] = []
    for line in done.stdout.splitlines():
        if line.startswith("file "):
            assert line == f"file {files[len(said)]}"
            said.append([])
        else:
            said[-1].append(line)
    return said


def test_kafka_reads_what_simulated_clusters_leave(
    tmp_path: Path, pytestconfig: pytest.Config, says: Callable[[str], None]
) -> None:
    """`--simulated-logs COUNT` sets the number of seeds."""
    chosen = pytestconfig.getoption("--simulated-logs")
    count = chosen or (ALL_SEEDS if sizes.IS_ALL else INTEROP_SEEDS if sizes.IS_INTEROP else FIRST_SEEDS)
    written = Written()
    for seed in range(count):
        write_simulated(seed, tmp_path, written)
    batches = 0
    for path, said in zip(written.files, read_by_kafka(tmp_path, written.files), strict=True):
        ours = lines_of(path.read_bytes(), written.covered)
        assert said == [*ours, "end"], path.relative_to(tmp_path)
        batches += len(ours)
    snapshots = sum(path.suffix == ".checkpoint" for path in written.files)
    summary = f"{count} seeds: {len(written.files) - snapshots} segments, {snapshots} snapshots, {batches} batches"
    print(summary)
    print(*(f"{number:8} {what}" for what, number in sorted(written.covered.items())), sep="\n")
    missing = [what for what in COVERED if not written.covered[what]]
    assert missing == []
    says(summary)
