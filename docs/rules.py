"""The table of rules: what the KIPs and Kafka demand, where the code decides it, and what became of the rest."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs
import cattrs

SOURCE: Final = Path(__file__).parent / "rules.toml"


@attrs.frozen
class Rule:
    says: str
    code: tuple[str, ...] = ()
    """Names below `kraft_trio`."""
    tests: tuple[str, ...] = ()
    """`file::name` below `tests`."""
    also: tuple[str, ...] = ()
    """Configuration keys, metrics, commands and pages, as Markdown."""
    remark: str = ""

    @property
    def where(self) -> tuple[str, ...]:
        return (*(f"`{name}`" for name in self.code), *self.also)


@attrs.frozen
class Section:
    title: str
    rule: tuple[Rule, ...]


@attrs.frozen
class Part:
    """The rules of one source."""

    title: str
    section: tuple[Section, ...]

    @property
    def rules(self) -> Iterator[Rule]:
        for section in self.section:
            yield from section.rule


def parts() -> tuple[Part, ...]:
    converter = cattrs.Converter(forbid_extra_keys=True)
    return converter.structure(tomllib.loads(SOURCE.read_text())["part"], tuple[Part, ...])


def tables() -> Iterator[tuple[str, list[tuple[str, str, str, str]]]]:
    """Each heading, and the rows below it: rule, code, tests, remark."""
    for part in parts():
        yield f"## {part.title}\n", []
        for section in part.section:
            heading = f"### {section.title}\n" if section.title else ""
            yield (
                heading,
                [
                    (rule.says, ", ".join(rule.where), ", ".join(f"`{test}`" for test in rule.tests), rule.remark)
                    for rule in section.rule
                ],
            )
