"""One row of the table of findings: when it is asked, what it finds, and what docs/reference/findings.md says of it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable

import attrs

from kraft_trio.diagnosis.finding import Finding, Severity
from kraft_trio.diagnosis.quorum_situation import Situation

OK, NOTE, WARNING, CRITICAL = Severity


class When(enum.Enum):
    """In which situations a rule is asked."""

    ALWAYS = "always"
    NO_ANSWER = "no node answers"
    ANSWER = "a node answers"
    LEADER = "a leader answers"
    NO_LEADER = "nodes answer, and no leader"

    def holds(self, situation: Situation) -> bool:
        """Whether the rule is asked about that situation."""
        has_answer, has_leader = bool(situation.answers), situation.report is not None
        return {
            When.ALWAYS: True,
            When.NO_ANSWER: not has_answer,
            When.ANSWER: has_answer,
            When.LEADER: has_answer and has_leader,
            When.NO_LEADER: has_answer and not has_leader,
        }[self]


@attrs.frozen
class Rule:
    """A situation with its code and description.  A rule reads the situation alone, and no other rule."""

    code: str
    when: When
    severities: tuple[Severity, ...]
    """Those that its findings may have."""
    cause: str
    """In words, for the documentation."""
    advice: str
    """In words, for the documentation."""
    find: Callable[[Situation], Iterable[Finding]]
    """Its findings, all with that code and one of those severities."""
