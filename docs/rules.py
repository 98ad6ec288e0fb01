"""The table of rules: what the KIPs and Kafka demand, where the code decides it, and what became of the rest."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

import attrs
import cattrs

from docs.tables import table

SOURCE: Final = Path(__file__).parent / "rules.toml"


class State(StrEnum):
    """What became of a rule."""

    DONE = "done"
    DIFFERENTLY = "done differently"
    SUPERSEDED = "superseded"
    NOT_BUILT = "not built"


@attrs.frozen
class Rule:
    says: str
    state: State = State.DONE
    code: tuple[str, ...] = ()
    """Names below `kraft_trio`."""
    tests: tuple[str, ...] = ()
    """`file::name` below `tests`."""
    actions: tuple[str, ...] = ()
    """Steps of the specification."""
    mutants: tuple[str, ...] = ()
    """Names of mutants of the simulator, which break the rule."""
    invariants: tuple[str, ...] = ()
    """Names of classes, which check it in the simulator."""
    also: tuple[str, ...] = ()
    """Configuration keys, metrics, commands and pages, as Markdown."""
    remark: str = ""

    @property
    def is_done(self) -> bool:
        return self.state in (State.DONE, State.DIFFERENTLY)

    @property
    def where(self) -> str:
        return ", ".join((*(f"`{name}`" for name in self.code), *self.also))

    @property
    def checked_by(self) -> str:
        kinds = {
            "": [f"`{test}`" for test in self.tests],
            "spec": [f"`{action}`" for action in self.actions],
            "invariants": self.invariants,
            "mutants": [f'"{mutant}"' for mutant in self.mutants],
        }
        return "; ".join(f"{kind} {', '.join(names)}".strip() for kind, names in kinds.items() if names)

    @property
    def remarks(self) -> str:
        word = "" if self.state is State.DONE else f"*{self.state.capitalize()}.*"
        return f"{word} {self.remark}".strip()


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


@attrs.frozen
class Unlisted:
    """Actions of the specification that no rule names, and the reason."""

    why: str
    actions: tuple[str, ...]


@attrs.frozen
class Difference:
    """Where we depart from Kafka, by the name with which rules and pages refer to it."""

    name: str
    kafka: str
    here: str
    why: str = ""


@attrs.frozen
class Case:
    what: str
    result: str
    tests: tuple[str, ...]


@attrs.frozen
class Cases:
    """A table of a page: situations, what comes of each, and the tests that hold it so."""

    name: str
    columns: tuple[str, str]
    case: tuple[Case, ...]


@attrs.frozen
class Content:
    part: tuple[Part, ...]
    unlisted: tuple[Unlisted, ...]
    difference: tuple[Difference, ...]
    cases: tuple[Cases, ...]


def content() -> Content:
    """What rules.toml has.  Raises cattrs.BaseValidationError for a key that it should not have."""
    return cattrs.Converter(forbid_extra_keys=True).structure(tomllib.loads(SOURCE.read_text()), Content)


def parts() -> tuple[Part, ...]:
    return content().part


def rule_tables() -> str:
    parts = []
    for heading, rows in _headings_and_rows():
        parts += [heading] if heading else []
        parts += [table(("rule", "code", "checked by", "remark"), rows)] if rows else []
    return "\n".join(parts)


def rule_counts() -> str:
    """How many rules of each source are in each state."""
    counts = {part.title: Counter(rule.state for rule in part.rules) for part in parts()}
    counts["all"] = sum(counts.values(), Counter[State]())
    rows = ((title, *(str(count[state] or "") for state in State)) for title, count in counts.items())
    return table(("source", *State), rows)


def differences() -> str:
    rows = ((one.name, one.kafka, one.here, one.why) for one in content().difference)
    return table(("name", "Kafka", "here", "why"), rows)


def cases(name: str) -> str:
    [found] = [one for one in content().cases if one.name == name]
    rows = ((one.what, one.result, ", ".join(f"`{test}`" for test in one.tests)) for one in found.case)
    return table((*found.columns, "test"), rows)


def _headings_and_rows() -> Iterator[tuple[str, list[tuple[str, str, str, str]]]]:
    """Each heading, and the rows below it."""
    for part in parts():
        yield f"## {part.title}\n", []
        for section in part.section:
            heading = f"### {section.title}\n" if section.title else ""
            yield heading, [(rule.says, rule.where, rule.checked_by, rule.remarks) for rule in section.rule]
