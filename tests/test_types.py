"""Type checkers see the public names: mypy and pyright accept programs of users and reject wrong calls."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import kraft_trio
from tests.support.programs import REPOSITORY

REJECTED = Path(__file__).parent / "data" / "rejected_calls.py"
DOCUMENTS = ("README.md", "docs/EMBEDDING.md")
EXAMPLES = ("membership.py", "tally.py")
ACCEPTED_WITHIN_S = 600

needs_pyright = pytest.mark.skipif(
    importlib.util.find_spec("pyright") is None, reason="pyright is not installed: pip install .[pyright]"
)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two examples, and the programs of the documents, as files of the names that their first lines tell."""
    directory = tmp_path_factory.mktemp("programs")
    files = []
    for document in DOCUMENTS:
        for program in re.findall(r"^```python\n(.*?)^```$", (REPOSITORY / document).read_text(), re.M | re.S):
            named = re.match(r"\"\"\".*?(\w+\.py)", program)
            assert named is not None
            files.append(directory / named[1])
            files[-1].write_text(program)
    return [*files, *(REPOSITORY / "examples" / name for name in EXAMPLES)]


def lines_with(*endings: str) -> set[int]:
    return {number for number, line in enumerate(REJECTED.read_text().splitlines(), 1) if line.endswith(endings)}


def pyright(files: Sequence[Path], directory: Path) -> list[dict[str, object]]:
    """Its errors under strict rules; skips the test if it cannot be run, as without a registry to install it from."""
    for file in files:
        shutil.copy(file, directory)
    settings = directory / "pyrightconfig.json"
    settings.write_text(json.dumps({"include": [file.name for file in files], "typeCheckingMode": "strict"}))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(settings)]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=ACCEPTED_WITHIN_S, check=False
    )
    if not done.stdout.startswith("{"):
        pytest.skip(f"pyright cannot be run: {(done.stderr or done.stdout).strip()[-200:]}")
    return [one for one in json.loads(done.stdout)["generalDiagnostics"] if one["severity"] == "error"]


def test_the_package_is_marked_as_typed() -> None:
    assert (Path(kraft_trio.__file__).parent / "py.typed").exists()


@pytest.mark.xdist_group("mypy")
def test_mypy_rejects_wrong_calls_and_no_others() -> None:
    settings = str(REPOSITORY / "pyproject.toml")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", settings, str(REJECTED)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    found = {int(line) for line in re.findall(rf"{REJECTED.name}:(\d+): error", done.stdout)}
    assert found == lines_with("# rejected"), done.stdout


@needs_pyright
def test_pyright_rejects_wrong_calls_and_no_others(tmp_path: Path) -> None:
    errors = pyright([REJECTED], tmp_path)
    found = {int(str(one["range"]["start"]["line"])) + 1 for one in errors}  # type: ignore[index]
    assert found == lines_with("# rejected"), errors


@needs_pyright
def test_pyright_accepts_programs_of_users(programs: list[Path], tmp_path: Path) -> None:
    assert programs
    assert pyright(programs, tmp_path) == []
