"""Option types for whole numbers.  click's own error messages describe a range as a programmer would."""

from __future__ import annotations

import click

from kraft_trio.config.key import Integer


class WholeNumber(click.ParamType[int]):
    """A whole number within bounds, both inclusive."""

    name = "number"

    def __init__(self, minimum: int, maximum: int | None = None) -> None:
        self._minimum = minimum
        self._maximum = maximum

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = value if isinstance(value, int) else self._read(str(value))
        if number is None or number < self._minimum or (self._maximum is not None and number > self._maximum):
            self.fail(f"{str(value)!r} is not {self._allowed}.", param, ctx)
        return number

    @staticmethod
    def _read(text: str) -> int | None:
        try:
            return int(text) if text.isascii() else None
        except ValueError:
            return None

    @property
    def _allowed(self) -> str:
        if self._maximum is None:
            return f"a whole number of {self._minimum} or more"
        return Integer(self._minimum, self._maximum).allowed


class WholeNumbers(click.ParamType[tuple[int, ...]]):
    """Whole numbers with commas between them."""

    name = "numbers"

    def __init__(self, minimum: int, maximum: int) -> None:
        self._number = WholeNumber(minimum, maximum)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        return tuple(self._number.convert(part.strip(), param, ctx) for part in str(value).split(","))
