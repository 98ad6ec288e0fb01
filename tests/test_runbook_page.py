"""docs/how-to/runbook.md has commands that exist, and a test with Apache Kafka plays each of its tables."""

from __future__ import annotations

import re
import shlex
from string import Template

import click
import pytest

from kraft_trio.cli import kraft
from tests.interop.runbook_page import PAGE, read_page
from tests.interop.runbook_site import TOOLS

RUNBOOK = read_page()
PLAYED = (PAGE.parents[2] / "tests" / "interop" / "test_kafka_runbook.py").read_text()
STEPS = [step for steps in RUNBOOK.incidents.values() for step in steps]
COMMANDS = sorted({command for step in STEPS for command in step.commands.values()})
OTHERS = {"df", "mkdir", "mv", "sed", "kafka-server-start.sh", "kafka-server-stop.sh"}


def check_arguments(words: list[str]) -> None:
    """Raises click.UsageError for a command or an option that `kraft` does not know, or lacks."""
    command: click.Command = kraft
    context: click.Context | None = None
    while True:
        context = command.make_context(command.name, words, parent=context)
        if not isinstance(command, click.Group):
            return
        _, found, words = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command = found


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_is_known(command: str) -> None:
    filled = Template(command.removesuffix(" &")).substitute(RUNBOOK.variables)
    program, *words = shlex.split(filled)
    if program == "kraft":
        check_arguments(words)
    else:
        assert program in TOOLS or program in OTHERS


def test_each_variable_is_used() -> None:
    used = {name for command in COMMANDS for name in re.findall(r"\$(\w+)", command)}
    assert used == set(RUNBOOK.variables)


@pytest.mark.parametrize("title", RUNBOOK.incidents)
def test_each_table_is_played(title: str) -> None:
    assert f'INCIDENTS["{title}"]' in PLAYED


def test_each_alert_that_is_named_exists() -> None:
    alerts = (PAGE.parents[2] / "deploy" / "prometheus" / "alerts.yml").read_text()
    named = set(re.findall(r"`(K[a-z]+[A-Z]\w+)`", PAGE.read_text()))
    assert named
    assert named <= set(re.findall(r"alert: (\w+)", alerts))
