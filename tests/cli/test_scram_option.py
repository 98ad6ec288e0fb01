"""`--add-scram`: Kafka's syntax, what it writes, and that a refusal shows no password."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import stat
from pathlib import Path

import pytest

from kraft_trio.cli import run
from kraft_trio.cli.directory.scram_option import parse_scram
from kraft_trio.config.secret import Secret
from kraft_trio.errors import ConfigError
from kraft_trio.security.scram_credential import ScramCredential
from kraft_trio.security.scram_file import add_to_scram_file, read_scram_file

SALT = b"0123456789ab"
SALT_TEXT = base64.b64encode(SALT).decode()


def fits(credential: ScramCredential, password: str) -> bool:
    made = ScramCredential.of_password(
        credential.name,
        credential.mechanism,
        Secret(password),
        salt=credential.salt,
        iterations=credential.iterations,
    )
    return made == credential


@pytest.mark.parametrize(
    ("text", "name", "iterations"),
    [
        ("SCRAM-SHA-256=[name=alice,password=pw-1]", "alice", 4096),
        ('SCRAM-SHA-256=[name="alice",password="pw-1"]', "alice", 4096),
        ("SCRAM-SHA-512=[iterations=8192, name=alice, password=pw-1]", "alice", 8192),
        (f'SCRAM-SHA-512=[name=al ice,salt="{SALT_TEXT}",password=pw-1]', "al ice", 4096),
    ],
)
def test_a_user_with_a_password(text: str, name: str, iterations: int) -> None:
    [credential] = parse_scram([text])
    assert (credential.name, credential.iterations) == (name, iterations)
    assert fits(credential, "pw-1")
    assert not fits(credential, "pw-2")


def test_a_user_with_a_salted_password() -> None:
    salted = base64.b64encode(hashlib.pbkdf2_hmac("sha512", b"pw-1", SALT, 4096)).decode()
    [credential] = parse_scram([f'SCRAM-SHA-512=[name=alice,salt="{SALT_TEXT}",saltedpassword="{salted}"]'])
    assert fits(credential, "pw-1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SCRAM-SHA-1=[name=alice,password=pw-1]", "no mechanism"),
        ("SCRAM-SHA-256=name=alice,password=pw-1", "no mechanism"),
        ("SCRAM-SHA-256=[name=alice]", "either password or saltedpassword"),
        ("SCRAM-SHA-256=[password=pw-1]", "the name ''"),
        ("SCRAM-SHA-256=[name=alice,password=]", "the password is empty"),
        ("SCRAM-SHA-256=[name=älice,password=pw-1]", "printable ones of ASCII"),
        ("SCRAM-SHA-256=[name=alice,password=pw-1,iterations=100]", "4096"),
        ("SCRAM-SHA-256=[name=alice,password=pw-1,iterations=16385]", "16385 iterations"),
        ("SCRAM-SHA-256=[name=alice,password=pw-1,iterations=x]", "not a number"),
        ("SCRAM-SHA-256=[name=alice,password=pw-1,salt=N3E=]", "salt"),
        ("SCRAM-SHA-256=[name=alice,password=pw-1,salt=!]", "salt is not base64"),
        ("SCRAM-SHA-256=[name=alice,password=pw-1,saltedpassword=pw-1]", "either password or saltedpassword"),
        ("SCRAM-SHA-256=[name=alice,saltedpassword=cHctMQ==]", "needs salt"),
        ("SCRAM-SHA-256=[name=alice,password=pw-1,pw-2]", "cannot be read after password"),
        ("SCRAM-SHA-256=[name=alice,name=bob,password=pw-1]", "cannot be read after name"),
        ("SCRAM-SHA-256=[user=alice,password=pw-1]", "a field is none of name, password"),
        ("SCRAM-SHA-256=[name=alice,password=a,pw_1=2]", "a field is none of name, password"),
    ],
)
def test_other_text_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refusal:
        parse_scram([text])
    assert str(refusal.value).startswith("--add-scram: ")
    assert "pw" not in str(refusal.value).replace("password", "")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "node.properties"
    path.write_text(f"node.id=1\nlisteners=CONTROLLER://host-1:9093\nmetadata.log.dir={tmp_path / 'data'}\n")
    return path


def test_format_writes_the_users(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    format_ = ["storage", "format", "-t", "fMCL8kv1SWm87L_Md-I2hg", "-c", str(config), "--standalone"]
    assert run([*format_, "-S", "SCRAM-SHA-256=[name=alice,password=pw-1"]) == 1
    assert not (tmp_path / "data").exists()
    users = ["-S", "SCRAM-SHA-256=[name=alice,password=pw-1]", "--add-scram", "SCRAM-SHA-512=[name=bob,password=pw-2]"]
    assert run([*format_, *users]) == 0
    path = tmp_path / "data" / "scram-credentials"
    alice, bob = read_scram_file(str(path))
    assert fits(alice, "pw-1")
    assert fits(bob, "pw-2")
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert run(["storage", "add-scram", "-c", str(config), "SCRAM-SHA-256=[name=alice,password=pw-3]"]) == 0
    alice, again = read_scram_file(str(path))
    assert fits(alice, "pw-3")
    assert again == bob
    assert "pw-" not in "".join(capsys.readouterr())


def test_an_attempt_that_adds_no_user_leaves_nothing_formatted(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the next one adds them, though it ignores formatted directories."""
    users = ["-S", "SCRAM-SHA-256=[name=alice,password=pw-1]", "-S", "SCRAM-SHA-512=[name=bob,password=pw-2]"]
    format_ = ["storage", "format", "-t", "fMCL8kv1SWm87L_Md-I2hg", "-c", str(config), "--standalone", "-g", *users]

    def fail(*_: object) -> None:
        raise ConfigError("injected")

    with monkeypatch.context() as patch:
        patch.setattr("kraft_trio.security.scram_file.add_to_scram_file", fail)
        assert run(format_) == 1
    assert run(format_) == 0
    assert len(read_scram_file(str(tmp_path / "data" / "scram-credentials"))) == 2


