"""The `kraft` command, with the sub-commands and flags of Kafka's own tools.

A failure prints one line on stderr, and has one of the exit codes of docs/reference/command-line.md#exit-codes.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from typing import Any

import click
from click.shell_completion import CompletionItem

from kraft_trio.cli.terminal.exit_codes import IN_HELP, ExitCode, exit_code
from kraft_trio.cli.terminal.meant_command import meant_command
from kraft_trio.cli.terminal.misplaced_option import proper_place
from kraft_trio.cli.terminal.output import one_message
from kraft_trio.cli.terminal.standard_streams import abandon_stdout, standard_streams
from kraft_trio.cli.terminal.variables import variables_in
from kraft_trio.errors import KraftError, leaves

_COMMANDS = {
    "audit": ("kraft_trio.cli.audit", "audit", "Audit replicas' directories, or traces."),
    "dashboard": ("kraft_trio.cli.dashboard", "dashboard", "Show a quorum in the browser."),
    "dump-log": ("kraft_trio.cli.logs.dump_log", "dump_log", "Print the batches of log files."),
    "features": (
        "kraft_trio.cli.quorum.features",
        "features",
        "Describe or raise the feature levels of a running quorum.",
    ),
    "kv": ("kraft_trio.cli.kv", "kv", "Use the key-value store of a quorum."),
    "log": ("kraft_trio.cli.logs.log_commands", "log", "Check the logs of stopped nodes, and compare replicas."),
    "metadata": (
        "kraft_trio.cli.metadata.metadata",
        "metadata",
        "Show what a Kafka cluster's controllers have recorded.",
    ),
    "metadata-quorum": (
        "kraft_trio.cli.quorum.metadata_quorum",
        "metadata_quorum",
        "Describe a running quorum, or change its voters.",
    ),
    "metrics": ("kraft_trio.cli.metrics", "metrics", "Print a running node's metrics, and their age."),
    "quickstart": ("kraft_trio.cli.quickstart", "quickstart", "Run a quorum of three on this machine, to try it."),
    "records": ("kraft_trio.cli.logs.records", "records", "Append records to a running quorum's log, and read them."),
    "server": ("kraft_trio.cli.serving.server", "server", "Run a node."),
    "simulate": ("kraft_trio.cli.simulate", "simulate", "Simulate clusters and check invariants."),
    "snapshot": ("kraft_trio.cli.snapshots.snapshot_commands", "snapshot", "Take, save, check and restore snapshots."),
    "storage": ("kraft_trio.cli.directory.storage", "storage", "Format, inspect and recover nodes' directories."),
}
"""The module and the name of each sub-command, and the first sentence of its help."""


class _ReaderGoneError(Exception):
    """The pipe is broken that stdout goes to."""


@contextmanager
def _told_from_click() -> Iterator[None]:
    """Let no BrokenPipeError through: click would exit with 1 for it."""
    try:
        yield
    except BrokenPipeError as error:
        raise _ReaderGoneError from error


class _Commands(click.Group):
    """Imports a sub-command only when it is used.

    So `kraft storage` does not pay for importing Spark, and `kraft --help` imports no sub-command at all.
    """

    def make_context(self, *given: Any, **extra: Any) -> click.Context:
        with _told_from_click():
            return super().make_context(*given, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _told_from_click():
                return super().invoke(ctx)
        except KraftError as error:
            for variable in variables_in(ctx, str(error)):
                error.add_note(f"from {variable}")
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Without importing the commands, as a shell waits for it."""
        found = [
            CompletionItem(name, help=text) for name, (*_, text) in _COMMANDS.items() if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, name, _ = _COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        limit = formatter.width - 6 - max(map(len, _COMMANDS))
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, click.Command(name, help=text).get_short_help_str(limit))
                    for name, (*_, text) in _COMMANDS.items()
                ]
            )


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=IN_HELP,
)
@click.version_option(package_name="kraft-trio", prog_name="kraft")
def kraft() -> None:
    """Run, inspect and repair the nodes of a KRaft quorum."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return the process's exit code.  `kraft help WORDS` is `kraft WORDS --help`."""
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    try:
        result = kraft.main(list(arguments), prog_name="kraft", standalone_mode=False)
        with _told_from_click():
            sys.stdout.flush()
        return result if isinstance(result, int) else ExitCode.SUCCESS
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return error.exit_code
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx is not None else "kraft"
        return _fail(f"{_usage_message(error, arguments)} (see {path} --help)", error.exit_code)
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", ExitCode.INTERRUPTED)
    except _ReaderGoneError:
        return _reader_gone()
    except (KraftError, OSError) as error:
        return _fail(_one_line(error), exit_code(error, of_node=_is_node(arguments)))
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is not None:
            return _fail("interrupted", ExitCode.INTERRUPTED)
        if group.subgroup(BrokenPipeError) is not None:
            return _reader_gone()
        expected, others = group.split((KraftError, OSError))
        if expected is None or others is not None:
            raise
        errors = list(leaves(expected))
        code = max(exit_code(error, of_node=_is_node(arguments)) for error in errors)
        return _fail("; ".join(dict.fromkeys(map(_one_line, errors))), code)


def _reader_gone() -> int:
    abandon_stdout()
    return ExitCode.READER_GONE


def _usage_message(error: click.UsageError, arguments: Sequence[str]) -> str:
    message = error.format_message()
    if isinstance(error, click.NoSuchCommand) and error.ctx is not None:
        meant = meant_command(error.ctx, error.command_name)
        if meant is not None:
            return f"{error.message.rstrip('.')}: did you mean `{meant}`?"
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        place = proper_place(error.ctx, error.option_name, arguments)
        if place is not None:
            return f"{message.rstrip('.')}: {place}"
    return message


def _is_node(arguments: Sequence[str]) -> bool:
    return list(arguments[:2]) == ["server", "start"]


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    return " ".join([str(error), *(f"({note})" for note in getattr(error, "__notes__", ()))])


def _fail(message: str, exit_code: int) -> int:
    try:
        print(f"kraft: error: {one_message(message)}", file=sys.stderr)
    except OSError:
        pass  # There is no other place to say it.
    return exit_code


def import_without(unused: str, module: str) -> None:
    """Import a module as if the package `unused`, which it would import for a feature that no command needs, were not
    installed.
    """
    if unused in sys.modules:
        return
    sys.modules[unused] = None  # type: ignore[assignment]
    try:
        importlib.import_module(module)
    finally:
        del sys.modules[unused]


class _Hidden(MetaPathFinder):
    """Makes a package look as if it were not installed, for as long as the process lives."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == self._package:
            raise ModuleNotFoundError(f"{fullname} is not used here", name=fullname)


def main() -> None:
    is_node = _is_node(sys.argv[1:])
    with standard_streams(in_background=is_node):
        if is_node:
            import_without("rich", "structlog.dev")
        elif sys.argv[1:2] == ["metadata"]:
            # pyarrow looks for pandas when it makes an array.  Importing that takes longer than a small cluster does.
            sys.meta_path.insert(0, _Hidden("pandas"))
        code = run(sys.argv[1:])
        try:
            sys.stdout.flush()
        except OSError:
            abandon_stdout()  # What could not be written has been reported.
    sys.exit(code)
