"""Type checkers see the public names: mypy and pyright accept programs of users and reject wrong calls."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kraft_trio
from tests.support.programs import REPOSITORY, run_mypy

REJECTED = Path(__file__).parent / "data" / "rejected_calls.py"
DOCUMENTS = ("README.md", "docs/start/embedding.md")
ACCEPTED_WITHIN_S = 600

PYRIGHT_SETTINGS = {
    "include": ["*"],
    "typeCheckingMode": "standard",
    "strict": [REJECTED.name, "programs", "examples/bank.py", "examples/membership.py", "examples/tally.py"],
}
"""The other examples use packages without types, which strict rules complain of."""


def write_programs(directory: Path) -> None:
    """The programs of the documents, as files of the names that their first lines tell."""
    directory.mkdir()
    for document in DOCUMENTS:
        for program in re.findall(r"^```python\n(.*?)^```$", (REPOSITORY / document).read_text(), re.M | re.S):
            named = re.match(r"\"\"\".*?(\w+\.py)", program)
            assert named is not None
            (directory / named[1]).write_text(program)


@pytest.fixture(scope="module")
def pyright(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What pyright says of the rejected calls, the programs of the documents and the examples, by folder."""
    pytest.importorskip("basedpyright", reason="pyright is not installed (scripts/setup dev)")
    directory = tmp_path_factory.mktemp("pyright")
    write_programs(directory / "programs")
    shutil.copytree(REPOSITORY / "examples", directory / "examples", ignore=shutil.ignore_patterns("spark"))
    shutil.copy(REJECTED, directory)
    settings = directory / "pyrightconfig.json"
    settings.write_text(json.dumps(PYRIGHT_SETTINGS))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "-p", str(settings)], capture_output=True, text=True, timeout=ACCEPTED_WITHIN_S, check=False
    )
    assert done.returncode in (0, 1), done.stderr or done.stdout
    said = json.loads(done.stdout)
    assert said["summary"]["filesAnalyzed"] == len(list(directory.rglob("*.py")))
    errors: dict[str, list[Any]] = {}
    for error in said["generalDiagnostics"]:
        errors.setdefault(Path(error["file"]).relative_to(directory).parts[0], []).append(error)
    return errors


def rejected_lines() -> set[int]:
    return {number for number, line in enumerate(REJECTED.read_text().splitlines(), 1) if line.endswith("# rejected")}


def test_the_package_is_marked_as_typed() -> None:
    assert (Path(kraft_trio.__file__).parent / "py.typed").exists()


@pytest.mark.xdist_group("mypy")
def test_mypy_rejects_wrong_calls_and_no_others() -> None:
    done = run_mypy(str(REJECTED))
    found = {int(line) for line in re.findall(rf"{REJECTED.name}:(\d+): error", done.stdout)}
    assert found == rejected_lines(), done.stdout


@pytest.mark.xdist_group("pyright")
def test_pyright_rejects_wrong_calls_and_no_others(pyright: dict[str, list[Any]]) -> None:
    errors = pyright[REJECTED.name]
    assert {error["range"]["start"]["line"] + 1 for error in errors} == rejected_lines(), errors


@pytest.mark.xdist_group("pyright")
@pytest.mark.parametrize("folder", ["programs", "examples"])
def test_pyright_accepts_programs_of_users(folder: str, pyright: dict[str, list[Any]]) -> None:
    assert pyright.get(folder, []) == []
