"""Decodes traces, msgpack or lines of JSON, into Arrow batches of some thousand events.

An unreadable place becomes a row whose `error` says what and where.  In JSON, reading continues with the next line;
after invalid msgpack, nothing more can be found.
"""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Final

import attrs
import msgpack
import pyarrow as pa

from kraft_trio.spark.schemas import TRACE, Column
from kraft_trio.tracing.events import TraceEvent
from kraft_trio.tracing.files import (
    LARGEST_RECORD_BYTES,
    TraceFileError,
    TraceHeader,
    structure_event,
    structure_header,
)

ROWS_OF_A_BATCH: Final = 10_000
"""The batch size that Spark reads fastest."""

_FIELDS: Final = frozenset(field.name for field in attrs.fields(TraceEvent))

_UNREADABLE: Final = (
    TypeError,
    ValueError,
    OverflowError,
    LookupError,
    pa.ArrowException,
    RecursionError,
)
"""The exceptions for a record with other fields, types or sizes than an event."""


@attrs.frozen
class _Place:
    """A record as found, or the reason why there is none."""

    number: int
    """Counts from 1, which is the header."""
    position: int
    """Position of its first byte in the file."""
    record: Any = None
    problem: str | None = None

    def said(self, problem: str) -> str:
        return f"record {self.number} at byte {self.position}: {problem}"


def trace_batches(
    file: IO[bytes],
    name: str,
    columns: Sequence[Column] = TRACE,
    *,
    fail_fast: bool = False,
    rows: int = ROWS_OF_A_BATCH,
) -> Iterator[pa.RecordBatch]:
    """The events of one trace as batches with these columns, in file order.

    `name` is the file's name for rows and errors.  A problem becomes a row with `name`, `error` and what is known; with
    `fail_fast`, it raises TraceFileError naming file and place.  Raises OSError.
    """
    is_json = file.read(1) == b"{"
    file.seek(0)
    places = _json_places(file) if is_json else _msgpack_places(file)
    builder = _Builder(name, tuple(columns), is_json, fail_fast)
    yield from builder.header(next(places, _Place(1, 0, problem="it is empty")))
    if builder.is_a_trace:
        waiting: list[_Place] = []
        for place in places:
            waiting.append(place)
            if len(waiting) == rows:
                yield from builder.batches(waiting)
                waiting = []
        yield from builder.batches(waiting)


def problem_batch(name: str, problem: str, columns: Sequence[Column] = TRACE, **known: object) -> pa.RecordBatch:
    """The single row of a file that cannot be read any further."""
    values = {"file": name, "run": name, **known, "error": problem}
    arrays = [pa.array([values.get(column.name)], column.type) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, [column.name for column in columns])


class _Builder:
    """Makes the rows of one file."""

    def __init__(self, name: str, columns: tuple[Column, ...], is_json: bool, fail_fast: bool) -> None:
        self._name = name
        self._columns = columns
        self._schema = pa.schema([(column.name, column.type) for column in columns])
        self._is_json = is_json
        self._fail_fast = fail_fast
        self._header: TraceHeader | None = None

    @property
    def is_a_trace(self) -> bool:
        """Whether the header was readable."""
        return self._header is not None

    def header(self, place: _Place) -> Iterator[pa.RecordBatch]:
        """Read the header; yields a row only if it is invalid."""
        problem = place.problem and f"not a trace; {place.problem}"
        if problem is None:
            try:
                self._header = structure_header(place.record, is_json=self._is_json)
            except TraceFileError as error:
                problem = str(error)
        if problem is not None:
            yield self._error(place, problem)

    def batches(self, places: Sequence[_Place]) -> Iterator[pa.RecordBatch]:
        """Their rows in order: one batch, unless one of them is wrong."""
        if not places:
            return
        try:
            yield self._batch([_checked(place) for place in places])
        except _UNREADABLE:
            if len(places) > 1:
                # Halving keeps the cost low when one of thousands of records is bad.
                middle = len(places) // 2
                yield from self.batches(places[:middle])
                yield from self.batches(places[middle:])
            else:
                yield self._error(places[0], self._problem(places[0]))

    def _batch(self, records: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        header = self._header
        assert header is not None, "an event before the header"
        constants = {"file": self._name, "run": self._run(header), "seed": header.seed, "error": None}
        arrays = []
        for column in self._columns:
            if column.name in constants:
                arrays.append(pa.repeat(pa.scalar(constants[column.name], column.type), len(records)))
            elif column.name == "details":
                arrays.append(pa.array([_text(record["details"]) for record in records], column.type))
            else:
                values = [record[column.name] for record in records]
                _check_types(column, values)
                arrays.append(pa.array(values, column.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _problem(self, place: _Place) -> str:
        if place.problem is not None:
            return place.problem
        try:
            structure_event(place.record, is_json=self._is_json)
            self._batch([_checked(place)])
        except (TraceFileError, *_UNREADABLE) as error:
            return str(error)
        raise AssertionError(f"{self._name}: {place.said('refused, and then not')}")

    def _error(self, place: _Place, problem: str) -> pa.RecordBatch:
        if self._fail_fast:
            raise TraceFileError(f"{self._name}: {place.said(problem)}")
        known = {} if self._header is None else {"run": self._run(self._header), "seed": self._header.seed}
        return problem_batch(self._name, place.said(problem), self._columns, **known)

    def _run(self, header: TraceHeader) -> str | None:
        return self._name if header.is_simulated else header.cluster_id


def _checked(place: _Place) -> Mapping[str, Any]:
    record = place.record
    if place.problem is not None or not isinstance(record, dict) or record.keys() != _FIELDS:
        raise ValueError
    return record


def _check_types(column: Column, values: Sequence[Any]) -> None:
    """Raises TypeError for a value of another type than the column's, which Arrow might convert silently."""
    arrow_type = column.type
    if pa.types.is_list(arrow_type):
        lists = [value for value in values if value is not None]
        if not all(isinstance(one, list | tuple) for one in lists):
            raise TypeError(f"{column.name}: expected a list")
        values, arrow_type = list(itertools.chain.from_iterable(lists)), arrow_type.value_type
    wanted = int if pa.types.is_integer(arrow_type) else str
    if not set(map(type, values)) <= {wanted, type(None)}:
        wrong = next(value for value in values if value is not None and type(value) is not wanted)
        raise TypeError(f"{column.name}: {wrong!r}, expected {wanted.__name__}")


def _text(details: object) -> str:
    if not isinstance(details, dict):
        raise TypeError(f"details: {details!r}; expected a map")
    return json.dumps(details, ensure_ascii=False, separators=(",", ":"))


def _json_places(file: IO[bytes]) -> Iterator[_Place]:
    position = 0
    for number, line in enumerate(file, 1):
        if not line.endswith(b"\n"):
            yield _Place(number, position, problem="cut short; expected a line of JSON that ends with a newline")
            return
        try:
            yield _Place(number, position, json.loads(line))
        except (ValueError, RecursionError) as error:
            yield _Place(number, position, problem=f"no JSON: {error}")
        position += len(line)


def _msgpack_places(file: IO[bytes]) -> Iterator[_Place]:
    unpacker = msgpack.Unpacker(file, raw=False, max_buffer_size=LARGEST_RECORD_BYTES)
    number, position = 1, 0
    try:
        for record in unpacker:
            yield _Place(number, position, record)
            number, position = number + 1, unpacker.tell()
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        yield _Place(number, position, problem=f"no msgpack: {error}")
        return
    if position != file.seek(0, io.SEEK_END):
        yield _Place(number, position, problem="cut short; expected a whole msgpack map")
