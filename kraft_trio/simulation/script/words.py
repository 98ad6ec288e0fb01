"""A line of a script as words, and the error that says what was expected instead of one."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs

from kraft_trio.errors import KraftError


class StepError(KraftError):
    """A line that is not a step: says what is there and what was expected."""


_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|#.*|[^\s"]+|")')


def split_words(text: str) -> tuple[list[str], str]:
    """The words of a line, quoted text being one word with its quotes, and the comment behind them, `#` included.

    Raises StepError for a quotation that does not end.
    """
    words: list[str] = []
    for match in _TOKEN.finditer(text):
        word = match[1]
        if word.startswith("#"):
            return words, word.rstrip()
        if word == '"':
            raise StepError(f'{text.strip()!r}: a quotation does not end; expected a closing "')
        words.append(word)
    return words, ""


@attrs.define
class Words:
    """The words of a line not read yet."""

    words: Sequence[str]
    position: int = 0

    def peek(self, ahead: int = 0) -> str | None:
        """The next word; None at the end of the line."""
        position = self.position + ahead
        return self.words[position] if position < len(self.words) else None

    def take(self, expected: str) -> str:
        """Read one word.  Raises StepError at the end of the line."""
        word = self.peek()
        if word is None:
            raise StepError(f"the line ends; expected {expected}")
        self.position += 1
        return word

    def skip(self, word: str) -> bool:
        """Read the next word if it is this one."""
        if self.peek() != word:
            return False
        self.position += 1
        return True

    def end(self) -> None:
        """Raises StepError unless every word has been read."""
        if (word := self.peek()) is not None:
            raise StepError(f"{word!r}; expected the end of the line")