def test_a_changed_password_survives_a_power_failure(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the new file is synced, too."""
    synced: list[bool] = []
    monkeypatch.setattr(
        "kraft_trio.security.scram_file.sync_all",
        lambda descriptor: synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode)),
    )
    path = str(config.parent / "users")
    add_to_scram_file(path, parse_scram(["SCRAM-SHA-256=[name=alice,password=pw-1]"]))
    assert synced == [False, True]


def test_users_are_read_from_stdin(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    command = ["storage", "add-scram", "-c", str(config), "-"]
    lines = "SCRAM-SHA-256=[name=alice,password=pw-1]\n\nSCRAM-SHA-256=[name=bob,password=pw-2]\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert run(command) == 0
    alice, bob = read_scram_file(str(tmp_path / "data" / "scram-credentials"))
    assert fits(alice, "pw-1")
    assert fits(bob, "pw-2")
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert run(command) == 1
    assert "stdin: no users in it; expected lines such as SCRAM-SHA-512=[name=" in capsys.readouterr().err


def test_users_of_http_have_their_own_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "node.properties"
    keys = "node.id=1\nlisteners=CONTROLLER://h:1\ncontroller.quorum.bootstrap.servers=h:1\n"
    config.write_text(f"{keys}metadata.log.dir={tmp_path}\n")
    command = ["storage", "add-scram", "-c", str(config), "--http", "SCRAM-SHA-256=[name=alice,password=pw]"]
    assert run(command) == 1
    assert "kraft.http.users.file is not set" in capsys.readouterr().err
    config.write_text(f"{config.read_text()}kraft.http.listener=HTTPS://h:2\nkraft.http.users.file={tmp_path}/http\n")
    assert run(command) == 0
    assert [user.name for user in read_scram_file(str(tmp_path / "http"))] == ["alice"]
