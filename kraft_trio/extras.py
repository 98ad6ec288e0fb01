"""The error for a feature whose extra is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kraft_trio.errors import ConfigError


class MissingExtraError(ConfigError):
    """A package is not installed that an extra of kraft-trio has."""

    exit_code = 2

    def __init__(self, feature: str, module: str, extra: str) -> None:
        super().__init__(f"{feature}: {module} is not installed; expected pip install 'kraft-trio[{extra}]'")


@contextmanager
def needing(extra: str, feature: str) -> Iterator[None]:
    """Imports for a feature that needs an extra.  Raises MissingExtraError if a module is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(feature, error.name or str(error), extra) from error
