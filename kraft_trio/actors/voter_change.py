"""One voter change on its way, from the request to its answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import attrs
import structlog
import trio

from kraft_trio.messages import Reply
from kraft_trio.protocol.voter_changes import Refused
from kraft_trio.wire.error_codes import ErrorCode

log = structlog.get_logger(__name__)

T = TypeVar("T")

GiveAnswer = Callable[[ErrorCode, str | None], None]


class ChangeRefusedError(Exception):
    """A step of a change has found why it cannot be made."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.reason)
        self.error = ErrorCode[refused.error_name.lower()]


def require(outcome: T | Refused) -> T:
    """What a rule has made, or ChangeRefusedError."""
    if isinstance(outcome, Refused):
        raise ChangeRefusedError(outcome)
    return outcome


@attrs.define(eq=False)
class VoterChange:
    """One request on its way, or what the leader does unasked.  `give_answer` makes the response of its kind, and
    gives it."""

    what: str
    deadline: float
    """Trio's clock; infinite where nobody asked."""
    give_answer: GiveAnswer
    patience: trio.CancelScope = attrs.field(init=False)
    """The scope that the change lives in: it ends the change when its time is over, and no more once its record is in
    the log."""
    waits_for: str = "earlier voter changes"
    offset: int | None = None
    """Of its record, once that is appended."""
    is_answered: bool = False

    def __attrs_post_init__(self) -> None:
        self.patience = trio.CancelScope(deadline=self.deadline)

    @classmethod
    def unasked(cls, what: str) -> VoterChange:
        """A change that no request is for: it has all the time there is, and nobody to answer."""
        return cls(what, math.inf, lambda _error, _reason: None, is_answered=True)

    def appended_at(self, offset: int) -> None:
        """From here on the change cannot be called back: its deadline ends the wait for the answer, and not itself."""
        self.offset = offset
        self.patience.deadline = math.inf
        log.info("voter change appended", change=self.what, offset=offset)

    def answer(self, error: ErrorCode, reason: str | None = None) -> None:
        """Answer the request, where that has not been done."""
        if not self.is_answered:
            self.is_answered = True
            log.info("voter change answered", change=self.what, error=error.name, reason=reason)
            self.give_answer(error, reason)


def answering(reply: Reply[T], make: Callable[[ErrorCode, str | None], T]) -> GiveAnswer:
    """Answers that request with what `make` makes of an error code and a reason."""
    return lambda error, reason: reply.answer(make(error, reason))
