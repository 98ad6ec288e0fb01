"""The language of steps: every step prints as a line that is read into the same step; errors say what was expected."""

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from kraft_trio.simulation.script.catalog import parse_step
from kraft_trio.simulation.script.parts import Part
from kraft_trio.simulation.script.step import STEPS, Step
from kraft_trio.simulation.script.steps import clock, network, process
from kraft_trio.simulation.script.steps.network import Delay
from kraft_trio.simulation.script.words import StepError, Words, split_words

NODE_IDS = st.integers(0, 10**6)
NODES = st.lists(NODE_IDS, min_size=1, max_size=5, unique=True).map(tuple)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z"), include_characters=" "), max_size=8)


@st.composite
def groups(draw: st.DrawFn) -> tuple[tuple[int, ...], ...]:
    nodes = draw(st.lists(NODE_IDS, min_size=2, max_size=6, unique=True))
    at = draw(st.integers(1, len(nodes) - 1))
    return tuple(nodes[:at]), tuple(nodes[at:])


DURATIONS = st.one_of(st.integers(0, 10**14), st.integers(0, 10**5).map(lambda s: s * 10**6))
VALUES = {
    "N...": NODES,
    "N... | N...": groups(),
    "A -> B": st.lists(NODE_IDS, min_size=2, max_size=2, unique=True).map(tuple),
    "T": DURATIONS,
    "±P%": st.integers(-500_000, 500_000),
    "P%": st.integers(0, 1_000_000),
    '"TEXT"': TEXTS,
    '"TEXT"...': st.lists(TEXTS, max_size=3).map(tuple),
    "T|MIN..MAX|MIN..MAX~MEAN": st.lists(st.integers(0, 10**10), min_size=2, max_size=3)
    .map(sorted)
    .map(lambda bounds: Delay(bounds[0], bounds[-1], bounds[1] if len(bounds) == 3 else None)),
} | dict.fromkeys(("N", "OFFSET", "EPOCH", "NUMBER", "BYTES", "CALLS"), st.integers(0, 10**17))


def values_of(part: Part | None) -> st.SearchStrategy:
    if part is None:
        return st.booleans()
    return VALUES[part.name] if part.name in VALUES else st.sampled_from(part.name.split("|")).filter(part.check)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    kind = STEPS[draw(st.sampled_from(sorted(STEPS)))]
    values = {}
    for field in kind.fields:
        if not field.is_optional or draw(st.booleans()):
            values[field.name] = draw(values_of(field.part))
        else:
            values[field.name] = field.default
    try:
        return kind(**values)
    except ValueError:
        reject()


@given(steps())
def test_a_step_prints_as_the_line_that_makes_it(step: Step) -> None:
    again = parse_step(step.text)
    assert again == step
    assert again.text == step.text


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("crash 2", process.crash((2,), "all")),
        ("crash 1 2 some", process.crash((1, 2), "some")),
        ("cut 1 2 | 3", network.cut(((1, 2), (3,)))),
        ("cut 1 | 2 | 3 silent", network.cut(((1,), (2,), (3,)), silent=True)),
        ("bridge 3 between 1 2 | 4 5", network.bridge(3, between=((1, 2), (4, 5)))),
        ("wait 250ms", clock.wait(250_000)),
        ("latency 5ms", network.latency(Delay(5000, 5000))),
        ("latency 1ms..20ms on 1 -> 2", network.latency(Delay(1000, 20_000), on=(1, 2))),
        ("latency 1ms..2s~30ms", network.latency(Delay(1000, 2_000_000, 30_000))),
        ("loss 2.5% on 2 -> 1", network.loss(25_000, on=(2, 1))),
        ("wait 2m", clock.wait(120_000_000)),
        ("drift 1 -0.05%", clock.drift(1, -500)),
    ],
)
def test_a_line_is_read(line: str, step: Step) -> None:
    assert parse_step(line) == step
    assert step.text == line


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("crash", "the line ends; expected node ids: crash N... [all|some|reordered]"),
        ("crash x", "'x'; expected node ids: crash N... [all|some|reordered]"),
        ("crash 1 1", "node 1 twice; expected node ids, each once: crash N... [all|some|reordered]"),
        ("crash 1 half", "'half'; expected the end of the line: crash N... [all|some|reordered]"),
        ("cut 1 2", "the line ends; expected groups of node ids, as in 1 2 | 3: cut N... | N... [silent]"),
        ("cut 1 | 1", "node 1 is in two groups; expected groups of node ids"),
        ("one-way 1 2", "'1'; expected a link, as in 1 -> 2: one-way A -> B"),
        ("one-way 1 -> 1", "'1 -> 1' leads nowhere; expected a link"),
        ("bridge 1 2 | 3", "'2'; expected 'between' and two groups of node ids"),
        ("bridge 1 between 1 2 | 3", "node: 1 is in a group; expected one in neither: bridge N between"),
        ("bridge 1 between 2 | 3 | 4", "3 groups; expected two groups of node ids"),
        ("latency 3ms..1ms", "'3ms..1ms'; expected a latency, as in 5ms, 1ms..20ms"),
        ("loss 101%", "'101%'; expected a probability, as in 5%"),
        ("wait 3", "'3'; expected a duration, as in 250ms, 3s or 10m: wait T"),
        ("drift 1 99%", "'99%'; expected a drift between -50% and +50%"),
        ("explode 1", "unknown verb 'explode'; expected one of "),
        ('cut "1 | 2', 'a quotation does not end; expected a closing "'),
    ],
)
def test_a_line_that_is_no_step_is_refused_with_the_expectation(line: str, message: str) -> None:
    with pytest.raises(StepError) as raised:
        parse_step(line)
    assert message in str(raised.value)


def test_the_verbs_that_exist_are_named_where_one_does_not() -> None:
    with pytest.raises(StepError) as raised:
        parse_step("explode 1")
    named = str(raised.value).split("expected one of ")[1].split(", ")
    assert named == [verb for verb in sorted(STEPS) if not verb.startswith("expect")]


@pytest.mark.parametrize(
    "make",
    [
        lambda: process.crash(()),
        lambda: process.crash((1, 1)),
        lambda: process.crash((1,), "half"),  # type: ignore[arg-type]
        lambda: network.cut(((1, 2),)),
        lambda: network.cut(((1,), (1,))),
        lambda: clock.wait(-1),
        lambda: clock.drift(1, 600_000),
    ],
)
def test_a_step_that_could_not_be_printed_cannot_be_made(make) -> None:
    with pytest.raises(ValueError, match="expected"):
        make()


def test_words_quotes_and_comments() -> None:
    assert split_words('append "a # \\" b" via 1  # why') == (["append", '"a # \\" b"', "via", "1"], "# why")
    assert split_words("   ") == ([], "")
    words = Words(["a"])
    assert words.take("a word") == "a"
    with pytest.raises(StepError, match="the line ends; expected a word"):
        words.take("a word")


def test_the_nodes_of_a_step() -> None:
    assert parse_step("bridge 3 between 1 2 | 4 5").node_ids == (3, 1, 2, 4, 5)
    assert parse_step("heal").node_ids == ()
    assert parse_step("one-way 2 -> 1").node_ids == (2, 1)


def test_every_step_has_a_line_of_manual() -> None:
    for verb, step in STEPS.items():
        assert step.summary.endswith("."), verb
        assert step.syntax.startswith(verb)
