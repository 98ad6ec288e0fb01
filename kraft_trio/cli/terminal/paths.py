"""Paths on the command line."""

from __future__ import annotations

import os
from typing import Any

import click


class NamedPath(click.Path):
    """Any path but an empty one, which an unset variable of a shell leaves and which would mean this directory."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if value == "":
            self.fail("an empty path.", param, ctx)
        return super().convert(value, param, ctx)


class ExistingPath(NamedPath):
    """Tells a path in a directory that may not be entered from one that does not exist, as click.Path does not."""

    def __init__(self, **options: Any) -> None:
        super().__init__(exists=True, **options)

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        try:
            os.stat(value)
        except PermissionError as error:
            self.fail(f"'{os.fspath(value)}' cannot be read: {error.strerror}.", param, ctx)
        except OSError:
            pass  # click.Path says what is wrong.
        return super().convert(value, param, ctx)
