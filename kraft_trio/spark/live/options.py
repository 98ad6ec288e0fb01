"""The options of `format("kraft")` with bootstrapControllers, for streams and batch reads of a live quorum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from kraft_trio.config.values import parse_peer
from kraft_trio.errors import ConfigError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.spark.live.client_keys import BOOTSTRAP_SERVERS, client_keys, security_of
from kraft_trio.spark.live.quorum import QuorumAddress
from kraft_trio.spark.options import (
    EARLIEST,
    KAFKA_COLUMNS,
    KAFKA_COLUMNS_MEANING,
    LATEST,
    OFFSET,
    READ_OPTIONS,
    FromTime,
    Option,
    Place,
    any_text,
    choice,
    count,
    duration_ms,
    field,
    fields_of,
    flag,
    options_in,
    place,
    read_options,
    shown_value,
    topic_of,
    whole_number,
)
from kraft_trio.spark.schemas import CHANGES, METADATA
from kraft_trio.spark.table_properties import NOT_HANDED_OVER

SOURCE: Final = "kraft"
RECORDS_CONTENT: Final = "records"
BOOTSTRAP: Final = "bootstrapControllers"


def option_named(name: str) -> Option:
    """The option of directories that has the same meaning for a quorum."""
    return next(option for option in READ_OPTIONS if option.name == name)


def is_live(options: Mapping[str, str]) -> bool:
    """Whether the options name a live quorum; names are case-insensitive, as in Spark."""
    return any(name.lower() in (BOOTSTRAP.lower(), BOOTSTRAP_SERVERS) for name in options)


def endpoints(text: str) -> tuple[Endpoint, ...]:
    """Read `host:port,host:port`, at least one.  Raises ValueError."""
    found = tuple(dict.fromkeys(parse_peer(part.strip()) for part in text.split(",") if part.strip()))
    if not found:
        raise ValueError
    return found


QUORUM_OPTIONS = (
    Option(
        BOOTSTRAP,
        endpoints,
        "host:port,host:port,…",
        None,
        f"any nodes of the quorum; also `{BOOTSTRAP_SERVERS}`",
        "",
        also=BOOTSTRAP_SERVERS,
    ),
    count("requestTimeoutMs", "milliseconds", "time limit for a node's answer", 2000),
    count("timeoutMs", "milliseconds", "time limit for finding a leader, records or a commit", 60_000),
)
"""The options for every use of a live quorum."""

_OFFSETS: Final = "a number of offsets"


@attrs.frozen(kw_only=True)
class LiveOptions:
    """The parsed options of a reader.  Can be pickled."""

    address: QuorumAddress
    content: str = field(
        Option(
            "content",
            choice(RECORDS_CONTENT, METADATA, CHANGES),
            f"{RECORDS_CONTENT}, {METADATA} or {CHANGES}; all else needs load() of a copy of a node's directory",
            RECORDS_CONTENT,
            "the kind of rows; the others are for the metadata of Apache Kafka's controllers",
        )
    )
    types: frozenset[str] = field(option_named("types"))
    entities: frozenset[str] = field(option_named("entities"))
    starting_offsets: Place = field(
        Option(
            "startingOffsets",
            place(EARLIEST, LATEST),
            f"earliest, latest, {OFFSET}",
            EARLIEST,
            "where a new query begins, inclusive; a checkpoint takes precedence",
        )
    )
    ending_offsets: Place = field(
        Option(
            "endingOffsets",
            place(LATEST),
            f"latest, {OFFSET}",
            LATEST,
            "where a batch query ends, exclusive; latest is the high watermark",
        )
    )
    starting_ms: int | None = field(
        Option(
            "startingTimestamp",
            whole_number(),
            "milliseconds since 1970",
            None,
            "where a new query begins: at the first record of that time or a later one, instead of `startingOffsets`",
            "",
        )
    )
    ending_ms: int | None = field(
        Option(
            "endingTimestamp",
            whole_number(),
            "milliseconds since 1970",
            None,
            "where a batch query ends: before the first record of that time or a later one, instead of `endingOffsets`",
            "",
        )
    )
    strategy: str = field(
        Option(
            "startingOffsetsByTimestampStrategy",
            choice("error", LATEST),
            "error or latest",
            "error",
            "without a record at or after `startingTimestamp`: an error, or the committed end",
        )
    )
    min_per_trigger: int | None = field(
        count(
            "minOffsetsPerTrigger",
            _OFFSETS,
            "minimum offsets per micro-batch, until `maxTriggerDelay` is over; AvailableNow has no minimum",
        )
    )
    max_trigger_delay_ms: int = field(
        Option(
            "maxTriggerDelay",
            duration_ms,
            "a duration such as 90s or 15m",
            15 * 60_000,
            "how long records may wait for `minOffsetsPerTrigger` since the last micro-batch with records",
            "15m",
        )
    )
    max_per_trigger: int | None = field(
        count("maxOffsetsPerTrigger", _OFFSETS, "maximum offsets per micro-batch; by default all committed ones")
    )
    max_per_partition: int = field(
        count("maxOffsetsPerPartition", _OFFSETS, "maximum offsets per task", 100_000),
    )
    min_partitions: int = field(
        count("minPartitions", "a number of partitions", "minimum tasks per micro-batch with that many offsets", 1)
    )
    fail_on_data_loss: bool = field(
        flag(
            "failOnDataLoss",
            "if records are lost before they are read: true ends the query, false warns and continues at the log's "
            "start",
            default=True,
        )
    )
    include_headers: bool = field(flag("includeHeaders", "adds the column `headers`"))
    include_kafka_columns: bool = field(flag(KAFKA_COLUMNS, KAFKA_COLUMNS_MEANING))
    include_retries: bool = field(flag("includeRetries", "adds the column `retries`"))
    include_control: bool = field(flag("includeControl", "includes control records"))
    value_format: str = field(
        Option(
            "value.format",
            choice("raw", "msgpack"),
            "raw or msgpack",
            "raw",
            "msgpack: other columns of the given schema come from the values",
        )
    )
    mode: str = field(
        Option(
            "mode",
            choice("PERMISSIVE", "FAILFAST"),
            "PERMISSIVE or FAILFAST",
            "PERMISSIVE",
            "a value that does not fit the columns: nulls, or an error that ends the query",
        )
    )

    @property
    def starting(self) -> Place | FromTime:
        is_latest = self.strategy == LATEST
        return self.starting_offsets if self.starting_ms is None else FromTime(self.starting_ms, is_latest)

    @property
    def ending(self) -> Place | FromTime:
        return self.ending_offsets if self.ending_ms is None else FromTime(self.ending_ms, is_latest_without=True)

    @property
    def is_msgpack(self) -> bool:
        return self.value_format == "msgpack"

    @property
    def is_failfast(self) -> bool:
        return self.mode == "FAILFAST"


LIVE_OPTIONS = (
    *QUORUM_OPTIONS,
    Option(
        "readReplicas",
        endpoints,
        "host:port,host:port,…",
        (),
        "followers or observers of kraft-trio that tasks fetch records from, to spare the leader",
        "",
    ),
    Option("subscribe", any_text, "a topic", "", "the quorum's topic, whose name is checked"),
    *options_in(LiveOptions),
)
"""The options for reading."""


_NOT_SERVED: Final = {
    "asOfOffset": (
        "a quorum serves its log, and not the state as of an offset",
        "load() of a copy of a node's directory with content=latest-by-key, or endingOffsets={text} and a query for "
        "the newest record of each key",
    ),
}
"""Options that only directories have.  Each has the reason, and what to do instead."""


def _check_served(given: Mapping[str, str]) -> None:
    """Raise ConfigError for an option of directories."""
    of_directories = {option.name.lower(): option.name for option in READ_OPTIONS}
    for name, text in given.items():
        option = of_directories.get(name.lower())
        if option is None or any(option == live.name for live in LIVE_OPTIONS):
            continue
        other = ("it says nothing of a quorum", f"load() without {BOOTSTRAP}, or a quorum without {option}")
        why, instead = _NOT_SERVED.get(option, other)
        raise ConfigError(
            f"format {SOURCE}: option {option}={shown_value(option, text)}: only for directories: {why}; expected "
            f"{instead.format(text=text)}"
        )


def read_live_options(given: Mapping[str, str]) -> LiveOptions:
    """The options of a stream or batch read.  Raises ConfigError naming option, value and expectation."""
    _check_served(given)
    values, address = read_quorum_options(LIVE_OPTIONS, given)
    named = {name: topic for name, text in given.items() if (topic := _topic_named(name, text))}
    if len(set(named.values())) > 1:
        raise ConfigError(
            f"format {SOURCE}: options {', '.join(named)}: name the topics {', '.join(named.values())}, expected one"
        )
    address = attrs.evolve(address, topic_name=next(iter(named.values()), None), replicas=values["readReplicas"])
    options = LiveOptions(address=address, **fields_of(LiveOptions, values))
    _check_content(options)
    least, most = options.min_per_trigger, options.max_per_trigger
    if least is not None and most is not None and least > most:
        raise ConfigError(
            f"format {SOURCE}: option minOffsetsPerTrigger={least}: above maxOffsetsPerTrigger={most}, expected at most"
            " that"
        )
    return options


def _check_content(options: LiveOptions) -> None:
    """Raise ConfigError for options that say nothing of the content."""
    for name, kinds, content in (("types", options.types, METADATA), ("entities", options.entities, CHANGES)):
        if kinds and options.content != content:
            raise ConfigError(
                f"format {SOURCE}: option {name}={','.join(sorted(kinds))}: says nothing of content="
                f"{options.content}; expected content={content}"
            )
    of_records = {
        "value.format": options.is_msgpack,
        "includeHeaders": options.include_headers,
        "includeControl": options.include_control,
        KAFKA_COLUMNS: options.include_kafka_columns,
    }
    for name, is_set in of_records.items():
        if is_set and options.content != RECORDS_CONTENT:
            raise ConfigError(
                f"format {SOURCE}: option {name}: says nothing of content={options.content}; expected content="
                f"{RECORDS_CONTENT}"
            )


def read_stream_options(given: Mapping[str, str]) -> LiveOptions:
    """The options of `readStream`.

    Raises ConfigError like `read_live_options`, for paths, and for options of batch queries only.
    """
    paths = [text for name, text in given.items() if name.lower() in ("path", "paths")]
    if paths:
        raise ConfigError(
            f"format {SOURCE}: load({', '.join(paths)}): a directory is no stream; expected load() and the option "
            f"{BOOTSTRAP}, for the quorum that writes it, or spark.read instead of readStream"
        )
    options = read_live_options(given)
    ends = {"endingOffsets": options.ending_offsets, "endingTimestamp": options.ending_ms}
    for name, end in ends.items():
        if end not in (None, LATEST):
            raise ConfigError(
                f"format {SOURCE}: option {name}={end}: a stream has no such end, expected none, or spark.read instead "
                "of readStream"
            )
    return options


def read_batch_options(given: Mapping[str, str]) -> LiveOptions:
    """The options of `read`.  Raises ConfigError like `read_live_options`, and for options of streams only."""
    options = read_live_options(given)
    of_triggers = {
        "minOffsetsPerTrigger": options.min_per_trigger,
        "maxOffsetsPerTrigger": options.max_per_trigger,
    }
    for name, number in of_triggers.items():
        if number is not None:
            raise ConfigError(
                f"format {SOURCE}: option {name}={number}: a batch query has no triggers, expected endingOffsets, or "
                "readStream instead of spark.read"
            )
    return options


def _topic_named(option: str, text: str) -> str | None:
    """The topic that the text of an option names."""
    if option.lower() in ("startingoffsets", "endingoffsets"):
        return topic_of(text)
    return text if option.lower() == "subscribe" else None


def read_quorum_options(table: Iterable[Option], given: Mapping[str, str]) -> tuple[dict[str, Any], QuorumAddress]:
    """The value of each option in the table, which has QUORUM_OPTIONS, and the quorum.

    Raises ConfigError like `read_options` and `security_of`, and without any nodes.
    """
    keys = client_keys(given)
    values = read_options(SOURCE, table, {name: text for name, text in given.items() if name not in keys})
    if values[BOOTSTRAP] is None:
        raise ConfigError(
            f"format {SOURCE}: option {BOOTSTRAP} is missing: expected host:port,host:port,… of nodes of a quorum; "
            f"{NOT_HANDED_OVER.replace('path', BOOTSTRAP)}"
        )
    security = security_of(SOURCE, keys)
    return values, QuorumAddress(values[BOOTSTRAP], values["requestTimeoutMs"], values["timeoutMs"], security)
