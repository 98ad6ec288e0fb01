"""The options of the sources as a table: names, allowed values and meanings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from kraft_trio.config.secret import HIDDEN
from kraft_trio.errors import ConfigError
from kraft_trio.spark.schemas import CHANGES, CONTENTS, METADATA, METADATA_CONTENTS, STATES
from kraft_trio.wire.metadata_schemas import SCHEMAS


@attrs.frozen
class Option:
    """One option of a source."""

    name: str
    read: Callable[[str], Any]
    """Raises ValueError for text that is not allowed."""
    allowed: str
    default: Any
    meaning: str
    default_text: str | None = None
    """The default as a user would write it, if that differs from its text."""
    contents: tuple[str, ...] = ()
    """The contents (values of the option `content`) that it applies to; empty for all."""
    also: str | None = None
    """Another name for it, in lower case: that of Spark's Kafka source."""

    def is_of(self, content: str) -> bool:
        """Whether the option applies to that content."""
        return not self.contents or content in self.contents


def choice(*values: str) -> Callable[[str], str]:
    """One of these words, in any case."""
    by_lower = {value.lower(): value for value in values}

    def read(text: str) -> str:
        if text.lower() not in by_lower:
            raise ValueError
        return by_lower[text.lower()]

    return read


def boolean(text: str) -> bool:
    return choice("true", "false")(text) == "true"


def whole_number(minimum: int = 0, maximum: int = 2**63 - 1) -> Callable[[str], int]:
    """A whole number; both ends are inclusive."""

    def read(text: str) -> int:
        if not text.isdecimal() or not minimum <= int(text) <= maximum:
            raise ValueError
        return int(text)

    return read


def flag(name: str, meaning: str, default: bool = False, contents: tuple[str, ...] = ()) -> Option:
    """An option that is true or false."""
    return Option(name, boolean, "true or false", default, meaning, contents=contents)


def count(name: str, what: str, meaning: str, default: int | None = None) -> Option:
    """An option that is a number of something, 1 or more."""
    return Option(name, whole_number(1), f"{what}, 1 or more", default, meaning, "" if default is None else None)


_OPTION: Final = "kraft_trio.spark.option"


def field(option: Option) -> Any:
    """A field of an attrs class with that option's value; see `options_in` and `fields_of`."""
    return attrs.field(metadata={_OPTION: option})


def options_in(cls: type[attrs.AttrsInstance]) -> tuple[Option, ...]:
    """The options of a class's fields, in their order."""
    return tuple(one.metadata[_OPTION] for one in attrs.fields(cls) if _OPTION in one.metadata)


def fields_of(cls: type[attrs.AttrsInstance], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a class's fields, from the values by option."""
    return {one.name: values[one.metadata[_OPTION].name] for one in attrs.fields(cls) if _OPTION in one.metadata}


EARLIEST: Final = "earliest"
LATEST: Final = "latest"

Place = int | str
"""An offset, or EARLIEST or LATEST."""


@attrs.frozen
class FromTime:
    """The first record of a time or a later one."""

    timestamp_ms: int
    """Milliseconds since 1970, inclusive."""
    is_latest_without: bool
    """Whether LATEST is meant if there is no such record; otherwise that is an error."""


_STORED: Final = {EARLIEST: 0, LATEST: 2**63 - 1}
"""Where a stored log begins and ends at the most."""


_DURATION: Final = re.compile(r"(\d+)(us|ms|s|m|min|h|d)?")
_MILLISECONDS: Final = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str) -> int:
    """A duration as in Spark's configuration, such as `90s` or `15m`; without a unit, in milliseconds."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError
    return int(int(found[1]) * _MILLISECONDS[found[2] or "ms"])


OFFSET: Final = 'an offset, {"offset": N} or {"TOPIC": {"0": N}}'
"""How an offset may be written, in words."""
_WORD_OF_KAFKA: Final = {-2: EARLIEST, -1: LATEST}
"""Offsets that Spark's Kafka source has for the two words, in JSON."""


def place(*words: str) -> Callable[[str], Place]:
    """One of these words, an offset, or the offset as `{"offset": N}` or, as Kafka's, `{"TOPIC": {"0": N}}`."""
    word = choice(*words)

    def read(text: str) -> Place:
        number: object = text.strip()
        if text.lstrip().startswith("{"):
            number = _offset_in(_json(text))
        try:
            return whole_number()(str(number))
        except ValueError:
            return word(str(number))

    return read


