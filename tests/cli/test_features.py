"""`kraft features`: the command line."""

from __future__ import annotations

import pytest
from fake_quorum import FakeQuorum

from kraft_trio.cli import run
from kraft_trio.client.admin import AdminClient, VoterChangeError
from kraft_trio.client.quorum_description import FeatureMetadata
from kraft_trio.errors import NetworkError, OutcomeUnknownError
from kraft_trio.wire.error_codes import ErrorCode

FEATURES = ["features", "--bootstrap-controller", "a:1"]


def test_describe_in_kafkas_words(fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*FEATURES, "describe"]) == 0
    assert capsys.readouterr().out == (
        "Feature: kraft.version\tSupportedMinVersion: 0\tSupportedMaxVersion: 1\tFinalizedVersionLevel: 0\tEpoch: 5\n"
    )


@pytest.mark.parametrize(
    ("arguments", "level", "options", "said"),
    [
        (["upgrade", "--feature", "kraft.version=1"], 1, (False, False), "kraft.version was upgraded to 1.\n"),
        (
            ["upgrade", "--feature", "kraft.version=1", "--dry-run"],
            1,
            (True, False),
            "kraft.version can be upgraded to 1.\n",
        ),
        (["upgrade"], 1, (False, False), "kraft.version was upgraded to 1.\n"),
        (["upgrade", "--release-version", "4.1"], 1, (False, False), "kraft.version was upgraded to 1.\n"),
        (["upgrade", "--release-version", "3.9-IV0"], 1, (False, False), "kraft.version was upgraded to 1.\n"),
        (["downgrade", "--release-version", "3.8.1"], 0, (False, True), "kraft.version is 0 already.\n"),
        (["downgrade", "--feature", "a.feature=3"], 3, (False, True), "a.feature was downgraded to 3.\n"),
        (["disable", "--feature", "a.feature"], 0, (False, True), "a.feature was disabled.\n"),
        (["disable", "--feature", "a.feature", "--dry-run"], 0, (True, True), "a.feature can be disabled.\n"),
        (["disable", "--feature", "kraft.version"], 0, (False, True), "kraft.version is 0 already.\n"),
    ],
)
def test_update(
    arguments: list[str],
    level: int,
    options: tuple[bool, bool],
    said: str,
    fake: FakeQuorum,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([*FEATURES, *arguments]) == 0
    [(_, levels, asked)] = fake.asked
    assert list(levels.values()) == [level]
    assert (asked["validate_only"], asked["allow_downgrade"]) == options
    assert capsys.readouterr().out == said


def test_a_refusal_names_who_is_in_the_way(fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    fake.errors = [VoterChangeError("update features", ErrorCode.invalid_update_version, "voter 2 supports 0 to 0")]
    assert run([*FEATURES, "upgrade", "--feature", "kraft.version=1"]) == 1
    assert capsys.readouterr().err == (
        "kraft: error: Could not upgrade kraft.version to 1. INVALID_UPDATE_VERSION: voter 2 supports 0 to 0\n"
    )


def test_of_several_features_those_that_can_be_are_upgraded(
    fake: FakeQuorum, capsys: pytest.CaptureFixture[str]
) -> None:
    """A leader refuses all features of a request if it refuses one."""
    refused = VoterChangeError("update features", ErrorCode.invalid_update_version, "no such feature")
    fake.errors = [refused, VoterChangeError("update features", ErrorCode.feature_update_failed, None)]
    wanted = ["--feature", "a.b=2", "--feature", "c.d=3", "--feature", "kraft.version=1"]
    assert run([*FEATURES, "upgrade", *wanted]) == 1
    assert [levels for _, levels, _ in fake.asked] == [{"a.b": 2}, {"c.d": 3}, {"kraft.version": 1}]
    captured = capsys.readouterr()
    assert captured.out == "kraft.version was upgraded to 1.\n"
    assert captured.err == (
        "kraft: error: Could not upgrade a.b to 2. INVALID_UPDATE_VERSION: no such feature\n"
        "kraft: error: Could not upgrade c.d to 3. FEATURE_UPDATE_FAILED\n"
    )


def test_what_was_refused_before_a_lost_answer_is_told(fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    refused = VoterChangeError("update features", ErrorCode.invalid_update_version, None)
    fake.errors = [refused, OutcomeUnknownError("no answer"), NetworkError("no leader")]
    wanted = ["--feature", "a.b=2", "--feature", "c.d=3", "--feature", "kraft.version=1"]
    assert run([*FEATURES, "upgrade", *wanted]) == 1
    assert capsys.readouterr().err == (
        "kraft: error: Could not upgrade a.b to 2. INVALID_UPDATE_VERSION\n"
        "kraft: error: no answer; could not find out whether it was done: no leader\n"
    )


@pytest.mark.parametrize("asked", ["describe features", "update features"])
def test_without_a_leader_it_says_what_was_not_done(
    asked: str, fake: FakeQuorum, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not which question of its own the command could not ask."""
    error = NetworkError(f"{asked}: no leader could be asked in time: a:1: knows no leader in epoch 4")
    if asked == "describe features":

        async def nobody_answers(_client: AdminClient, _timeout_ms: int) -> FeatureMetadata:
            raise error

        monkeypatch.setattr(AdminClient, "describe_features", nobody_answers)
    else:
        fake.errors = [error]
    assert run([*FEATURES, "upgrade", "--feature", "kraft.version=1"]) == 1
    assert capsys.readouterr().err == (
        "kraft: error: Could not upgrade kraft.version to 1: no leader could be asked in time: a:1: knows no "
        "leader in epoch 4\n"
    )


def test_after_a_lost_answer_the_next_leader_is_asked(fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    fake.errors = [OutcomeUnknownError("no answer")]
    assert run([*FEATURES, "upgrade", "--feature", "kraft.version=1"]) == 0
    assert len(fake.asked) == 2
    assert capsys.readouterr().out == "kraft.version was upgraded to 1.\n"


def test_where_nobody_answers_it_is_open(fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    fake.errors = [OutcomeUnknownError("no answer"), NetworkError("no leader")]
    assert run([*FEATURES, "upgrade", "--feature", "kraft.version=1"]) == 1
    assert capsys.readouterr().err == ("kraft: error: no answer; could not find out whether it was done: no leader\n")


def test_a_level_that_is_there_already(fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the leader knows whether it has committed: it is asked nevertheless."""
    fake.finalized = 1
    assert run([*FEATURES, "upgrade", "--feature", "kraft.version=1"]) == 0
    assert capsys.readouterr().out == "kraft.version is 1 already.\n"
    assert len(fake.asked) == 1


@pytest.mark.parametrize("text", ["kraft.version", "=1", "kraft.version=-1", "kraft.version=x", "kraft.version=²"])
def test_no_feature(text: str, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*FEATURES, "upgrade", "--feature", text]) == 1
    assert f"--feature {text}: expected NAME=LEVEL" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["downgrade"], "one of --feature and --release-version must name the lower level"),
        (["upgrade", "--feature", "a=1", "--release-version", "4.1"], "--feature and --release-version exclude each"),
        (["upgrade", "--release-version", "4.x"], "--release-version 4.x: expected a release of Kafka from 3.0 on"),
    ],
)
def test_flags_that_name_no_one_level(
    arguments: list[str], said: str, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*FEATURES, *arguments]) == 1
    assert said in capsys.readouterr().err
    assert not fake.asked


