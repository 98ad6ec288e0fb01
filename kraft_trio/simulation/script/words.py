"""A line of a script as words, and the error for a line that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs

from kraft_trio.errors import KraftError


class StepError(KraftError):
    """A line that is not a step.  The message says what the line has and what was expected."""


_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|#.*|[^\s"]+|")')


def split_words(text: str) -> tuple[list[str], str]:
    """The words of a line and the comment after them, including its `#`.  A quoted text is one word with its quotes.

    Raises StepError if a quotation does not end.
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
    """The unread words of a line."""

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
        """Read the next word if it is `word`."""
        if self.peek() != word:
            return False
        self.position += 1
        return True

    def end(self) -> None:
        """Raises StepError if a word is left."""
        if (word := self.peek()) is not None:
            raise StepError(f"{word!r}; expected the end of the line")
