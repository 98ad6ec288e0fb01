"""`kraft metadata`: topics, partitions, brokers and settings of Kafka's clusters, from controllers' directories."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from kraft_trio.cli.metadata.moment_option import Moment
from kraft_trio.cli.terminal.json_option import json_option
from kraft_trio.cli.terminal.layout import table
from kraft_trio.cli.terminal.output import echo, echo_line
from kraft_trio.cli.terminal.paths import NamedPath
from kraft_trio.errors import ConfigError, CorruptLogError
from kraft_trio.extras import needing
from kraft_trio.metadata.columns import HIDDEN
from kraft_trio.metadata.entities import ENTITIES, Entity
from kraft_trio.metadata.json_text import JsonText
from kraft_trio.storage.disk.created_files import open_own

_DIRECTORIES: Final = click.argument("directories", nargs=-1, required=True, metavar="DIR…", type=NamedPath())
_AS_OF: Final = click.option(
    "--as-of",
    type=Moment(),
    metavar="MOMENT",
    help="An offset (exclusive), or a time as in 2026-11-28T03:14:00Z.  By default, the end of the log.",
)
_JSON_LINES: Final = partial(json_option, help="Print a JSON object a line.")
_SHOWN: Final[Mapping[str, Sequence[str]]] = {
    "partitions": ("topic", "partition_id", "leader", "leader_epoch", "replicas", "isr", "eligible_leader_replicas"),
    "brokers": ("broker_id", "broker_epoch", "end_points", "rack", "fenced", "in_controlled_shutdown"),
    "controllers": ("controller_id", "end_points"),
}
"""The columns that a person is shown, where that is not all of them.  Other formats have all."""


_CONDITIONS: Final[Mapping[str, str]] = {
    "topics": "name LIKE 'orders%'",
    "partitions": "leader = -1 OR len(isr) < len(replicas)",
    "brokers": "fenced",
    "controllers": "controller_id = 1",
    "features": "feature_level > 0",
    "configs": "name = 'retention.ms'",
    "acls": "principal = 'User:web'",
    "client_quotas": "key = 'producer_byte_rate'",
    "producer_ids": "next_producer_id > 1000",
    "delegation_tokens": "owner = 'User:web'",
    "scram": "name = 'web'",
}
"""An example for each kind of thing."""
_NOUNS: Final[Mapping[str, str]] = {
    "features": "feature levels",
    "configs": "dynamic configurations, without passwords",
    "acls": "access control entries",
    "client_quotas": "client quotas",
    "producer_ids": "next producer id",
    "delegation_tokens": "delegation tokens",
    "scram": "names and mechanisms of SCRAM credentials",
}


@click.group()
def metadata() -> None:
    """Show what a Kafka cluster's controllers have recorded.

    DIR is a controller's metadata.log.dir, or a copy of it; globs and URLs work too.  Of several, the one whose log
    goes furthest is shown.
    """


def _formats(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--parquet", metavar="FILE", type=NamedPath(dir_okay=False), help="Write a Parquet file."),
        click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with lists and structures as JSON."),
        _JSON_LINES,
    ):
        command = option(command)
    return command


def _where(example: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--where",
        metavar="CONDITION",
        help=f'Show the rows for which this SQL condition holds, as in "{example}".',
    )


def _state_command(entity: Entity) -> None:
    def show(
        directories: Sequence[str],
        as_of: Any,
        where: str | None,
        as_json: bool,
        as_csv: bool,
        parquet: str | None,
    ) -> None:
        with needing("audit", "kraft metadata"):
            from kraft_trio.cli.metadata.queries import state
        is_for_people = where is None and not (as_json or as_csv or parquet)
        shown = entity.with_columns(_SHOWN[entity.name]) if is_for_people and entity.name in _SHOWN else entity
        found = state(directories, shown, as_of, where)
        _print(found.rows, entity.name, as_json, as_csv, parquet, found.arrow)
        _tell(found.source, found.problems)

    show.__doc__ = f"""Show the {_NOUNS.get(entity.name, entity.name)}.

    Each row has the fields of the record that makes it: docs/reference/metadata.md.
    """
    decorated = _DIRECTORIES(_AS_OF(_where(_CONDITIONS[entity.name])(_formats(show))))
    metadata.command(entity.name.replace("_", "-"))(decorated)


for _entity in ENTITIES.values():
    _state_command(_entity)


@metadata.command()
@_DIRECTORIES
@click.option("--since", type=Moment(), metavar="MOMENT", help="The first offset (inclusive), or after this time.")
@click.option("--until", type=Moment(), metavar="MOMENT", help="The end: an offset (exclusive), or a time (inclusive).")
@click.option(
    "--entity",
    "entities",
    multiple=True,
    type=click.Choice(list(ENTITIES)),
    metavar="KIND",
    help=f"Only of this kind: {', '.join(ENTITIES)}.",
)
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Only of this thing, such as orders-7.")
@_where("list_contains(changed, 'isr')")
@_formats
def changes(
    directories: Sequence[str],
    since: Any,
    until: Any,
    entities: Sequence[str],
    keys: Sequence[str],
    where: str | None,
    as_json: bool,
    as_csv: bool,
    parquet: str | None,
) -> None:
    """Show what changed, when, and which controller wrote it.

    `--where` has the columns offset, epoch, timestamp, controller, record, entity, key, operation, changed, before and
    after.
    """
    with needing("audit", "kraft metadata"):
        from kraft_trio.cli.metadata.queries import changes as find
    found = find(directories, since, until, entities, keys, where)
    _print(found.rows, "changes", as_json, as_csv, parquet, found.arrow)
    _tell(found.source, found.problems)


@metadata.command()
@click.argument("first", metavar="DIR", type=NamedPath())
@click.argument("second", metavar="[DIR]", required=False, type=NamedPath())
@click.option("--from", "start", type=Moment(), metavar="MOMENT", help="The moment in the first directory.")
@click.option("--to", "end", type=Moment(), metavar="MOMENT", help="The moment in the second, or in the only one.")
@_JSON_LINES
def diff(first: str, second: str | None, start: Any, end: Any, as_json: bool) -> int:
    """Compare two moments, or two replicas.

    With one directory, compare its states at --from and --to.  With two, compare the replicas at the same moment, by
    default the lower of their log ends.  The exit code is 1 if anything differs.

    \b
    Example:
      kraft metadata diff DIR --from 2026-11-28T03:00:00Z
    """
    with needing("audit", "kraft metadata"):
        from kraft_trio.cli.metadata.queries import differences
    if second is None and start is None:
        raise ConfigError("diff: one directory and no --from: expected two directories, or the moments to compare")
    found = differences(first, second, start, end)
    if as_json:
        for row in found.rows:
            echo_line(_as_json(row))
    elif found.rows:
        _print_changes(found.rows)
    else:
        echo_line("no differences", err=True)
    _tell(found.source, found.problems)
    return 1 if found.rows else 0


class _WithQuery(click.Command):
    """Takes a query that begins with a comment for an argument, not for an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f" {one}" if one.startswith("--") and "\n" in one else one for one in args])


