"""Traces as files: a header, then every event of one run or node, as msgpack values or as JSON lines (NDJSON).

Each record is a map by field name: first a `TraceHeader`, then `TraceEvent`s, which docs/reference/traces.md describes.
The first byte of a file tells its encoding: no msgpack map begins with `{`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

import attrs
import msgpack

from kraft_trio.application.serde import problems_of
from kraft_trio.errors import KraftError
from kraft_trio.storage.disk.created_files import open_own
from kraft_trio.tracing.events import Trace, TraceEvent

if TYPE_CHECKING:
    import cattrs

FORMAT: Final = "kraft-trio trace"
VERSION: Final = 1
"""Increased with each change that a reader of the previous version would misread."""

_T = TypeVar("_T")

LARGEST_RECORD_BYTES = 64 * 1024 * 1024


class TraceFileError(KraftError):
    """A file is not a trace, or is damaged.  The message names the file, the record and what was expected."""


@attrs.frozen
class TraceHeader:
    """The first record of a trace: what the trace belongs to, and how to repeat it.

    The trace of a simulated run has a seed, a command and a script.  The trace of a real node has a cluster id, a node
    id and a directory id.  The file omits fields without a value.
    """

    seed: int | None = None
    command: str | None = None
    """The command line that replays the run."""
    script: str | None = None
    """The scenario script of the run: voters, settings and faults, each with its virtual time."""
    cluster_id: str | None = None
    node: int | None = None
    directory_id: str | None = None
    """The directory id of the replica, as `kraft storage info` prints it."""
    format: str = FORMAT
    version: int = VERSION

    @property
    def is_simulated(self) -> bool:
        """Whether this is the trace of a simulated run, with virtual times."""
        return self.seed is not None


@cache
def _converter(*, is_json: bool) -> cattrs.Converter:
    """Made when it is first used: a node without a trace starts without cattrs."""
    from cattrs.preconf.json import make_converter as make_json_converter
    from cattrs.preconf.msgpack import make_converter as make_msgpack_converter

    attrs.resolve_types(TraceEvent)
    return _configured((make_json_converter if is_json else make_msgpack_converter)(forbid_extra_keys=True))


def _configured(converter: cattrs.Converter) -> cattrs.Converter:
    # Details are plain values already (see `events.plain`).
    details = attrs.fields(TraceEvent).details.type
    converter.register_structure_hook_func(lambda cls: cls == details, lambda value, _: dict(value))
    converter.register_unstructure_hook_func(lambda cls: cls == details, lambda value: value)
    converter.register_unstructure_hook(
        TraceHeader, lambda header: attrs.asdict(header, filter=lambda _, value: value is not None)
    )
    return converter


class TraceWriter:
    """Writes the trace of one run to a file, which is created or emptied.

    Raises OSError as `open` and `write` do.
    """

    def __init__(
        self, path: str | os.PathLike[str], header: TraceHeader, *, ndjson: bool = False, messages: bool = False
    ) -> None:
        self._messages = messages
        self._file: IO[bytes] = open(path, "wb", opener=open_own)  # noqa: SIM115
        self._encode_event = _json_line if ndjson else _packed
        self._file.write(self._encode_event(header))

    def attach(self, trace: Trace) -> None:
        """Write every event from now on.  With `messages`, each message on the network becomes an event."""
        trace.records_messages = self._messages
        trace.listeners.append(self.write)

    def write(self, event: TraceEvent) -> None:
        """Append one event."""
        self._file.write(self._encode_event(event))

    def close(self) -> None:
        """Close the file; all events have then reached the operating system.  A second call does nothing."""
        self._file.close()

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def open_trace(path: str | os.PathLike[str]) -> Iterator[tuple[TraceHeader, Iterator[TraceEvent]]]:
    """The header of a trace, and an iterator over its events that is valid in the `with` block.

    Raises TraceFileError if the file is not a trace, and OSError as `open` does.  The iterator raises TraceFileError
    for a record that is damaged or cut short.
    """
    with open(path, "rb") as file:
        is_json = file.peek(1)[:1] == b"{"
        converter = _converter(is_json=is_json)
        name = os.fspath(path)
        events = _structured(converter, _json_records(file) if is_json else _msgpack_records(file), name)
        header = next(events, None)
        if not isinstance(header, TraceHeader):
            raise TraceFileError(f"{name}: empty; expected a header of format {FORMAT!r}")
        yield header, (event for event in events if isinstance(event, TraceEvent))


def structure_header(record: object, *, is_json: bool) -> TraceHeader:
    """Decode the first record of a trace.  Raises TraceFileError with the reason, but without the file's name."""
    return _structure(record, TraceHeader, _converter(is_json=is_json))


