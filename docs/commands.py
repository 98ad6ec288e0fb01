"""The command line as a page: each command of `kraft`, with its help and its options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from docs.tables import table
from kraft_trio.cli import kraft
from kraft_trio.cli.terminal.variables import FromVariable


def commands(group: click.Command = kraft, name: str = "kraft") -> Iterator[tuple[str, click.Command]]:
    """Each command with all its words, and before its commands each group that has options."""
    if not isinstance(group, click.Group) or options(group):
        yield name, group
    if not isinstance(group, click.Group):
        return
    for word in group.list_commands(context(group)):
        command = group.get_command(context(group), word)
        if command is not None and not command.hidden:
            yield from commands(command, f"{name} {word}")


def context(command: click.Command) -> click.Context:
    return click.Context(command, **kraft.context_settings)


def help_of(command: click.Command) -> str:
    """The help in paragraphs, and what must not be wrapped as a block."""
    text = inspect.cleandoc(command.help or "").partition("\f")[0].strip()
    blocks = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("\b"):
            blocks.append("```\n" + paragraph.removeprefix("\b").strip("\n") + "\n```")
        else:
            blocks.append(" ".join(paragraph.split()))
    return "\n\n".join(blocks) + "\n"


def arguments(command: click.Command, name: str) -> str:
    return " ".join([name, *(one for one in command.collect_usage_pieces(context(command)) if one)])


def options(command: click.Command) -> list[tuple[str, str]]:
    """How each option is written, and what it means."""
    rows = []
    for parameter in command.get_params(context(command)):
        record = parameter.get_help_record(context(command)) if isinstance(parameter, click.Option) else None
        if record is not None and "--help" not in record[0]:
            rows.append((f"`{record[0]}`", re.sub(r"([<*_])", r"\\\1", record[1])))
    return rows


def variables() -> str:
    """The variables that set options, and the commands that have them."""
    found: dict[str, tuple[dict[str, None], list[str]]] = {}
    for name, command in commands():
        for parameter in command.params:
            if isinstance(parameter, FromVariable):
                flags, names = found.setdefault(str(parameter.envvar), ({}, []))
                flags |= dict.fromkeys(f"`{flag}`" for flag in parameter.opts)
                names.append(f"`{name}`")
    rows = [(f"`{one}`", ", ".join(flags), ", ".join(names)) for one, (flags, names) in sorted(found.items())]
    return table(("variable", "option", "commands"), rows)


def command_line() -> str:
    parts = []
    for name, command in commands():
        rows = options(command)
        parts += [f"## {name}\n", f"```\n{arguments(command, name)}\n```\n", help_of(command)]
        parts += [table(("option", "meaning"), rows)] if rows else []
    return "\n".join(parts)