def test_one_feature_twice(fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*FEATURES, "upgrade", "--feature", "a=1", "--feature", "a=2"]) == 1
    assert "--feature a=2: a is given twice" in capsys.readouterr().err


def test_disabling_may_be_unsafe_if_asked(fake: FakeQuorum) -> None:
    assert run([*FEATURES, "disable", "--feature", "a.feature"]) == 0
    assert run([*FEATURES, "disable", "--feature", "a.feature", "--unsafe"]) == 0
    assert [asked.get("unsafe", False) for _, _, asked in fake.asked] == [False, True]


def test_refusal_to_disable_is_in_kafkas_words(fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    fake.errors = [VoterChangeError("update features", ErrorCode.invalid_update_version, "its level never goes down")]
    assert run([*FEATURES, "disable", "--feature", "a.feature"]) == 1
    assert capsys.readouterr().err == (
        "kraft: error: Could not disable a.feature. INVALID_UPDATE_VERSION: its level never goes down\n"
    )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["disable", "--feature", "a=1"], "--feature a=1: expected the name of a feature, without a level"),
        (["disable", "--feature", "a", "--feature", "a"], "a is given twice"),
        (["version-mapping", "-r", "9.9"], "expected a release of Kafka from 3.3-IV3 to 4.4-IV2, such as 4.1"),
        (["feature-dependencies", "-f", "x=1"], "--feature x=1: unknown feature; expected one of metadata.version, k"),
        (
            ["feature-dependencies", "-f", "kraft.version=2"],
            "kraft.version=2: no such level; expected 0 to 1",
        ),
        (["feature-dependencies", "-f", "metadata.version=6"], "no such level; expected 7 to 33"),
        (["feature-dependencies", "-f", "kraft.version"], "expected NAME=LEVEL"),
    ],
)
def test_feature_that_cannot_be_used_is_named(
    arguments: list[str], reason: str, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["features", *arguments]) == 1
    assert reason in capsys.readouterr().err
    assert fake.asked == []


def test_tables_ask_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    """As Kafka 4.4 prints them."""
    assert run(["features", "version-mapping", "--release-version", "4.0"]) == 0
    assert capsys.readouterr().out == (
        "metadata.version=25 (4.0)\nkraft.version=1\ntransaction.version=2\ngroup.version=1\n"
        "eligible.leader.replicas.version=0\nshare.version=0\nstreams.version=0\n"
    )
    named = ["-f", "eligible.leader.replicas.version=1", "-f", "kraft.version=1"]
    assert run(["features", "feature-dependencies", *named]) == 0
    assert capsys.readouterr().out == (
        "eligible.leader.replicas.version=1 requires:\n    metadata.version=23 (4.0-IV1)\n"
        "kraft.version=1 has no dependencies.\n"
    )
