"""Counts with their nouns."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """The number with its noun: 1 batch, 2 batches."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}{'es' if noun.endswith('ch') else 's'}"
