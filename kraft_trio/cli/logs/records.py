"""`kraft records`: appends records to the log of a running quorum, and reads them."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, TypeVar, cast

import click
import trio

from kraft_trio.cli.logs.record_access import RecordAccess
from kraft_trio.cli.logs.record_text import bytes_field, headers_field, printable
from kraft_trio.cli.terminal.config_option import command_config_option
from kraft_trio.cli.terminal.json_option import json_option
from kraft_trio.cli.terminal.output import echo, echo_line
from kraft_trio.cli.terminal.timeout_option import timeout_option
from kraft_trio.cli.terminal.variables import bootstrap_option
from kraft_trio.cli.terminal.whole_number import WholeNumber
from kraft_trio.config.key import MAX_INT64
from kraft_trio.config.values import BOOTSTRAP_SERVERS
from kraft_trio.errors import ConfigError
from kraft_trio.security.client_network import client_network
from kraft_trio.storage.batches.batch import NewRecord, Record

F = TypeVar("F", bound=Callable[..., Any])

_READ_BYTES: Final = 64 * 1024


def access_options(function: F) -> F:
    """Add the options that locate the quorum: `nodes`, `command_config` and `timeout_ms`."""
    for option in (
        command_config_option,
        timeout_option(help="Time limit for each step."),
        bootstrap_option(
            "--bootstrap-server",
            "--bootstrap-controller",
            "nodes",
            required=True,
            help="Any nodes of the quorum, on their client listeners.",
        ),
    ):
        function = option(function)
    return function


@click.group()
def records() -> None:
    """Append records to a running quorum's log, and read them."""


@records.command()
@click.argument("values", nargs=-1, metavar="[VALUE]…")
@access_options
@click.option("--key", help="The key of every record.")
@click.option("--key-separator", metavar="TEXT", help="Split each VALUE at the first TEXT into key and value.")
def append(
    values: tuple[str, ...],
    nodes: str,
    command_config: str | None,
    timeout_ms: int,
    key: str | None,
    key_separator: str | None,
) -> None:
    """Append records and print their offsets.

    Each VALUE is a record.  Without a VALUE, each line of stdin is one.  The command prints an offset once a majority
    has synced the record.

    \b
    Examples:
      kraft records append --bootstrap-server a:9092 one two
      kraft records append --bootstrap-server a:9092 --key-separator : < lines
    """
    if key is not None and key_separator is not None:
        raise click.UsageError("--key and --key-separator exclude each other", click.get_current_context())
    if key_separator == "":
        raise click.UsageError("--key-separator: expected at least one character", click.get_current_context())
    access = _access(nodes, command_config, timeout_ms)

    def record_of(value: bytes) -> NewRecord:
        if key_separator is None:
            return NewRecord(value, None if key is None else os.fsencode(key))
        before, separator, rest = value.partition(os.fsencode(key_separator))
        return NewRecord(rest, before) if separator else NewRecord(value)

    async def batches() -> AsyncIterator[Sequence[NewRecord]]:
        if values:
            yield [record_of(os.fsencode(value)) for value in values]
            return
        async for lines in _lines_of_stdin():
            yield [record_of(line) for line in lines]

    async def append_all() -> None:
        async with aclosing(access.append(batches())) as offsets:
            async for offset in offsets:
                echo(str(offset))

    trio.run(append_all)


@records.command()
@access_options
@click.option(
    "--from",
    "from_offset",
    metavar="OFFSET",
    type=WholeNumber(0, MAX_INT64),
    help="The first offset to read (default: the start of the log).",
)
@click.option("--count", metavar="N", type=WholeNumber(1), help="Stop after N records.")
@click.option("--follow", is_flag=True, help="Wait for further records instead of stopping at the log's end.")
@click.option("--keys", is_flag=True, help="Print the key between the offset and the value.")
@partial(json_option, help="Print one JSON object per record.")
def read(
    nodes: str,
    command_config: str | None,
    timeout_ms: int,
    from_offset: int | None,
    count: int | None,
    follow: bool,
    keys: bool,
    as_json: bool,
) -> None:
    """Print the committed records.

    Each line has an offset and a value, separated by a tab.  Offsets have gaps, because the quorum keeps records of its
    own in the log.  Values that are not printable text appear as 0x and hexadecimal digits.

    \b
    Example:
      kraft records read --bootstrap-server a:9092 --from 100 --follow
    """
    access = _access(nodes, command_config, timeout_ms)

    async def read_all() -> None:
        left = count
        async with aclosing(access.read(from_offset, follow=follow)) as found:
            async for record in found:
                echo_line(json.dumps(_fields(record)) if as_json else _line(record, keys))
                if left is not None and (left := left - 1) == 0:
                    return

    trio.run(read_all)


def _access(nodes: str, command_config: str | None, timeout_ms: int) -> RecordAccess:
    try:
        endpoints = BOOTSTRAP_SERVERS.parse(nodes)
    except ValueError as error:
        raise ConfigError(f"--bootstrap-server {nodes}: {error}") from error
    if not endpoints:
        raise ConfigError(f"--bootstrap-server: expected {BOOTSTRAP_SERVERS.allowed}")
    return RecordAccess(endpoints, timeout_ms, client_network(command_config))


async def _lines_of_stdin() -> AsyncIterator[list[bytes]]:
    """The lines without their ends, as soon as they arrive."""
    stdin, rest = cast(io.BufferedReader, sys.stdin.buffer), b""
    while True:
        data = await trio.to_thread.run_sync(stdin.read1, _READ_BYTES, abandon_on_cancel=True)
        *lines, rest = (rest + data).split(b"\n")
        if not data and rest:
            lines.append(rest)
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
        if not data:
            return


def _line(record: Record, keys: bool) -> str:
    return "\t".join([str(record.offset), *([printable(record.key)] if keys else []), printable(record.value)])


def _fields(record: Record) -> dict[str, Any]:
    fields: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp_ms}
    return fields | bytes_field("key", record.key) | bytes_field("value", record.value) | headers_field(record)
