"""The specification is about this code: what it names exists, TLC can read it, and its mutants are the simulator's."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from docs.rules import content
from kraft_trio.simulation.invariants import INVARIANTS
from scripts.model_checking.models import MODELS, MUTANTS, SPEC, hazards, models, mutants
from scripts.model_checking.tlc import Tlc, TlcMissingError, jar
from tests.simulation.mutants import MUTANTS as SIMULATED
from tests.test_documentation import resolve

MODULES = sorted(SPEC.glob("*.tla"))
_DEFINITION = re.compile(r"((?:^\\\*.*\n)*)^(\w+)(?:\([^)]*\))? ==", re.MULTILINE)
_CODE = re.compile(r"\\\* Code: ([\w.]+)")
_INVARIANT = re.compile(r"\\\* Invariant (\w+)\.")
_BROKEN = re.compile(r'Broken\(\s*"([^"]+)"')
ABOUT_PROGRESS = {
    *("SomebodyCanBeElected", "OnlyNewcomersHinderElections"),
    *("ElectionsEnd", "AMajorityMakesProgress", "VoterChangesEnd", "WitnessesCanLead"),
}
"""The simulator demands of every run that the quorum goes on, and has no class for that."""
IN_GATE = ("a minority of votes elects", "the vote is forgotten at a restart")


def names(path: Path) -> str:
    return path.stem


def definitions() -> dict[str, str]:
    """The comment right before each definition of the modules, by its name."""
    return {name: comment for path in MODULES for comment, name in _DEFINITION.findall(path.read_text())}


def functions() -> dict[str, list[str]]:
    """The functions that each definition names as its code."""
    return {name: _CODE.findall(comment) for name, comment in definitions().items()}


def invariants_of(name: str) -> set[str]:
    """The invariants of the simulator that a property names."""
    return set(_INVARIANT.findall(definitions()[name]))


def steps() -> set[str]:
    """The actions that the next-state relations name."""
    defined = definitions().keys()
    bodies = [
        body for path in MODULES for body in re.findall(r"^Next\w* ==[ \n]((?:.+\n)+)", path.read_text(), re.MULTILINE)
    ]
    return {name for body in bodies for name in re.findall(r"\b[A-Z]\w+", body)} & defined - {"Next"}


@pytest.fixture(scope="session")
def tlc() -> Tlc:
    try:
        return Tlc(jar(fetch=False), heap_mb=512, is_short=True)
    except TlcMissingError as missing:
        pytest.skip(str(missing))


def test_what_the_specification_names_as_code_exists() -> None:
    cited = [name for names in functions().values() for name in names]
    assert len(cited) > 40
    for name in cited:
        resolve(name)


def test_each_step_names_its_function() -> None:
    assert len(steps()) > 40
    unlisted = {action for some in content().unlisted for action in some.actions}
    assert {step for step in steps() if not functions()[step]} == unlisted


def test_each_property_names_its_invariant() -> None:
    known = {invariant.__name__ for invariant in INVARIANTS}
    checked = {name for model in models().values() for name in model.properties}
    assert len(checked) > 25
    for name in checked - ABOUT_PROGRESS:
        assert invariants_of(name) & known, name


def test_every_rule_that_can_be_switched_off_is_hunted() -> None:
    switches = {rule for path in MODULES for rule in _BROKEN.findall(path.read_text())}
    assert {mutant.name for mutant in mutants()} == switches
    for mutant in (*mutants(), *hazards()):
        assert mutant.breaks in models()[mutant.model].properties, mutant.name


def test_every_mutant_of_the_simulator_has_a_twin_or_a_reason() -> None:
    table = tomllib.loads(MUTANTS.read_text())
    twins = {mutant.name for mutant in mutants()}
    without = [name for reason in table["without"] for name in reason["names"]]
    assert sorted([*twins, *without]) == sorted(SIMULATED)
    assert all(reason["why"].endswith(".") for reason in table["without"])


def test_every_module_can_be_read(tlc: Tlc, tmp_path: Path) -> None:
    files = [*MODULES, *sorted(MODELS.glob("*.tla"))]
    command = ["java", f"-Djava.io.tmpdir={tmp_path}", f"-DTLA-Library={SPEC}", "-cp", tlc.jar, "tla2sany.SANY"]
    read = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stdout
    for word in ("error", "abort"):
        assert word not in read.stdout.lower(), read.stdout


def test_the_smallest_model(tlc: Tlc) -> None:
    result = tlc.check(models()["tiny"])
    assert result.broken is None, result.told()
    assert result.is_complete
    assert result.distinct > 1000


@pytest.mark.parametrize("name", IN_GATE)
def test_a_broken_rule_is_found(tlc: Tlc, name: str) -> None:
    [mutant] = [mutant for mutant in mutants() if mutant.name == name]
    result = tlc.check(models()[mutant.model], mutant.name, mutant.breaks)
    assert result.broken is not None
    assert mutant.breaks in result.broken
    assert len(result.behaviour) >= 3


@pytest.mark.nightly
def test_a_quorum_of_two_goes_on(tlc: Tlc) -> None:
    result = tlc.check(models()["progress_of_two"])
    assert result.broken is None, result.told()
    assert result.is_complete


@pytest.mark.nightly
def test_a_quorum_that_does_not_go_on_is_found(tlc: Tlc) -> None:
    """Two states follow each other for ever, in which a replica asks for votes that it cannot get."""
    [mutant] = [mutant for mutant in mutants() if mutant.model == "progress_of_two"]
    result = tlc.check(models()[mutant.model], mutant.name, mutant.breaks)
    assert result.broken is not None
    assert "Temporal" in result.broken
    assert result.behaviour[-1].action.startswith("back to state")
