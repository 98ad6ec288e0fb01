"""Steps: what can be done to a simulated cluster.  Each is an attrs value and also a line of text.

A step class is registered under its verb, and its fields define the words of its line.  Random faults are made of the
same steps as scenario scripts, so that any history can be printed as a script.  For every step, `parse_step(step.text)
== step`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import attrs

from kraft_trio.simulation.script.parts import FlagPart, Part
from kraft_trio.simulation.script.words import StepError, Words

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster


@attrs.frozen
class FieldSyntax:
    """Where a field is in the line: after the word `after`, if there is one.  A field with a default is
    optional."""

    part: Part[Any]
    after: str | None
    is_optional: bool

    @property
    def shown(self) -> str:
        """The syntax in the documentation, such as `[via N]`."""
        text = self.part.name if self.after is None else f"{self.after} {self.part.name}"
        return f"[{text}]" if self.is_optional else text


def part(syntax: Part[Any], *, after: str | None = None, default: Any = attrs.NOTHING) -> Any:
    """An attrs field of a step, with its syntax, the word before it, and its default."""
    is_optional = default is not attrs.NOTHING

    def validate(_step: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not syntax.check(value) and not (is_optional and value == default):
            raise ValueError(f"{attribute.name}: {value!r}; expected {syntax.expected}")

    metadata = {FieldSyntax: FieldSyntax(syntax, after, is_optional)}
    return attrs.field(default=default, validator=validate, metadata=metadata)


def flag(word: str) -> Any:
    """An attrs field that is true if that word is in the line."""
    return part(FlagPart(word), default=False)


def syntax_of(step: type[Any]) -> list[tuple[str, FieldSyntax, Any]]:
    """Name, syntax and default of each field, in the order of the line."""
    fields = [field for field in attrs.fields(step) if FieldSyntax in field.metadata]
    return [(field.name, field.metadata[FieldSyntax], field.default) for field in fields]


def read_fields(step: type[Any], words: Words) -> dict[str, Any]:
    """Read the values of a step's fields from the words after its verb.  Raises StepError."""
    values: dict[str, Any] = {}
    for name, syntax, _ in syntax_of(step):
        if syntax.is_optional:
            is_there = words.peek() == syntax.after if syntax.after is not None else syntax.part.begins(words)
            if not is_there:
                continue
        if syntax.after is not None and not words.skip(syntax.after):
            raise StepError(
                f"{words.peek() or 'the line ends'!r}; expected {syntax.after!r} and {syntax.part.expected}"
            )
        values[name] = syntax.part.read(words)
    words.end()
    return values


def write_fields(step: Any) -> list[str]:
    """The words after a step's verb."""
    words: list[str] = []
    for name, syntax, default in syntax_of(type(step)):
        value = getattr(step, name)
        if syntax.is_optional and value == default:
            continue
        words += [] if syntax.after is None else [syntax.after]
        words += syntax.part.write(value)
    return words


class NotAsExpected(AssertionError):
    """A step has found something other than it states; the message says what was expected and what was found."""


class Line:
    """One line of a script.  Subclasses are frozen attrs classes; their docstring is the manual."""

    verb: ClassVar[str]

    @property
    def text(self) -> str:
        """The line as it stands in a script."""
        return " ".join([self.verb, *write_fields(self)])

    @classmethod
    def syntax(cls) -> str:
        """The syntax of its line: `crash N... [all|some|reordered]`."""
        return " ".join([cls.verb, *(syntax.shown for _, syntax, _ in syntax_of(cls))])

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().split("\n")[0]


class Step(Line):
    """One thing that is done to a cluster."""

    keeps_time: ClassVar[bool] = False
    """Whether the step happens at a fixed time.  In a script with such a step, the other steps take no time of their
    own."""

    async def take(self, cluster: Cluster) -> None:
        """Do it.  A fault that makes no sense now, such as killing a dead node, does nothing.

        Returns when it is done, while its consequences continue.  Raises NotAsExpected if the step expects something
        else.
        """
        raise NotImplementedError

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The nodes that the step names, in the order of the line."""
        named: list[int] = []
        for name, syntax, default in syntax_of(type(self)):
            value = getattr(self, name)
            if not (syntax.is_optional and value == default):
                named += syntax.part.node_ids(value)
        return tuple(dict.fromkeys(named))

    @property
    def brings_nodes(self) -> tuple[int, ...]:
        """The nodes that this step adds to the world."""
        return ()


async def take(step: Step, cluster: Cluster) -> None:
    """Take a step, and record it as an event of the trace."""
    cluster.trace.record("step", cause=step.text)
    await step.take(cluster)


S = TypeVar("S", bound=Step)

_steps: dict[str, type[Step]] = {}
STEPS: Final[Mapping[str, type[Step]]] = MappingProxyType(_steps)
"""Every registered step by its verb.  `catalog` imports all modules that register steps."""


def register(step: type[S]) -> type[S]:
    """Class decorator: register the step under its verb, which must be free."""
    assert step.verb not in _steps, f"two steps are called {step.verb!r}"
    _steps[step.verb] = step
    return step