def structure_event(record: object, *, is_json: bool) -> TraceEvent:
    """Decode a later record of a trace.  Raises TraceFileError with the reason, but without the file's name."""
    return _structure(record, TraceEvent, _converter(is_json=is_json))


def packed_header(header: TraceHeader) -> bytes:
    """The header, encoded for a trace in msgpack."""
    return _packed(header)


def packed_event(event: TraceEvent) -> bytes:
    """An event, encoded for a trace in msgpack."""
    return _packed(event)


def _structured(converter: cattrs.Converter, records: Iterator[Any], name: str) -> Iterator[TraceHeader | TraceEvent]:
    for number in itertools.count(1):
        try:
            record = next(records)
        except StopIteration:
            return
        except (ValueError, RecursionError, msgpack.UnpackException) as error:
            raise TraceFileError(f"{name}: record {number}: {error}") from error
        try:
            structured: TraceHeader | TraceEvent = (
                _structure(record, TraceHeader, converter) if number == 1 else _structure(record, TraceEvent, converter)
            )
        except TraceFileError as error:
            raise TraceFileError(f"{name}: record {number}: {error}") from error.__cause__
        yield structured


def _structure(record: object, cls: type[_T], converter: cattrs.Converter) -> _T:
    import cattrs

    try:
        if cls is TraceHeader:
            _check_header(record)
        return converter.structure(record, cls)
    except cattrs.BaseValidationError as error:
        raise TraceFileError(problems_of(error)) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise TraceFileError(str(error)) from error


def _check_header(record: Any) -> None:
    if not isinstance(record, Mapping) or record.get("format") != FORMAT:
        raise ValueError(f"not a trace; expected a header of format {FORMAT!r}")
    if record.get("version") != VERSION:
        raise ValueError(f"version {record.get('version')!r}; expected {VERSION}")
    if record.get("seed") is None and not {"cluster_id", "node"} <= record.keys():
        raise ValueError("of nobody; expected `seed`, of a simulated run, or `cluster_id` and `node`, of a real node")


def _packed(record: TraceHeader | TraceEvent) -> bytes:
    # Writing must never fail, even if a line of the log has a number of more than 64 bits or text that is not UTF-8.
    packed: bytes = msgpack.packb(
        _converter(is_json=False).unstructure(record), use_bin_type=True, default=str, unicode_errors="backslashreplace"
    )
    return packed


def _json_line(record: TraceHeader | TraceEvent) -> bytes:
    return (
        json.dumps(_converter(is_json=True).unstructure(record), ensure_ascii=False, separators=(",", ":")).encode(
            errors="backslashreplace"
        )
        + b"\n"
    )


def _json_records(file: IO[bytes]) -> Iterator[Any]:
    for line in file:
        if not line.endswith(b"\n"):
            raise ValueError("cut short; expected a line of JSON that ends with a newline")
        yield json.loads(line)


def _msgpack_records(file: IO[bytes]) -> Iterator[Any]:
    unpacker = msgpack.Unpacker(file, raw=False, max_buffer_size=LARGEST_RECORD_BYTES)
    read = 0
    for record in unpacker:
        read = unpacker.tell()
        yield record
    if read != file.tell():
        raise ValueError("cut short; expected a whole msgpack map")
