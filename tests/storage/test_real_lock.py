"""The lock on a directory: Java's record locks and ours refuse each other, and the holder is named."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kraft_trio.errors import AlreadyLockedError
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.disk.real_lock import command_text, lock_file
from kraft_trio.system import file_locks

LIKE_JAVA = """
import fcntl, sys
file = open(sys.argv[1], "a+b")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError as error:
    sys.exit(f"refused: {error.strerror}")
print("locked", flush=True)
sys.stdin.read()
"""
"""Takes the lock that Java's FileChannel.tryLock takes, and holds it until stdin ends."""


@pytest.fixture
def disk() -> Iterator[RealDisk]:
    made = RealDisk()
    yield made
    made.close()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "like-java"
    path.write_text(LIKE_JAVA)
    return path


@contextmanager
def locked_as_by_java(program: Path, lock: Path) -> Iterator[int]:
    """By a process with the id that is yielded."""
    command = [sys.executable, str(program), str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process.pid
        process.stdin.close()


def java_is_refused(program: Path, lock: Path) -> bool:
    command = [sys.executable, str(program), str(lock)]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    return done.stderr.startswith("refused: ")


@pytest.mark.linux
def test_lock_of_a_java_process_is_respected_and_its_process_is_named(
    disk: RealDisk, program: Path, tmp_path: Path
) -> None:
    lock = tmp_path / ".lock"
    with locked_as_by_java(program, lock) as process_id:
        by = re.escape(f"{lock}: the lock is held already by process {process_id} (")
        with pytest.raises(AlreadyLockedError, match=rf"{by}python\S* {re.escape(str(program))} "):
            disk.lock(str(lock))
    disk.lock(str(lock)).release()


def test_java_process_respects_the_lock(disk: RealDisk, program: Path, tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    lock = disk.lock(str(path))
    assert java_is_refused(program, path)
    path.read_bytes()  # POSIX: the process loses its record locks on a file when it closes any descriptor of it
    assert java_is_refused(program, path)
    with pytest.raises(AlreadyLockedError):
        disk.lock(str(path))
    assert java_is_refused(program, path)
    lock.release()
    assert not java_is_refused(program, path)


@pytest.mark.linux
def test_own_process_is_named(disk: RealDisk, tmp_path: Path) -> None:
    lock = disk.lock(str(tmp_path / ".lock"))
    with pytest.raises(AlreadyLockedError, match="the lock is held already by this process; one node at a time"):
        disk.lock(str(tmp_path / ".lock"))
    lock.release()


def test_holder_that_the_system_does_not_tell_is_not_named(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = disk.lock(str(tmp_path / ".lock"))
    monkeypatch.setattr(file_locks, "flock_holder", lambda *_: None)
    with pytest.raises(AlreadyLockedError, match="the lock is held already; one node at a time"):
        disk.lock(str(tmp_path / ".lock"))
    lock.release()


def test_lock_is_of_the_file_that_is_there(disk: RealDisk, tmp_path: Path) -> None:
    """Kafka deletes its lock's file at the end, perhaps after another process has opened it."""
    path = tmp_path / ".lock"
    deleted = os.open(path, os.O_RDWR | os.O_CREAT)
    path.unlink()
    assert lock_file(str(path), os.dup(deleted)) is None
    path.touch()
    assert lock_file(str(path), deleted) is None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(deleted)
    disk.lock(str(path)).release()


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (
            "/usr/bin/java -Xmx1G -Dkey=secret -cp /opt/libs/* kafka.Kafka /etc/c.properties",
            "java kafka.Kafka /etc/c.properties",
        ),
        ("python3 -m kraft_trio server start -c f --override k=secret", "python3 kraft_trio server start f"),
        ("/opt/kraft/bin/kraft", "kraft"),
        ("java kafka.Kafka f --override k=secret k=secret", "java kafka.Kafka f"),
        ("a " + "b" * 200, "a " + "b" * 118 + "…"),
    ],
)
def test_command_is_told_without_options(command: str, text: str) -> None:
    assert command_text(command.split()) == text
