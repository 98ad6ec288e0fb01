"""What is built can be installed: its files, its declared requirements, and what works with which extra."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import Distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from harness.ports import free_ports
from tests.release.installed import Environment, build, declared, unpacked
from tests.support.programs import REPOSITORY

EXTRAS = ("kv", "audit", "spark", "spark-java")
OF_THE_USERS_TESTS = {"pytest"}
"""Who uses the package's fixtures has it."""

pytestmark = pytest.mark.xdist_group("release")

IMPORT_ALL = """
import json, pkgutil, importlib, kraft_trio
missing = {}
for module in pkgutil.walk_packages(kraft_trio.__path__, "kraft_trio.", onerror=lambda name: None):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            missing[module.name] = error.name.partition(".")[0]
print(json.dumps(missing))
"""

NODE = ("server", "start", "-c", "node.properties")
WITHOUT_EXTRAS = {
    ("audit", "."): ("kraft audit: pyarrow", "audit"),
    ("audit", "--trace", "."): ("kraft audit: pyarrow", "audit"),
    ("metadata", "topics", "."): ("kraft metadata: pyarrow", "audit"),
    ("metadata", "topics", ".", "--as-of", "7"): ("kraft metadata: pyarrow", "audit"),
    ("metadata", "report", ".", "--out", "page"): ("kraft metadata: pyarrow", "audit"),
    ("simulate", "--seeds", "1:2", "--spark"): ("kraft simulate with --out or --spark: pyarrow", "spark"),
    ("dashboard", "--bootstrap-server", "127.0.0.1:1"): ("kraft dashboard: httptools", "kv"),
    (*NODE, "--override", "kraft.state.machine=kv"): ("kraft.state.machine=kv: httptools", "kv"),
    (*NODE, "--override", "kraft.http.listener=HTTP://127.0.0.1:2"): ("kraft.http.listener: httptools", "kv"),
}
RUN_ALL = """
import sys
from kraft_trio.cli import run
for line in sys.argv[1:]:
    print(run(line.split()))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(REPOSITORY, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def own(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    return unpacked(built[1], tmp_path_factory.mktemp("unpacked"))


@pytest.fixture(scope="module")
def bare(own: Distribution, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """After `pip install kraft-trio`."""
    return Environment(tmp_path_factory.mktemp("bare"), own)


def tracked() -> set[str]:
    if not (REPOSITORY / ".git").exists():
        pytest.skip("needs a clone: this tree has no .git")
    command = ["git", "-C", str(REPOSITORY), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return {name for name in listed.split("\0") if (path := REPOSITORY / name).is_file() and not path.is_symlink()}


def test_the_wheel_has_the_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        names = set(archive.namelist())
    about = {name.partition(".dist-info/")[2] for name in names if ".dist-info/" in name}
    assert about == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    ours = {"pyspark_kraft.py", "pyspark_kraft_trace.py"}
    assert {name for name in names if ".dist-info/" not in name} == ours | {
        name for name in tracked() if name.startswith("kraft_trio/")
    }
    assert "kraft_trio/py.typed" in names


def test_the_page_of_the_index_has_the_example_and_no_link_into_the_repository(own: Distribution) -> None:
    page = own.read_text("METADATA").partition("\n\n")[2]
    assert page.startswith("# kraft-trio\n")
    assert "```python\n" in page
    assert re.findall(r"\]\((?!https://)[^)]*\)", page) == []


def test_the_source_distribution_has_every_file_and_builds_the_same(built: tuple[Path, Path], tmp_path: Path) -> None:
    with tarfile.open(built[0]) as archive:
        [top] = {name.partition("/")[0] for name in archive.getnames()}
        assert {name.partition("/")[2] for name in archive.getnames()} == tracked() | {"PKG-INFO"}
    subprocess.run(["tar", "xf", built[0], "--no-same-permissions", "-m", "-C", tmp_path], umask=0o077, check=True)
    again = build(tmp_path / top, tmp_path / "dist", umask=0o077, TZ="Asia/Tokyo", USER="somebody")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in built]


def test_what_is_imported_is_declared(own: Distribution) -> None:
    names = {canonicalize_name(line.name) for line in declared(own, EXTRAS)}
    known = packages_distributions()
    imported = {
        top
        for path in (REPOSITORY / "kraft_trio").rglob("*.py")
        for top in re.findall(r"^ *(?:import|from(?= [\w.]+ import)) (\w+)(?=[ .\n])", path.read_text(), re.MULTILINE)
    }
    foreign = imported - sys.stdlib_module_names - {"kraft_trio"}
    undeclared = {top for top in foreign if not names & {canonicalize_name(one) for one in known.get(top, ())}}
    assert undeclared == OF_THE_USERS_TESTS


def missing(environment: Environment, folder: Path) -> dict[str, str]:
    """The modules of the package that cannot be imported, with the first name that each lacks."""
    ended = environment.run("python", "-c", IMPORT_ALL, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, str] = json.loads(ended.stdout)
    return found


@pytest.mark.rotating(3)
def test_every_module_can_be_imported_with_all_extras(own: Distribution, tmp_path: Path) -> None:
    assert set(missing(Environment(tmp_path / "whole", own, EXTRAS), tmp_path).values()) == OF_THE_USERS_TESTS


def test_every_module_can_be_imported_or_needs_an_extra(own: Distribution, bare: Environment, tmp_path: Path) -> None:
    """A missing requirement or file is found where it is imported first."""
    of_extras = {canonicalize_name(line.name) for line in declared(own, EXTRAS)}
    of_extras -= {canonicalize_name(line.name) for line in declared(own, ())}
    known = packages_distributions()
    for module, name in missing(bare, tmp_path).items():
        assert name in OF_THE_USERS_TESTS or {canonicalize_name(one) for one in known[name]} & of_extras, module


def test_a_command_without_its_extra_says_what_to_type(bare: Environment, tmp_path: Path) -> None:
    (tmp_path / "node.properties").write_text(
        "node.id=1\nprocess.roles=controller\nlisteners=CONTROLLER://127.0.0.1:1\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=127.0.0.1:1\nmetadata.log.dir=data\n"
    )
    formatting = "storage format -t AkH_xZmUTaaB0avwvYBEeg -c node.properties --standalone"
    ended = bare.run("python", "-c", RUN_ALL, formatting, *map(" ".join, WITHOUT_EXTRAS), cwd=tmp_path)
    assert [line for line in ended.stderr.splitlines() if "kraft: error: " in line] == [
        f"kraft: error: {what} is not installed; expected pip install 'kraft-trio[{extra}]'"
        for what, extra in WITHOUT_EXTRAS.values()
    ]
    assert ended.stdout.split()[-len(WITHOUT_EXTRAS) :] == ["5" if line[:4] == NODE else "2" for line in WITHOUT_EXTRAS]
    assert ended.returncode == 0


def test_the_example_of_the_readme_needs_no_more(bare: Environment, tmp_path: Path) -> None:
    [text] = re.findall(r"^```python\n(.*?)^```$", (REPOSITORY / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    for shown, port in zip((9093, 9094, 9095), free_ports(3), strict=True):
        text = text.replace(f"127.0.0.1:{shown}", f"127.0.0.1:{port}")
    (tmp_path / "total.py").write_text(text)
    assert bare.run("python", "total.py", cwd=tmp_path).stdout.splitlines()[-1] == "node 1 reads 150"
    assert bare.run("kraft", "--version", cwd=tmp_path).stdout.startswith("kraft, version ")


@pytest.mark.acceptance
@pytest.mark.rotating(4)
def test_the_quickstart_needs_no_more(bare: Environment, tmp_path: Path) -> None:
    shown = bare.run("kraft", "quickstart", "--once", cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert re.findall(r"\trecord \d$", shown.stdout, re.MULTILINE) == [f"\trecord {number}" for number in range(1, 6)]
    assert shown.stdout.count("  Follower") == 2
