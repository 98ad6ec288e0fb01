"""A path on the command line that must exist."""

from __future__ import annotations

import os
from typing import Any

import click


class ExistingPath(click.Path):
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
