"""Scenario scripts as text: what is read prints as it was; what cannot be read is refused with line and reason."""

import pytest

from kraft_trio.simulation.script.header import Header
from kraft_trio.simulation.script.script import Remark, ScenarioError, Script, StepLine, parse_script
from kraft_trio.simulation.script.steps import clock, network, process

TEXT = """\
# Why it holds.

seed 7
voters 1 2 3
observers 4  # never campaigns
kraft-version 0
set controller.quorum.fetch.timeout.ms 2000

# The first fault.
cut 1 4 | 2 3 silent  # one voter and the observer
    -> 1 resigns from epoch 1
    -> 2 leads epoch 2

wait 3s
heal
"""


def test_a_script_prints_as_it_was_read() -> None:
    script = parse_script(TEXT, "s.txt")
    assert script.text == TEXT
    assert parse_script(script.text, "s.txt") == script


def test_what_is_read() -> None:
    script = parse_script(TEXT, "s.txt")
    assert script.header == Header(
        seed=7,
        voters=(1, 2, 3),
        observers=(4,),
        kraft_version=0,
        settings=(("controller.quorum.fetch.timeout.ms", "2000"),),
    )
    assert script.steps == (network.cut(((1, 4), (2, 3)), silent=True), clock.wait(3_000_000), network.heal())
    cut = script.step_lines[0]
    assert cut.output == ("1 resigns from epoch 1", "2 leads epoch 2")
    assert cut.number == 10


def test_spaces_do_not_matter() -> None:
    script = parse_script("  voters   1 2\n\n wait   3s\n->  done  ")
    assert script.text == "voters 1 2\n\nwait 3s\n    -> done\n"


def test_a_script_is_made_of_steps() -> None:
    header = Header(seed=3, observers=(9,), witnesses=(3,), settings=(("controller.quorum.append.linger.ms", "5"),))
    script = Script.of(header, [process.crash((1,)), network.heal()], comment="found by seed 3\n\nshrunk")
    assert script.text == (
        "# found by seed 3\n#\n# shrunk\n"
        "seed 3\nvoters 1 2 3\nobservers 9\nwitnesses 3\nset controller.quorum.append.linger.ms 5\n\ncrash 1\nheal\n"
    )
    assert parse_script(script.text) == script


def test_outputs_are_put_below_their_steps() -> None:
    script = parse_script("wait 1s\n    -> old\n# then\nwait 2s\nwait 3s\n")
    changed = script.with_outputs([["a", "b"], []])
    assert changed.text == "wait 1s\n    -> a\n    -> b\n# then\nwait 2s\nwait 3s\n"
    assert [type(line) for line in changed.lines] == [StepLine, Remark, StepLine, StepLine]


@pytest.mark.parametrize(
    ("text", "number", "message"),
    [
        ("voters 1 2 3\nexplode 2", 2, "unknown verb 'explode'; expected one of "),
        ("voters 1 2 3\n\ncrash 4", 3, "node 4 is not in this cluster; expected one of 1, 2, 3"),
        ("observers 4\ncut 1 4 | 5", 2, "node 5 is not in this cluster; expected one of 1, 2, 3, 4"),
        ("voters 1 2\ncrash one", 2, "'one'; expected node ids"),
        ("voters", 1, "the line ends; expected node ids: voters N..."),
        ("voters 1 2\nobservers 2", 2, "node 2 is a voter and an observer; expected other observers than voters 1 2"),
        ("witnesses 4", 1, "witness 4 is no node; expected some of 1 2 3, which come first"),
        ("voters 1 2 3\nset kraft.witness true", 2, "kraft.witness is what the simulator gives each node"),
        ("observers 2", 1, "node 2 is a voter and an observer; expected other observers than voters 1 2 3"),
        ("observers 4\nvoters 4 5", 2, "node 4 is a voter and an observer"),
        ("voters 1\nvoters 1", 2, "'voters' twice; expected it once"),
        ("wait 1s\nvoters 1", 2, "'voters' after a step; expected it before the first one"),
        ("kraft-version 2", 1, "'2'; expected one of 0, 1: kraft-version 0|1"),
        ("set controller.quorum.append.linger.ms many", 1, "controller.quorum.append.linger.ms"),
        ("set no.such.key 1", 1, "no.such.key"),
        (
            "set message.max.bytes 100000\nset message.max.bytes 2",
            2,
            "message.max.bytes is set twice; expected each key once",
        ),
        ("voters 1\n-> done", 2, "'-> done'; expected the step it comes of on the line above"),
    ],
)
def test_a_bad_script_is_refused_with_file_line_and_reason(text, number, message) -> None:
    with pytest.raises(ScenarioError) as raised:
        parse_script(text, "s.txt")
    assert raised.value.number == number
    said = str(raised.value)
    assert said.startswith(f"s.txt, line {number}: ")
    assert message in said
    assert text.splitlines()[number - 1].strip() in said
