"""Option types for whole numbers.  click's own error messages describe a range as a programmer would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kraft_trio.config.key import Integer

if TYPE_CHECKING:
    _Base = click.ParamType[int]
    _ListBase = click.ParamType[tuple[int, ...]]
else:  # click 8.1 has no type parameter here
    _Base = _ListBase = click.ParamType


class WholeNumber(_Base):
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


class WholeNumbers(_ListBase):
    """Whole numbers with commas between them."""

    name = "numbers"

    def __init__(self, minimum: int, maximum: int) -> None:
        self._number = WholeNumber(minimum, maximum)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        return tuple(self._number.convert(part.strip(), param, ctx) for part in str(value).split(","))