def _offset_in(fields: Any) -> object:
    if not isinstance(fields, dict) or len(fields) != 1:
        raise ValueError
    [(name, found)] = fields.items()
    if not isinstance(found, dict):
        if name != "offset":
            raise ValueError
        return found
    if found.keys() != {"0"} or type(found["0"]) is not int:
        raise ValueError
    return _WORD_OF_KAFKA.get(found["0"], found["0"])


def topic_of(text: str) -> str | None:
    """The topic that the text of a place names, if `place` reads it; otherwise None."""
    try:
        fields = _json(text)
    except ValueError:
        return None
    names = [name for name, found in fields.items() if isinstance(found, dict)] if isinstance(fields, dict) else []
    return names[0] if names else None


def stored_place(*words: str) -> Callable[[str], int]:
    """Like `place`, as an offset that no stored log exceeds."""
    read = place(*words)

    def read_offset(text: str) -> int:
        found = read(text)
        return found if isinstance(found, int) else _STORED[found]

    return read_offset


def epoch_range(text: str) -> tuple[int, int]:
    """FIRST-LAST, or a single epoch; both ends are inclusive."""
    first, dash, last = text.partition("-")
    read = whole_number(0, 2**31 - 1)
    epochs = read(first), read(last if dash else first)
    if epochs[0] > epochs[1]:
        raise ValueError
    return epochs


def _json(text: str) -> Any:
    """Raises ValueError, also for what is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError from None


def names_among(known: Iterable[str]) -> Callable[[str], frozenset[str]]:
    """Some of these names, separated by commas, in any case."""
    by_lower = {name.lower(): name for name in known}

    def read(text: str) -> frozenset[str]:
        names = {name.strip().lower() for name in text.split(",")}
        if not names <= by_lower.keys():
            raise ValueError
        return frozenset(by_lower[name] for name in names)

    return read


def moment(text: str) -> int:
    """Microseconds since 1970, from milliseconds or a time in ISO 8601; without a zone, in UTC."""
    if text.isdecimal():
        return whole_number()(text) * 1000
    time = datetime.fromisoformat(text)
    zoned = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1_000_000)


def any_text(text: str) -> str:
    return text


def texts_of_json(text: str) -> tuple[str, ...]:
    """The texts in a JSON list."""
    found = _json(text)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError
    return tuple(found)


def read_options(source: str, table: Iterable[Option], given: Mapping[str, str]) -> dict[str, Any]:
    """The value of each option in the table, by name.

    Names are case-insensitive, as in Spark.  Raises ConfigError naming option, value and expectation for an unknown
    option, a value that is not allowed, or two values under two names of one option.  It shows no secret.
    """
    table = tuple(table)
    options = {option.name.lower(): option for option in table}
    options |= {option.also: option for option in table if option.also is not None}
    values = {option.name: option.default for option in table}
    read: dict[str, str] = {}
    for name, text in given.items():
        option = options.get(name.lower())
        shown = f"{name}={shown_value(name, text)}"
        if option is None:
            known = ", ".join(sorted(option.name for option in table))
            raise ConfigError(f"format {source}: option {shown}: there is no such option; known are {known}")
        if read.setdefault(option.name, text) != text:
            raise ConfigError(
                f"format {source}: option {shown}: is {option.name}={read[option.name]} too, expected one"
            )
        try:
            values[option.name] = option.read(text)
        except ValueError:
            raise ConfigError(f"format {source}: option {option.name}={text}, expected {option.allowed}") from None
    return values


SECRET_NAMES: Final = "secret|password|token|access[.]?key|jaas|ssl[.]keystore[.]key"
"""What Spark redacts by default (`spark.redaction.regex`), and Kafka's keys that have secrets under other names."""
_SECRET: Final = re.compile(SECRET_NAMES, re.IGNORECASE)


def shown_value(name: str, text: str) -> str:
    """The text of an option as an error shows it: hidden if its name or the text is that of a secret."""
    return HIDDEN if _SECRET.search(name) or _SECRET.search(text) else text


