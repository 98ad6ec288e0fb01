"""The matrix of docs/reference/kafka.md: what a run records, and that no row is of a system without tests."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support import interop_matrix
from tests.support.interop_matrix import RESULTS, SYSTEMS, Recorder

TESTS = Path(__file__).parent
_MARKED = re.compile(r'(?:mark\.system|case)\(\s*(?:with_\w+, )?"([^"]+)"')


def marked() -> set[str]:
    """The systems that marks name."""
    files = [*TESTS.rglob("test_kafka_*.py"), TESTS / "interop" / "test_other_clients.py"]
    return {name for path in files for name in _MARKED.findall(path.read_text())}


def test_every_interop_test_belongs_to_a_system() -> None:
    for path in (TESTS / "interop").glob("test_*.py"):
        assert f"interop/{path.name}" in SYSTEMS or _MARKED.search(path.read_text()), path.name


def test_every_row_is_of_a_system_that_has_tests() -> None:
    known = marked() | {system for path, system in SYSTEMS.items() if (TESTS / path).exists()}
    assert set(json.loads(RESULTS.read_text())) <= known


@pytest.mark.parametrize(("version", "noted"), [("1.7", True), ("", False)])
def test_a_program_that_is_not_installed_gets_no_row(
    version: str, noted: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interop_matrix, "version_of", lambda _program: version)
    request.node.add_marker(pytest.mark.interop)
    request.node.add_marker(pytest.mark.system("kcat", "kcat"))
    before = list(request.node.user_properties)
    interop_matrix.mark(request.node)
    assert (request.node.user_properties != before) is noted
    request.node.user_properties[:] = before


def report(nodeid: str, outcome: str, *properties: tuple[str, str], when: str = "call") -> pytest.TestReport:
    longrepr = ("file", 1, "Skipped: no jars") if outcome == "skipped" else None
    noted: list[tuple[str, object]] = [("interop system", "X"), ("interop version", "1"), *properties]
    return pytest.TestReport(nodeid, ("file", 1, nodeid), {}, outcome, longrepr, when, user_properties=noted)  # type: ignore[arg-type]


def test_a_run_replaces_what_was_known_of_the_systems_that_it_covers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"X": {"0": {"passed": 5}, "1": {"passed": 9}}, "Y": {"1": {"passed": 2}}}))
    monkeypatch.setattr(interop_matrix, "RESULTS", path)
    recorder = Recorder()
    recorder.pytest_runtest_logreport(report("a", "passed", ("interop says", "Refuses groups"), when="call"))
    recorder.pytest_runtest_logreport(report("a", "failed", when="teardown"))
    recorder.pytest_runtest_logreport(report("b", "skipped", when="setup"))
    recorder.pytest_runtest_logreport(report("c", "passed", when="setup"))
    recorder.pytest_runtest_logreport(report("c", "passed"))
    recorder.pytest_runtest_logreport(pytest.TestReport("d", ("f", 1, "d"), {}, "failed", None, "call"))
    begun: list[tuple[str, object]] = [("interop system", "Z"), ("interop version", "1")]
    recorder.pytest_runtest_logreport(
        pytest.TestReport("z", ("f", 1, "z"), {}, "passed", None, "setup", user_properties=begun)
    )
    recorder.pytest_sessionfinish()
    found = json.loads(path.read_text())
    assert found["X"]["1"] == {
        "passed": 1,
        "failed": 1,
        "skipped": 1,
        "reasons": ["no jars"],
        "says": ["Refuses groups"],
    }
    assert "Z" not in found
    assert (found["X"]["0"], found["Y"]) == ({"passed": 5}, {"1": {"passed": 2}})
