"""Text of others has no power over a log or a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.cli.terminal.escaping import cut, escaped, escaped_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, with 'quotes' and \\backslash", "plain, with 'quotes' and \\backslash"),
        ("ünï… 日本", "ünï… 日本"),
        ("a\nforged line", "a\\nforged line"),
        ("\r\t\0\x7f", "\\r\\t\\x00\\x7f"),
        ("\x1b]0;title\x07\x1b[2J", "\\x1b]0;title\\x07\\x1b[2J"),
        ("\x9b31m", "\\x9b31m"),
        ("left\u202eright\u2066", "left\\u202eright\\u2066"),
        (
            "zero\u200b\u200d\ufeff\u00ad\u034f\ufe0f\U000e0061",
            "zero\\u200b\\u200d\\ufeff\\xad\\u034f\\ufe0f\\U000e0061",
        ),
        ("\u2028\u2029\u3164", "\\u2028\\u2029\\u3164"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert escaped(text) == shown


@given(st.text())
def test_nothing_unprintable_is_left(text: str) -> None:
    assert escaped(text).isprintable()
    assert len(escaped_lines(text).split("\n")) == len(text.split("\n"))


def test_long_text_is_cut() -> None:
    assert escaped("x" * 1_003) == "x" * 1_000 + "… (3 more characters)"
    assert cut("abc", limit=2) == "ab… (1 more characters)"
    assert cut("abc", limit=3) == "abc"