MODE = Option(
    "mode",
    choice("PERMISSIVE", "FAILFAST"),
    "PERMISSIVE or FAILFAST",
    "PERMISSIVE",
    "an unreadable place: a row with `error`, or an error that ends the query",
)

PATH = Option("path", any_text, "a path, a glob or a URL", "", "the path passed to `load`")
PATHS = Option("paths", texts_of_json, "a JSON list of texts", (), "the list of paths passed to `load`", "")

KAFKA_COLUMNS: Final = "includeKafkaColumns"
KAFKA_COLUMNS_MEANING: Final = "adds the columns `topic`, `partition` and `timestampType` of Spark's Kafka source"

OF_BATCHES = ("records", "batches", "control", "snapshot-records")
OF_HISTORIES = (METADATA, CHANGES)
ALL_CONTENTS = (*CONTENTS, *METADATA_CONTENTS)
OF_RECORDS = ("records", "snapshot-records", "latest-by-key")

READ_OPTIONS = (
    PATH,
    PATHS,
    Option("content", choice(*ALL_CONTENTS), ", ".join(ALL_CONTENTS), "records", "the kind of rows"),
    MODE,
    Option(
        "startingOffsets",
        stored_place(EARLIEST, LATEST),
        f"earliest, latest, {OFFSET}",
        _STORED[EARLIEST],
        "first offset, inclusive; in snapshots, counted from their start",
        "earliest",
        (*OF_BATCHES, *OF_HISTORIES),
    ),
    Option(
        "endingOffsets",
        stored_place(LATEST),
        f"latest, {OFFSET}",
        _STORED[LATEST],
        "end, exclusive; counted the same way",
        "latest",
        (*OF_BATCHES, *OF_HISTORIES),
    ),
    Option(
        "asOfOffset",
        stored_place(LATEST),
        f"latest, {OFFSET}",
        _STORED[LATEST],
        "end of the records that make up the state, exclusive",
        "latest",
        ("latest-by-key", *STATES),
    ),
    Option(
        "asOfTimestamp",
        moment,
        "milliseconds since 1970, or a time as in 2026-11-28T03:14:00Z",
        None,
        "the state when the first record with a later timestamp was not yet written; a time without zone is UTC",
        "",
        STATES,
    ),
    Option(
        "types",
        names_among(schema.type_name for schema in SCHEMAS.values()),
        "names of record types, separated by commas, such as TOPIC_RECORD,PARTITION_RECORD",
        frozenset(),
        "the only types of records that are decoded, and have rows and columns",
        "all",
        (METADATA,),
    ),
    Option(
        "entities",
        names_among(STATES),
        f"some of {', '.join(STATES)}, separated by commas",
        frozenset(),
        "the only kinds of things whose changes have rows",
        "all",
        (CHANGES,),
    ),
    Option(
        "epochs",
        epoch_range,
        "an epoch, or FIRST-LAST",
        (-(2**31), 2**31 - 1),
        "leader epochs to read, inclusive",
        "",
        OF_BATCHES,
    ),
    flag("includeHeaders", "adds the column `headers`", contents=OF_RECORDS),
    flag(KAFKA_COLUMNS, KAFKA_COLUMNS_MEANING, contents=("records", "snapshot-records")),
    Option(
        "value.format",
        choice("raw", "msgpack"),
        "raw or msgpack",
        "raw",
        "msgpack: the entries of map values become columns",
        contents=OF_RECORDS,
    ),
    flag("allowMixedClusters", "allows directories of several clusters"),
    Option(
        "maxPartitionBytes",
        whole_number(1),
        "bytes, 1 or more",
        64 * 1024 * 1024,
        "size of a task; larger if a query would have more than 100,000 tasks",
    ),
    flag(
        "pushFilters",
        "skips data that filters exclude by offset, epoch, time, replica or `control`, and applies comparisons with a "
        "constant, which `explain` shows, if `spark.sql.python.filterPushdown.enabled` is true",
        default=True,
    ),
)
"""The options of the batch source `kraft`."""

TRACE_OPTIONS = (
    PATH,
    PATHS,
    MODE,
    Option(
        "maxPartitionBytes",
        whole_number(1),
        "a whole number of bytes",
        16 * 1024 * 1024,
        "size of a task; a larger file is one task",
    ),
)
"""The options of the source `kraft-trace`."""
