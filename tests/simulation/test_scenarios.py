"""The scenario scripts under tests/scenarios: each must meet its expectations, and come out exactly as it says.

`pytest --update-scenarios` rewrites the outputs; review the changes like code.
"""

from pathlib import Path

import pytest

from kraft_trio.simulation.script.run import run_script
from kraft_trio.simulation.script.script import Script, parse_script, read_script

DIRECTORY = Path(__file__).parent.parent / "scenarios"
PATHS = sorted(DIRECTORY.glob("*.txt"))


def named(path: Path) -> Script:
    return parse_script(path.read_text(encoding="utf-8"), path.name)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    script = named(path)
    outcome = run_script(script)
    if request.config.getoption("update_scenarios"):
        path.write_text(outcome.script.text, encoding="utf-8")
    assert outcome.failure is None, outcome.failure
    if not request.config.getoption("update_scenarios"):
        assert outcome.script.text.splitlines() == path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_scenario_says_what_it_is_for_and_what_it_expects(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# "), "the first line names the scenario"
    assert any(step.verb.startswith("expect") for step in read_script(path).steps)
