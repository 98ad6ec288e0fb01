"""Directories that look like a backup of a quorum, and from which it could not be started again."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from kraft_trio.storage.batches.batch_header import peek_header
from kraft_trio.storage.directory.meta_properties import (
    META_PROPERTIES,
    decode_meta_properties,
    encode_meta_properties,
)

from .conftest import PARTITION, run

pytestmark = pytest.mark.rotating(2)


def _copies_of_one(folder: Path) -> None:
    for node in (1, 3, 4):
        shutil.rmtree(folder / f"node-{node}")
        shutil.copytree(folder / "node-2", folder / f"node-{node}")


def _another_cluster(folder: Path) -> None:
    path = folder / "node-3" / META_PROPERTIES
    properties = decode_meta_properties(str(path), path.read_bytes())
    path.write_bytes(encode_meta_properties(attrs.evolve(properties, cluster_id="another")))


def _zeros(folder: Path) -> None:
    """In place of the last batches of a sealed segment; the last one has nothing yet."""
    *_, sealed, last = sorted((folder / "node-3" / PARTITION).glob("*.log"))
    size = _size_of_first_batch(sealed)
    sealed.write_bytes(sealed.read_bytes()[:size] + bytes(60 * 1024))
    last.write_bytes(b"")


def _half_a_batch_and_zeros(folder: Path) -> None:
    path = _newest(folder / "node-3")
    content = path.read_bytes()
    path.write_bytes(content[:-40] + bytes(60 * 1024))


def _preallocated(folder: Path) -> None:
    """As kill -9 leaves it."""
    with _newest(folder / "node-3").open("ab") as file:
        file.write(bytes(60 * 1024))


def _empty(folder: Path) -> None:
    for path in (folder / "node-4" / PARTITION).glob("*.log"):
        path.write_bytes(b"")


def _no_segment(folder: Path) -> None:
    for path in (folder / "node-4" / PARTITION).glob("*.log"):
        path.unlink()


def _all_empty(folder: Path) -> None:
    for path in folder.rglob("*.log"):
        path.write_bytes(b"")


def _half(folder: Path) -> None:
    segments = sorted((folder / "node-4" / PARTITION).glob("*.log"))
    for path in segments[len(segments) // 2 :]:
        path.unlink()


def _only_one_of_three(folder: Path) -> None:
    for node in (3, 4):
        shutil.rmtree(folder / f"node-{node}")


def _newest(node: Path) -> Path:
    return max((node / PARTITION).glob("*.log"))


CASES: dict[Callable[[Path], None], tuple[str, ...]] = {
    _copies_of_one: ("log_replicas_are_distinct",),
    _another_cluster: ("log_directory_of_one_cluster", "log_of_one_cluster"),
    _zeros: ("log_ends_in_zeros", "log_reaches_its_files"),
    _half_a_batch_and_zeros: ("log_reaches_its_files",),
    _empty: ("log_has_records",),
    _no_segment: ("log_has_records", "log_reaches_its_files"),
    _all_empty: ("log_has_records",),
    _half: ("log_reaches_its_files",),
    _only_one_of_three: ("log_expected_voters",),
}


@pytest.mark.parametrize("spoil", CASES)
def test_what_is_no_backup_is_no_success(
    kraft: CliRunner, backups: Path, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    folder = tmp_path / "backups"
    shutil.copytree(backups, folder)
    spoil(folder)
    checks = [argument for check in CASES[spoil] for argument in ("--check", check)]
    code, [line] = run(kraft, f"{folder}/node-*", "--expect-voters", "3", "--json", *checks)
    found = json.loads(line)
    violated = {one["check"] for one in found["violations"] if one["severity"] == "error"}
    assert code == 1
    assert violated == {*CASES[spoil]}


def test_preallocated_zeros_are_no_finding(kraft: CliRunner, backups: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    shutil.copytree(backups, folder)
    _preallocated(folder)
    code, lines = run(kraft, f"{folder}/node-*", "--expect-voters", "3", "--max-lag", "0", "--fail-on", "warning")
    assert code == 0, lines
    assert not any("zeros" in line or "torn" in line for line in lines if line.startswith(("error", "warning")))


def _deleted(folder: Path) -> None:
    """One segment in the middle, and others that have been cut between two batches, in the middle and at the end."""
    *_, middle, third, last = sorted((folder / "node-4" / PARTITION).glob("*.log"))
    middle.unlink()
    third.write_bytes(third.read_bytes()[: _size_of_first_batch(third)])
    last.write_bytes(last.read_bytes()[: _size_of_first_batch(last)])


def _size_of_first_batch(path: Path) -> int:
    return peek_header(path.read_bytes()).size_in_bytes


def _first(folder: Path) -> None:
    min((folder / "node-2" / PARTITION).glob("*.log")).unlink()
    snapshot, *_ = (folder / "node-2" / PARTITION).glob("00000000000000000012-*.checkpoint")
    snapshot.unlink()


@pytest.mark.parametrize(
    ("spoil", "node", "holder"),
    [(_deleted, 4, 1), (_half, 4, 1), (_empty, 4, None), (_no_segment, 4, None), (_zeros, 3, 1), (_first, 2, 4)],
)
def test_segments_are_copied_from_another_replica(
    kraft: CliRunner, backups: Path, tmp_path: Path, spoil: Callable[[Path], None], node: int, holder: int | None
) -> None:
    """By the command that the audit prints, or by none if no replica has all that is missing."""
    folder = tmp_path / "backups"
    shutil.copytree(backups, folder)
    spoil(folder)
    _, lines = run(kraft, f"{folder}/node-*")
    repairs = [line for line in lines if line.startswith("repair: ")]
    if holder is None:
        assert repairs == []
        return
    [repair] = repairs
    assert repair.startswith(f"repair: {folder}/node-{node}, ")
    assert f": whole in {folder}/node-{holder}" in repair
    command, verify = repair.partition("while the node is stopped: ")[2].split(" && ")
    subprocess.run(command, shell=True, check=True, capture_output=True)
    assert verify == f"kraft log verify {folder}/node-{node}"
    for path in (backups / f"node-{node}" / PARTITION).glob("*.log"):
        assert (folder / path.relative_to(backups)).read_bytes() == path.read_bytes(), path.name
    code, lines = run(kraft, f"{folder}/node-*")
    assert code == 0, lines


def test_a_backup_tells_what_each_replica_holds(kraft: CliRunner, backups: Path) -> None:
    code, lines = run(kraft, f"{backups}/node-*", "--expect-voters", "3", "--max-lag", "0", "--fail-on", "warning")
    assert code == 0
    [titles] = [line.split("  ") for line in lines if line.startswith("node")]
    wanted = ["node", "directory id", "cluster", "voter", "log start", "log end", "epoch", "lag", "newest snapshot"]
    assert [*filter(None, map(str.strip, titles))] == [*wanted, "directory"]
    rows = {line.split()[0]: line.split()[2:] for line in lines if line.endswith(tuple(f"node-{n}" for n in range(5)))}
    assert [row[1] for row in rows.values()] == ["no", "yes", "yes", "yes"]
    ends = {(row[3], row[4], row[5]) for row in rows.values()}
    assert len(ends) == 1, "they end at the same offset, of the same epoch, without lag"
    assert {row[6] for row in rows.values()} == {"12@1", "-"}


def test_a_limit_makes_a_lag_an_error(kraft: CliRunner, backups: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    shutil.copytree(backups, folder)
    partition = folder / "node-4" / PARTITION
    for path in (_newest(partition.parent), *partition.glob("*.snapshot"), max(partition.glob("*.index"))):
        path.unlink()
    max(partition.glob("*.timeindex")).unlink()
    assert run(kraft, f"{folder}/node-*", "--check", "log_lag")[0] == 0, "a few offsets"
    code, lines = run(kraft, f"{folder}/node-*", "--check", "log_lag", "--max-lag", "3")
    assert code == 1
    [error] = [line for line in lines if line.startswith("error: log_lag: ")]
    assert error.endswith("node-4: the log ends at offset 22, 4 before it")


def test_warnings_fail_if_they_are_to(kraft: CliRunner, damaged: Path) -> None:
    torn = (f"{damaged}/node-3", "--check", "log_torn_tail")
    assert run(kraft, *torn)[0] == 0
    assert run(kraft, *torn, "--fail-on", "warning")[0] == 1


def test_a_report_with_warnings_has_no_green_headline() -> None:
    from kraft_trio.spark.audit.report import report

    from .conftest import audit_of

    found = audit_of("run")
    [result], [violation] = found.results, found.violations
    warned = attrs.evolve(
        found,
        results=(attrs.evolve(result, severity="warning"),),
        violations=(attrs.evolve(violation, severity="warning"),),
    )
    headline = report(warned).partition("<h1>")[2].partition("</h1>")[0]
    assert "1 warning<" in headline
    assert "good" not in headline
