"""`kraft dump-log`: the batches of log files, in the layout of kafka-dump-log or as JSON lines."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import click

from kraft_trio.application.named_object import object_named, refusal
from kraft_trio.cli.logs.log_dump import Damage, DumpedBatch, DumpedItem, DumpedRecord, Preallocated, dump_file
from kraft_trio.cli.logs.record_text import bytes_field, headers_field, printable
from kraft_trio.cli.terminal.json_option import json_option
from kraft_trio.cli.terminal.output import echo_line, field
from kraft_trio.cli.terminal.paths import ExistingPath
from kraft_trio.cli.terminal.progress import NO_BAR, Bar, progress
from kraft_trio.errors import ConfigError, CorruptLogError, SerdeError
from kraft_trio.storage.batches.batch import Record

if TYPE_CHECKING:
    from kraft_trio.application.serde import Serde

_FILE_NAME = re.compile(r"([0-9]{20})(?:-([0-9]{10}))?\.")


@click.command("dump-log")
@click.argument("files", nargs=-1, type=ExistingPath(dir_okay=False))
@click.option("--files", "more_files", multiple=True, help="The files, separated by commas, as in kafka-dump-log.")
@partial(json_option, help="Print one JSON object per batch.")
@click.option(
    "--metadata",
    "--cluster-metadata-decoder",
    "metadata",
    is_flag=True,
    help="Decode values as Apache Kafka's metadata records.",
)
@click.option("--serde", "serde_name", metavar="MODULE:NAME", help="Decode the values of .log files with this serde.")
@click.option("--skip-records", is_flag=True, help="Print the batches without their records.")
def dump_log(
    files: tuple[str, ...],
    more_files: tuple[str, ...],
    as_json: bool,
    metadata: bool,
    serde_name: str | None,
    skip_records: bool,
) -> None:
    """Print the batches of log files.

    The files are .log and .checkpoint files of kraft-trio or Apache Kafka.  A damaged batch is printed with its
    problem; the exit code is then 1.

    A metadata record of an unknown type or version is printed as hexadecimal digits, with the reason.

    MODULE:NAME is an application's serde, such as its MsgpackSerde.  A record that it cannot decode is printed with the
    reason.
    """
    serde = None if serde_name is None else _serde_named(serde_name)
    paths = [*files, *(path for text in more_files for path in text.split(","))]
    if not paths:
        raise click.UsageError("no file given", click.get_current_context())
    for path in paths:
        _check_name(path)
    problems: list[str] = []
    lines = _json_lines if as_json else _text_lines
    # On a terminal, the dump itself shows the progress.
    total = None if sys.stdout.isatty() else sum(os.path.getsize(path) for path in paths)
    with nullcontext(NO_BAR) if total is None else progress("dumping", total) as bar:
        for path in paths:
            dump = dump_file(path, metadata_frames=metadata)
            own = serde if "log" in path.rpartition("/")[2].split(".") else None
            for line in lines(path, _noting_problems(path, dump, problems, bar), skip_records, own):
                echo_line(line)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise CorruptLogError(f"{problems[0]}{more}")


def _serde_named(name: str) -> Serde:
    """Raises ConfigError."""
    found = object_named(name, "--serde", makes=False)
    if not callable(getattr(found, "decode", None)):
        raise refusal("--serde", name, f"{type(found).__name__}, which has no method decode")
    return cast("Serde", found)


def _check_name(path: str) -> None:
    suffixes = path.rpartition("/")[2].split(".")[1:]
    if "log" not in suffixes and "checkpoint" not in suffixes:
        raise ConfigError(f"{path or '--files: an empty name'}: expected a .log or .checkpoint file")


def _noting_problems(path: str, dump: Iterable[DumpedItem], problems: list[str], bar: Bar) -> Iterator[DumpedItem]:
    for item in dump:
        match item:
            case Damage():
                bar.advance(item.invalid_bytes)
            case Preallocated():
                bar.advance(item.size_in_bytes)
            case DumpedBatch():
                bar.advance(item.header.size_in_bytes)
        if not isinstance(item, Preallocated) and item.problem is not None:
            problems.append(f"{path}: {item.problem}")
        yield item


def _text_lines(path: str, dump: Iterable[DumpedItem], skip_records: bool, serde: Serde | None) -> Iterator[str]:
    yield f"Dumping {path}"
    if match := _FILE_NAME.match(path.rpartition("/")[2]):
        offset, epoch = match[1], match[2]
        yield (
            f"Log starting offset: {int(offset)}"
            if epoch is None
            else f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}"
        )
        yield f"Size: {os.path.getsize(path)} bytes"
    for item in dump:
        if isinstance(item, Damage):
            yield f"Found {item.invalid_bytes} invalid bytes at position {item.position}: {item.problem}"
            continue
        if isinstance(item, Preallocated):
            yield f"Found {item.size_in_bytes} preallocated bytes at position {item.position}"
            continue
        yield _batch_line(item)
        if item.problem is not None:
            yield f"| {item.problem}"
        if not skip_records:
            yield from (_record_line(record, serde) for record in item.records)


def _batch_line(batch: DumpedBatch) -> str:
    return " ".join(f"{name}: {_word(value)}" for name, value in _batch_fields(batch).items())


def _record_line(dumped: DumpedRecord, serde: Serde | None) -> str:
    record = dumped.record
    words = [f"| offset: {record.offset} CreateTime: {record.timestamp_ms}"]
    words.append(f"keySize: {_size(record.key)} valueSize: {_size(record.value)} sequence: {dumped.sequence}")
    words.append(f"headerKeys: [{field(','.join(name for name, _ in record.headers))}]")
    if dumped.control is not None:
        name, fields = dumped.control
        words.append(f"{name}: {json.dumps(fields, separators=(',', ':'))}")
    else:
        if record.key is not None:
            words.append(f"key: {printable(record.key)}")
        if dumped.metadata is not None:
            words.append(f"payload: {json.dumps(dumped.metadata, separators=(',', ':'))}")
        elif serde is not None:
            words += (f"{name}: {field(text)}" for name, text in _decoded(record, serde).items())
        else:
            words.append(f"payload: {printable(record.value)}")
    return " ".join(words)


def _decoded(record: Record, serde: Serde) -> dict[str, str]:
    """The value in words, or the reason why it cannot be decoded."""
    try:
        return {"decoded": repr(serde.decode(record.value or b""))}
    except SerdeError as error:
        return {"payload": printable(record.value), "undecodable": str(error)}


def _json_lines(path: str, dump: Iterable[DumpedItem], skip_records: bool, serde: Serde | None) -> Iterator[str]:
    for item in dump:
        if isinstance(item, Preallocated):
            continue
        fields: dict[str, Any] = {"file": path, "position": item.position}
        if isinstance(item, Damage):
            fields["invalidBytes"] = item.invalid_bytes
        else:
            fields |= _batch_fields(item)
            if not skip_records:
                fields["records"] = [_record_fields(record, serde) for record in item.records]
        if item.problem is not None:
            fields["problem"] = item.problem
        yield json.dumps(fields)


def _batch_fields(batch: DumpedBatch) -> dict[str, Any]:
    header = batch.header
    compression = header.compression.name.lower() if header.attributes & 7 <= 4 else f"unknown({header.attributes & 7})"
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": batch.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "position": batch.position,
        "LogAppendTime" if header.has_log_append_time else "CreateTime": header.max_timestamp_ms,
        "size": header.size_in_bytes,
        "magic": header.magic,
        "compresscodec": compression,
        "crc": header.crc,
        "isvalid": batch.is_valid,
    }


def _record_fields(dumped: DumpedRecord, serde: Serde | None) -> dict[str, Any]:
    record = dumped.record
    fields: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp_ms, "sequence": dumped.sequence}
    if dumped.control is not None:
        name, values = dumped.control
        return {**fields, "controlType": name, **values}
    fields |= bytes_field("key", record.key)
    fields |= {"metadata": dumped.metadata} if dumped.metadata is not None else bytes_field("value", record.value)
    if serde is not None:
        fields |= {name: text for name, text in _decoded(record, serde).items() if name != "payload"}
    return fields | headers_field(record)


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
