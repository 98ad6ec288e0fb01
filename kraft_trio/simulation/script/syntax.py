"""The syntax of a step as metadata of its attrs fields: each stands in the line in the order of the class."""

from __future__ import annotations

from typing import Any

import attrs

from kraft_trio.simulation.script.parts import FlagPart, Part
from kraft_trio.simulation.script.words import StepError, Words


@attrs.frozen
class FieldSyntax:
    """Where a field's value stands in the line: behind `after`, if that is given; optional, if it has a default."""

    part: Part[Any]
    after: str | None
    is_optional: bool

    @property
    def shown(self) -> str:
        """As documentation shows it: `[via N]`."""
        text = self.part.name if self.after is None else f"{self.after} {self.part.name}"
        return f"[{text}]" if self.is_optional else text


def part(syntax: Part[Any], *, after: str | None = None, default: Any = attrs.NOTHING) -> Any:
    """An attrs field of a step: its syntax, the word before it, and what it is where the line leaves it out."""
    is_optional = default is not attrs.NOTHING

    def validate(_step: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not syntax.check(value) and not (is_optional and value == default):
            raise ValueError(f"{attribute.name}: {value!r}; expected {syntax.expected}")

    metadata = {FieldSyntax: FieldSyntax(syntax, after, is_optional)}
    return attrs.field(default=default, validator=validate, metadata=metadata)


def flag(word: str) -> Any:
    """An attrs field that is true where that word stands in the line."""
    return part(FlagPart(word), default=False)


def syntax_of(step: type[Any]) -> list[tuple[str, FieldSyntax, Any]]:
    """Name, syntax and default of each field, in the order of the line."""
    fields = [field for field in attrs.fields(step) if FieldSyntax in field.metadata]
    return [(field.name, field.metadata[FieldSyntax], field.default) for field in fields]


def read_fields(step: type[Any], words: Words) -> dict[str, Any]:
    """The values of a step's fields, from the words behind its verb.  Raises StepError."""
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
    """The words behind a step's verb."""
    words: list[str] = []
    for name, syntax, default in syntax_of(type(step)):
        value = getattr(step, name)
        if syntax.is_optional and value == default:
            continue
        words += [] if syntax.after is None else [syntax.after]
        words += syntax.part.write(value)
    return words