@metadata.command(cls=_WithQuery)
@click.argument("query", metavar="QUERY")
@_DIRECTORIES
@_AS_OF
@_formats
def sql(query: str, directories: Sequence[str], as_of: Any, as_json: bool, as_csv: bool, parquet: str | None) -> None:
    """Answer a query in DuckDB's SQL.

    Its tables are topics, partitions, brokers, controllers, features, configs, acls, client_quotas, producer_ids,
    delegation_tokens, scram and changes.  Only those that the query names are made.  "DESCRIBE changes" shows the
    columns of a table.  The column offset is a word of SQL, and needs double quotes.

    \b
    Example:
      kraft metadata sql "SELECT topic, count(*) FROM partitions GROUP BY 1" DIR
    """
    with needing("audit", "kraft metadata"):
        from kraft_trio.cli.metadata.queries import answer
    found = answer(query, directories, as_of)
    _print(found.rows, "", as_json, as_csv, parquet, found.arrow)
    _tell(found.source, found.problems)


@metadata.command()
@_DIRECTORIES
@click.option("--out", required=True, metavar="FILE", type=NamedPath(dir_okay=False), help="The HTML file to write.")
def report(directories: Sequence[str], out: str) -> None:
    """Write a report of the cluster's history with plots.

    It shows active controllers, brokers up and down, leaders, sizes of ISRs, topics created and deleted, and the
    partitions that changed most.
    """
    with needing("audit", "kraft metadata"):
        from kraft_trio.cli.metadata.choice_of_replica import furthest
        from kraft_trio.spark.file_system import printable
        from kraft_trio.spark.metadata_report.report import timeline_of, write_report
    replica = furthest(directories)
    timeline = timeline_of(replica)
    try:
        write_report(timeline, replica, Path(out))
    except OSError as error:
        raise ConfigError(f"--out {out}: {error.strerror or error}; expected a file that can be written") from error
    echo_line(f"report: {out}")
    _tell(f"{printable(replica.directory)}, up to offset {timeline.replaying.end}", timeline.problems)


