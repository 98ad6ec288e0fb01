"""What somebody may have meant who gave a command that does not exist."""

from __future__ import annotations

from difflib import get_close_matches

import click


def meant_command(context: click.Context, given: str) -> str | None:
    """The command line up to the likely command, or None.  `given` is no command of the group of `context`.

    A group with one command, such as `kraft server`, is easily taken for that command.  A file that was given to it is
    then the value of the option that the command requires.
    """
    group = context.command
    assert isinstance(group, click.Group)
    names = group.list_commands(context)
    for name in get_close_matches(given, names, n=1):
        return f"{context.command_path} {name}"
    command = group.get_command(context, names[0]) if len(names) == 1 else None
    if command is None:
        return None
    required = [option for option in command.params if isinstance(option, click.Option) and option.required]
    value = f" {required[0].opts[0]} {given}" if required and {".", "/"} & set(given) else ""
    return f"{context.command_path} {names[0]}{value}"
