"""Where an option belongs that was given before or after the wrong sub-command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click


def proper_place(context: click.Context, option: str, arguments: Sequence[str]) -> str | None:
    """How to give an option that the command of `context` does not have, or None if no command on this line has it.

    `arguments` is the whole command line.
    """
    child, parent = context, context.parent
    while parent is not None:
        if (found := _find(parent.command, option)) is not None:
            return f"give it before `{child.info_name}`, as in `{parent.command_path} {found} {child.info_name} …`"
        child, parent = parent, parent.parent
    path = context.command_path
    for command in _subcommands(context, arguments):
        path = f"{path} {command.name}"
        if (found := _find(command, option)) is not None:
            return f"give it after `{command.name}`, as in `{path} {found} …`"
    return None


def _subcommands(context: click.Context, arguments: Sequence[str]) -> Iterator[click.Command]:
    """The commands below that of `context` which the command line names."""
    command = context.command
    for argument in arguments:
        found = command.get_command(context, argument) if isinstance(command, click.Group) else None
        if found is not None:
            command = found
            yield found


def _find(command: click.Command, option: str) -> str | None:
    """The option with a placeholder for its value, or None if the command does not have it."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and option in (*parameter.opts, *parameter.secondary_opts):
            return option if parameter.is_flag else f"{option} {parameter.metavar or 'VALUE'}"
    return None