def _print(
    rows: Sequence[dict[str, Any]],
    what: str,
    as_json: bool,
    as_csv: bool,
    parquet: str | None,
    arrow: Callable[[], Any],
) -> None:
    if as_json + as_csv + (parquet is not None) > 1:
        raise click.UsageError("--json, --csv and --parquet: expected one of them")
    if parquet is not None:
        _write_parquet(arrow(), parquet)
        echo_line(f"{len(rows)} rows in {parquet}", err=True)
    elif as_json:
        for row in rows:
            echo_line(_as_json(row))
    elif as_csv:
        for line in _csv(list(rows[0]) if rows else arrow().schema.names, rows):
            # A terminal must not be controlled by what is quoted.  A file gets all of it, which click would not write.
            if sys.stdout.isatty():
                echo(line, nl=False)
            else:
                sys.stdout.write(line)
    elif not rows:
        echo_line(f"no {what.replace('_', ' ') or 'rows'}", err=True)
    elif what == "changes":
        _print_changes(rows)
    else:
        names = [name for name in _SHOWN.get(what, list(rows[0])) if name in rows[0]]
        echo(table([names, *([_text(row[name]) for name in names] for row in rows)]))


def _write_parquet(table: Any, path: str) -> None:
    import pyarrow
    from pyarrow import parquet as files

    try:
        with open(path, "wb", opener=open_own) as file:
            files.write_table(table, file)
    except OSError as error:
        raise ConfigError(
            f"--parquet {path}: {error.strerror or error}; expected a file that can be written"
        ) from error
    except pyarrow.ArrowException as error:
        raise ConfigError(f"--parquet {path}: {error}; expected columns of types that Parquet has") from error


def _print_changes(rows: Iterable[Mapping[str, Any]]) -> None:
    for row in rows:
        words = [_text(row.get(name)) for name in ("offset", "timestamp", "entity", "key", "operation")]
        if row.get("controller") is not None:
            words.append(f"by {row['controller']}")
        echo_line(" ".join(word for word in (*words, _what_changed(row)) if word))


def _what_changed(row: Mapping[str, Any]) -> str:
    before, after = (json.loads(row[name]) if row[name] is not None else {} for name in ("before", "after"))
    if row["operation"] != "update":
        shown = after or before
        return " ".join(f"{name}={_text(value)}" for name, value in shown.items() if value not in (None, [], ""))
    return " ".join(
        f"{name}: {_text(before.get(name, HIDDEN)) or 'none'} → {_text(after.get(name, HIDDEN)) or 'none'}"
        for name in row["changed"]
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, list):
        return ",".join(map(_text, value))
    if isinstance(value, dict):
        if {"name", "host", "port"} <= value.keys():
            return f"{value['name']}://{value['host']}:{value['port']}"
        if {"min_supported_version", "max_supported_version"} <= value.keys():
            return f"{value['name']}={value['min_supported_version']}–{value['max_supported_version']}"
        if "entity_type" in value:
            name = value["entity_name"]
            return f"{value['entity_type']}={'<default>' if name is None else name}"
        return " ".join(f"{name}={_text(one)}" for name, one in value.items())
    return str(value)


def _as_json(row: Mapping[str, Any]) -> str:
    return _JSON(row)


_JSON: Final = JsonText(default=_text)


def _csv(titles: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for cells in (titles, *([_cell(value) for value in row.values()] for row in rows)):
        writer.writerow(cells)
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def _cell(value: Any) -> Any:
    if isinstance(value, list | dict):
        return _JSON(value)
    return _text(value) if isinstance(value, datetime | bytes) else value


def _tell(source: str, problems: Sequence[str]) -> None:
    """Say on stderr whose state it is, and fail if parts are missing."""
    if sys.stderr.isatty():
        echo_line(source, err=True)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise CorruptLogError(f"{problems[0]}{more}")
