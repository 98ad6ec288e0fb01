"""scripts/get-kafka, with a Maven that only pretends."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "get-kafka"

MAVEN = """#!/bin/sh
echo once >> "$CALLS"
for argument; do
    case "$argument" in
        -DoutputDirectory=*) libs=${argument#*=} ;;
        *pom.xml) pom=$argument ;;
    esac
done
for artifact in $LACKING; do
    if grep -q "<artifactId>$artifact</artifactId>" "$pom"; then
        echo "[ERROR] The following artifacts could not be resolved: org.apache.kafka:$artifact:jar:4.1.0"
        exit 1
    fi
done
mkdir -p "$libs"
touch "$libs/kafka-raft-4.1.0.jar"
sed 's|</dependency>|&\\n|g' "$pom" |
    sed -n 's|.*<dependency>.*<artifactId>\\(.*\\)</artifactId><version>\\(.*\\)</version>.*|\\1-\\2.jar|p' |
    while read -r jar; do touch "$libs/$jar"; done
"""


class Checkout:
    """A folder with nothing but the script, and the commands that it finds."""

    def __init__(self, home: Path, script: Path = SCRIPT) -> None:
        self.home = home
        self._script = script
        self.calls = home / "calls"
        self._commands = home / "commands"
        (home / "scripts").mkdir()
        self._commands.mkdir()
        shutil.copy(script, home / "scripts")
        for name in (
            "bash",
            "dirname",
            "mkdir",
            "mktemp",
            "rm",
            "cat",
            "tee",
            "awk",
            "grep",
            "head",
            "mv",
            "sed",
            "touch",
        ):
            (self._commands / name).symlink_to(str(shutil.which(name)))

    def install(self, name: str, text: str = "#!/bin/sh\n") -> None:
        path = self._commands / name
        path.write_text(text)
        path.chmod(0o755)

    def run(self, *arguments: str, lacking: str = "") -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self._commands), "CALLS": str(self.calls), "LACKING": lacking}
        command = [str(self.home / "scripts" / self._script.name), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path)
    made.install("java")
    made.install("mvn", MAVEN)
    return made


def jars(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "libs").iterdir())


def test_a_folder_like_an_unpacked_kafka_comes_of_it_once(checkout: Checkout) -> None:
    got = checkout.run("4.1.0")
    assert got.returncode == 0, got.stderr
    folder = Path(got.stdout.strip())
    assert folder == checkout.home / ".kafka" / "4.1.0"
    assert {"kafka_2.13-4.1.0.jar", "kafka-tools-4.1.0.jar", "kafka-shell-4.1.0.jar"} <= set(jars(folder))
    assert (folder / "config" / "log4j2.properties").exists()
    asked = checkout.calls.read_text()
    again = checkout.run("4.1.0")
    assert (again.returncode, again.stdout) == (0, got.stdout)
    assert checkout.calls.read_text() == asked
    assert [path.name for path in (checkout.home / ".kafka").iterdir()] == ["4.1.0"]


def test_a_release_without_a_further_module_is_got_without_it(checkout: Checkout) -> None:
    got = checkout.run("4.1.0", lacking="kafka-shell")
    assert got.returncode == 0, got.stderr
    assert "no kafka-shell of 4.1.0: left out" in got.stderr
    found = jars(Path(got.stdout.strip()))
    assert "connect-file-4.1.0.jar" in found
    assert "kafka-shell-4.1.0.jar" not in found


def test_a_failed_download_leaves_nothing(checkout: Checkout) -> None:
    got = checkout.run("4.1.0", lacking="kafka_2.13")
    assert got.returncode == 2
    assert "Maven cannot get Kafka 4.1.0" in got.stderr
    assert not any((checkout.home / ".kafka").iterdir())


@pytest.mark.parametrize("missing", ["java", "mvn"])
def test_what_is_missing_is_named(tmp_path: Path, missing: str) -> None:
    bare = Checkout(tmp_path)
    bare.install({"java": "mvn", "mvn": "java"}[missing])
    got = bare.run()
    assert got.returncode == 2
    assert f"{missing} is not on PATH" in got.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["trunk"], "VERSION is trunk: expected three numbers"),
        (["--newest"], "unknown option --newest"),
        (["4.1.0", "4.4.0"], "expected one version, found 2"),
    ],
)
def test_a_wrong_argument_is_refused(checkout: Checkout, arguments: list[str], complaint: str) -> None:
    got = checkout.run(*arguments)
    assert got.returncode == 2
    assert complaint in got.stderr
    assert not checkout.calls.exists()
