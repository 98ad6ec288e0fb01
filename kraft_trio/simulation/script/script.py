"""Scenario scripts: a text that says what happens to a cluster and why, a step a line, and below each what came of it.

    # A leader cut off from its followers cannot commit.      <- the argument, in comments
    voters 1 2 3                                              <- the header: the cluster (`header`)

    elect 1                                                   <- steps (`catalog`)
      -> 1 leads epoch 1                                      <- what came of it, written by `run`

A script that was read prints as the text it was read from, up to the spaces between words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import attrs

from kraft_trio.errors import KraftError
from kraft_trio.simulation.script.catalog import step_from_words
from kraft_trio.simulation.script.header import Header, HeaderItem, header_item_from_words
from kraft_trio.simulation.script.step import Step
from kraft_trio.simulation.script.words import StepError, split_words

ARROW: Final = "-> "
OUTPUT_INDENT: Final = "    "


class ScenarioError(KraftError):
    """A script that cannot be read.  The message names the file, line number, line and what was expected."""

    def __init__(self, name: str, number: int, line: str, problem: str) -> None:
        self.name = name
        self.number = number
        """The number of the line, from 1."""
        self.problem = problem
        super().__init__(f"{name}, line {number}: {problem}\n    {line.strip()}")


@attrs.frozen
class Remark:
    """A line without effect: an empty line, or a comment with its `#`."""

    text: str = ""

    def printed(self) -> Iterator[str]:
        yield self.text


@attrs.frozen
class HeaderLine:
    """A line of the header."""

    item: HeaderItem
    comment: str = ""

    def printed(self) -> Iterator[str]:
        yield _with_comment(self.item.text, self.comment)


@attrs.frozen
class StepLine:
    """A step, and its output in the script."""

    step: Step
    comment: str = ""
    output: tuple[str, ...] = ()
    """Without the arrows."""
    number: int = attrs.field(default=0, eq=False)
    """The number of the line in its file, from 1; 0 if it is in no file."""

    def printed(self) -> Iterator[str]:
        yield _with_comment(self.step.text, self.comment)
        for line in self.output:
            yield f"{OUTPUT_INDENT}{ARROW}{line}"


Line: TypeAlias = Remark | HeaderLine | StepLine


def _with_comment(text: str, comment: str) -> str:
    return f"{text}  {comment}" if comment else text


@attrs.frozen
class Script:
    """A scenario that was read or made."""

    name: str
    """The name of its file, for messages."""
    header: Header
    lines: tuple[Line, ...]

    @property
    def text(self) -> str:
        """The text of the file."""
        return "".join(f"{text}\n" for line in self.lines for text in line.printed())

    @property
    def step_lines(self) -> tuple[StepLine, ...]:
        return tuple(line for line in self.lines if isinstance(line, StepLine))

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(line.step for line in self.step_lines)

    @classmethod
    def of(cls, header: Header, steps: Iterable[Step], *, name: str = "script", comment: str = "") -> Script:
        """The script of a cluster and its steps.  Each line of `comment` becomes a comment at its head."""
        remarks = [Remark(f"# {line}".rstrip()) for line in comment.splitlines()]
        items = [HeaderLine(item) for item in header.items()]
        return cls(name, header, (*remarks, *items, Remark(), *(StepLine(step) for step in steps)))

    def with_outputs(self, outputs: Sequence[Sequence[str]]) -> Script:
        """This script with one output for each step, in order.  Further steps have no output."""
        given = iter(outputs)
        lines = [
            attrs.evolve(line, output=tuple(next(given, ()))) if isinstance(line, StepLine) else line
            for line in self.lines
        ]
        return attrs.evolve(self, lines=tuple(lines))


def read_script(path: Path) -> Script:
    """Read a file.  Raises ScenarioError, OSError."""
    content = path.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        shown = f"byte {content[error.start]:#04x}"
        raise ScenarioError(str(path), line, shown, "expected text in UTF-8") from None
    return parse_script(text, str(path))


def parse_script(text: str, name: str = "script") -> Script:
    """Read the text of a script.  Raises ScenarioError at the first line that cannot be read."""
    reader = _Reader(Header())
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            reader.read(number, line)
        except StepError as error:
            raise ScenarioError(name, number, line, str(error)) from None
    return Script(name, reader.header, tuple(reader.lines))


@attrs.define
class _Reader:
    """The part of a script that has been read."""

    header: Header
    lines: list[Line] = attrs.field(factory=list)
    _said: list[str] = attrs.field(factory=list)
    """The verbs of the header so far, in order."""

    def read(self, number: int, line: str) -> None:
        if line.lstrip().startswith(ARROW.rstrip()):
            self._read_output(line.strip())
            return
        words, comment = split_words(line)
        if not words:
            self.lines.append(Remark(comment))
        elif (item := header_item_from_words(words)) is not None:
            self._read_header_item(item, comment)
        else:
            self._read_step(number, words, comment)

    def _read_output(self, line: str) -> None:
        last = self.lines[-1] if self.lines else None
        if not isinstance(last, StepLine):
            raise StepError(f"{line!r}; expected the step it comes of on the line above")
        self.lines[-1] = attrs.evolve(last, output=(*last.output, line.removeprefix(ARROW.rstrip()).strip()))

    def _read_header_item(self, item: HeaderItem, comment: str) -> None:
        if any(isinstance(line, StepLine) for line in self.lines):
            raise StepError(f"{item.verb!r} after a step; expected it before the first one")
        if item.verb in self._said and item.verb != "set":
            raise StepError(f"{item.verb!r} twice; expected it once")
        self.header = item.take(self.header)
        self._said.append(item.verb)
        self.lines.append(HeaderLine(item, comment))

    def _read_step(self, number: int, words: list[str], comment: str) -> None:
        step = step_from_words(words)
        for node in step.node_ids:
            if node not in self.header.nodes:
                names = ", ".join(map(str, sorted(self.header.nodes)))
                raise StepError(f"node {node} is not in this cluster; expected one of {names}")
        self.lines.append(StepLine(step, comment, number=number))
