"""The file of SCRAM's users: who may read it, when it is read again, and that it tells nobody who is in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kraft_trio.config.sasl_fields import SCRAM_SHA_256
from kraft_trio.config.secret import Secret
from kraft_trio.errors import ConfigError
from kraft_trio.security.scram_credential import ScramCredential
from kraft_trio.security.scram_file import add_to_scram_file, read_scram_file
from kraft_trio.security.scram_users import ScramUsers


def credential(name: str = "alice", password: str = "pencil", iterations: int = 4096) -> ScramCredential:
    return ScramCredential.of_password(name, SCRAM_SHA_256, Secret(password), iterations=iterations)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "users")


def test_what_is_written_is_read(path: str) -> None:
    alice, bob = credential(), credential("bob = b, [x]")
    add_to_scram_file(path, [alice])
    add_to_scram_file(path, [bob])
    assert read_scram_file(path) == (alice, bob)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.listdir(os.path.dirname(path)) == ["users"]
    changed = credential(password="another")
    add_to_scram_file(path, [changed])
    assert read_scram_file(path) == (changed, bob)


@pytest.mark.parametrize("is_new", [True, False])
def test_root_writes_for_the_owner(is_new: bool, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node that reads the file is another user: that of the old file, or else of its directory."""
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "fchown", lambda descriptor, user, group: given.append((user, group)))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    if not is_new:
        add_to_scram_file(path, [credential()])
    assert given == []
    true_stat, owned = os.stat, os.path.dirname(path) if is_new else path

    def of_another(name: Any, *args: Any, **options: Any) -> os.stat_result:
        found = true_stat(name, *args, **options)
        return os.stat_result((*found[:4], 10001, 10002, *found[6:])) if name == owned else found

    monkeypatch.setattr(os, "stat", of_another)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    add_to_scram_file(path, [credential("carol")])
    assert given == [(10001, 10002)]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_a_file_that_others_can_use_is_refused(path: str, mode: int) -> None:
    add_to_scram_file(path, [credential()])
    os.chmod(path, mode)
    with pytest.raises(ConfigError, match=f"mode {mode:04o} gives others access; 0600 is needed"):
        ScramUsers(path)
    with pytest.raises(ConfigError, match="0600 is needed"):
        add_to_scram_file(path, [credential("bob")])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SCRAM-SHA-256", "SCRAM-SHA-1"),
        ("4096", "4095"),
        ("4096", "16385"),
        ("4096", '"4096"'),
        ("alice", ""),
        ("salt", "pepper"),
        ('"iterations"', '"i": 1, "iterations"'),
        ("{", "["),
        ("=", ""),
    ],
)
def test_a_damaged_line_is_named_and_not_shown(path: str, old: str, new: str) -> None:
    add_to_scram_file(path, [credential()])
    text = Path(path).read_text()
    assert old in text
    Path(path).write_text(text.replace(old, new))
    with pytest.raises(ConfigError) as refusal:
        read_scram_file(path)
    assert str(refusal.value) == f"{path}: line 1 is no credential of SCRAM"


def test_a_changed_file_counts_at_once(path: str) -> None:
    add_to_scram_file(path, [credential()])
    users = ScramUsers(path)
    bob = credential("bob")
    assert users.credential(SCRAM_SHA_256, "bob") != bob
    add_to_scram_file(path, [bob])
    assert users.credential(SCRAM_SHA_256, "bob") == bob


def test_an_unknown_user_costs_a_check_of_a_password_as_much_as_a_known_one(path: str) -> None:
    """Basic authentication does not name the mechanism, so an unknown user must have those that others have."""
    add_to_scram_file(path, [credential(iterations=8192)])
    users = ScramUsers(path)
    [known], [unknown] = users.credentials("alice"), users.credentials("nobody")
    assert (unknown.mechanism, unknown.iterations) == (known.mechanism, known.iterations) == (SCRAM_SHA_256, 8192)
    assert unknown.name != "nobody"
    assert unknown.stored_key != known.stored_key


def test_while_the_file_is_unusable_the_old_users_stay(path: str) -> None:
    alice = credential()
    add_to_scram_file(path, [alice])
    users = ScramUsers(path)
    for spoil in (lambda: os.chmod(path, 0o644), lambda: os.unlink(path)):
        spoil()
        assert users.credential(SCRAM_SHA_256, "alice") == alice
    with pytest.raises(ConfigError, match="No such file or directory; expected the users that `kraft storage"):
        ScramUsers(path)


def test_an_unknown_user_has_salt_and_iterations_too(path: str) -> None:
    add_to_scram_file(path, [credential(iterations=8192)])
    nobody = ScramUsers(path).credential(SCRAM_SHA_256, "nobody")
    again = ScramUsers(path).credential(SCRAM_SHA_256, "nobody")
    assert (nobody.salt, nobody.iterations) == (again.salt, 8192)
    assert nobody.stored_key != again.stored_key
    assert ScramUsers(path).credential(SCRAM_SHA_256, "nobody2").salt != nobody.salt
    assert len(nobody.salt) == len(ScramUsers(path).credential(SCRAM_SHA_256, "alice").salt)


def test_keys_are_not_shown() -> None:
    alice = credential()
    assert repr(alice) == "ScramCredential(name='alice', mechanism='SCRAM-SHA-256', iterations=4096)"


@pytest.mark.parametrize("is_dangling", [True, False])
def test_a_symbolic_link_is_not_written_through(path: str, is_dangling: bool, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    if not is_dangling:
        add_to_scram_file(str(target), [credential()])
    os.symlink(target, path)
    with pytest.raises(ConfigError, match="users: a symbolic link"):
        add_to_scram_file(path, [credential("bob")])
    assert target.exists() is not is_dangling
    assert is_dangling or [one.name for one in read_scram_file(str(target))] == ["alice"]
