"""scripts/get-spark-kafka, with a Maven that only pretends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_get_kafka import MAVEN, SCRIPT, Checkout

CONNECTOR = "spark-sql-kafka-0-10_2.13"


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path, SCRIPT.with_name("get-spark-kafka"))
    made.install("java")
    made.install("mvn", MAVEN)
    return made


def test_a_folder_of_jars_comes_of_it_once(checkout: Checkout) -> None:
    got = checkout.run("4.2.0")
    assert got.returncode == 0, got.stderr
    folder = Path(got.stdout.strip())
    assert folder == checkout.home / ".spark-kafka" / "4.2.0"
    assert (folder / f"{CONNECTOR}-4.2.0.jar").exists()
    asked = checkout.calls.read_text()
    again = checkout.run("4.2.0")
    assert (again.returncode, again.stdout) == (0, got.stdout)
    assert checkout.calls.read_text() == asked
    assert [path.name for path in folder.parent.iterdir()] == ["4.2.0"]


def test_a_failed_download_leaves_nothing(checkout: Checkout) -> None:
    got = checkout.run(lacking=CONNECTOR)
    assert got.returncode == 2
    assert "Maven cannot get version" in got.stderr
    assert not any((checkout.home / ".spark-kafka").iterdir())


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


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    bare = Checkout(tmp_path, SCRIPT.with_name("get-spark-kafka"))
    bare.install("java")
    got = bare.run()
    assert got.returncode == 2
    assert "mvn is not on PATH" in got.stderr
