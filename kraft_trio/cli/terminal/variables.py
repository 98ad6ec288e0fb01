"""Options that environment variables set, as containers do.  An option on the command line wins.

No variable sets what destroys something or names it: --force, --yes, ids of controllers, confirmations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
_TAKEN: Final = "kraft.variables"
"""In `Context.meta`: the variables that were used, with their values and the flags that they stand for."""


class FromVariable(click.Option):
    """An option with the parameter `envvar`.  Its errors name the variable if that has set it."""

    def __init__(self, *given: Any, **attributes: Any) -> None:
        super().__init__(*given, **{**attributes, "show_envvar": True})

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        handled = super().handle_parse_result(ctx, opts, args)
        if self.name is not None and is_from_variable(ctx, self.name):
            ctx.meta.setdefault(_TAKEN, []).append((self.envvar, self.resolve_envvar_value(ctx), self.opts))
        return handled

    def get_error_hint(self, ctx: click.Context | None) -> str:
        if ctx is None or self.name is None or ctx.get_parameter_source(self.name) is None:
            return super().get_error_hint(ctx)
        return str(self.envvar) if is_from_variable(ctx, self.name) else " / ".join(f"'{one}'" for one in self.opts)


def bootstrap_option(*names: str, **attributes: Any) -> Callable[[F], F]:
    """Add an option that names nodes of a quorum."""
    return click.option(
        *names, cls=FromVariable, envvar="KRAFT_BOOTSTRAP_CONTROLLER", metavar="HOST:PORT[,…]", **attributes
    )


def is_from_variable(context: click.Context, name: str) -> bool:
    """Whether a variable has set the parameter of this name."""
    return context.get_parameter_source(name) is click.core.ParameterSource.ENVIRONMENT


def variables_in(context: click.Context, message: str) -> Iterator[str]:
    """The variables whose values a message begins with, maybe after the flag."""
    taken: Sequence[tuple[str, str, Sequence[str]]] = context.meta.get(_TAKEN, ())
    for variable, value, flags in taken:
        if message.startswith((value, *(f"{flag} {value}" for flag in flags))):
            yield variable
