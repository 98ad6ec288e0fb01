"""What Java says when a command starts Spark: in a file that is gone in the end, or named where it is needed."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra `spark`")

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from kraft_trio.cli.terminal.quiet_spark import SparkFailedError, quiet_session
from kraft_trio.errors import ConfigError, KraftError, StorageError
from kraft_trio.spark.java import use_java

JOB_ABORTED = "Spark: org.spark.Aborted: job"


class OfTheJvm(Py4JError):
    """Has no text once the JVM is no more."""

    def __init__(self, text: str | None) -> None:
        super().__init__()
        self.text = text

    def __str__(self) -> str:
        if self.text is None:
            raise Py4JNetworkError
        return self.text


class Session:
    """In place of Spark's."""

    stopped = False

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    environment = dict(os.environ)
    try:
        use_java(environment)
    except StorageError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("JAVA_HOME", environment.get("JAVA_HOME", ""))
    session = Session()
    monkeypatch.setattr("kraft_trio.spark.session", lambda master, app_name: session)
    return session


def java_says(*arguments: str) -> str:
    """On stderr, of the Java that Spark would start."""
    java = Path(os.environ["JAVA_HOME"], "bin", "java")
    return subprocess.run([java, *arguments], capture_output=True, text=True, timeout=600, check=False).stderr


def test_nothing_is_said_and_nothing_is_left(session: Session, capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_session("local", "quiet"):
        folder = Path(os.environ["JAVA_HOME"])
        assert java_says("Main") == ""
        assert "class Main" in (folder / "stderr").read_text()
        before = os.environ["JAVA_HOME"]
        use_java()
        assert os.environ["JAVA_HOME"] == before, "it is good enough for Spark"
    assert session.stopped
    assert not folder.exists()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PySparkException("no such column\nin this plan"), "Spark: no such column"),
        (Py4JNetworkError("Answer from Java side is empty"), "Spark: Answer from Java side is empty"),
        (OfTheJvm("An error occurred while calling o1.x.\n: org.spark.Aborted: job\n\tat A.java"), JOB_ABORTED),
        (OfTheJvm(None), "Spark: OfTheJvm"),
        (StorageError("TMPDIR: is not shared"), "TMPDIR: is not shared"),
    ],
)
def test_a_spark_failure_is_one_line_and_its_own_exit_code(
    session: Session, error: Exception, told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SparkFailedError) as caught, quiet_session("local", "quiet"):
        raise error
    assert str(caught.value) == told
    assert caught.value.exit_code == 2
    assert ("Spark's own messages" in capfd.readouterr().err) == told.startswith("Spark")


class OfSpark(KraftError):
    pass


def test_what_was_said_is_kept_where_spark_has_failed(session: Session, capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        try:
            java_says("Main")
            raise RuntimeError("Py4J")
        except RuntimeError as error:
            raise OfSpark("a task failed") from error

    with pytest.raises(OfSpark), quiet_session("local", "quiet"):
        fail()
    assert session.stopped
    named = re.fullmatch(r"kraft: Spark's own messages are in (\S+)\n", capfd.readouterr().err)
    assert named is not None
    assert "class Main" in Path(named[1]).read_text()


def test_what_the_user_got_wrong_is_none_of_spark_s(session: Session, capfd: pytest.CaptureFixture[str]) -> None:
    folders: list[Path] = []

    def refuse() -> None:
        folders.append(Path(os.environ["JAVA_HOME"]))
        raise ConfigError("--out")

    with pytest.raises(ConfigError), quiet_session("local", "quiet"):
        refuse()
    assert not folders[0].exists()
    assert capfd.readouterr().err == ""
