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
    boolean,
    choice,
    duration_ms,
    place,
    read_options,
    shown_value,
    topic_of,
    whole_number,
)
from kraft_trio.spark.table_properties import NOT_HANDED_OVER

SOURCE: Final = "kraft"
BOOTSTRAP: Final = "bootstrapControllers"


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
    Option("requestTimeoutMs", whole_number(1), "milliseconds, 1 or more", 2000, "time limit for a node's answer"),
    Option(
        "timeoutMs",
        whole_number(1),
        "milliseconds, 1 or more",
        60_000,
        "time limit for finding a leader, records or a commit",
    ),
)
"""The options for every use of a live quorum."""

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
    Option(
        "startingOffsets",
        place(EARLIEST, LATEST),
        f"earliest, latest, {OFFSET}",
        EARLIEST,
        "where a new query begins, inclusive; a checkpoint takes precedence",
    ),
    Option(
        "endingOffsets",
        place(LATEST),
        f"latest, {OFFSET}",
        LATEST,
        "where a batch query ends, exclusive; latest is the high watermark",
    ),
    Option(
        "startingTimestamp",
        whole_number(),
        "milliseconds since 1970",
        None,
        "where a new query begins: at the first record of that time or a later one, instead of `startingOffsets`",
        "",
    ),
    Option(
        "endingTimestamp",
        whole_number(),
        "milliseconds since 1970",
        None,
        "where a batch query ends: before the first record of that time or a later one, instead of `endingOffsets`",
        "",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        choice("error", "latest"),
        "error or latest",
        "error",
        "without a record at or after `startingTimestamp`: an error, or the committed end",
    ),
    Option(
        "minOffsetsPerTrigger",
        whole_number(1),
        "a number of offsets, 1 or more",
        None,
        "minimum offsets per micro-batch, until `maxTriggerDelay` is over; AvailableNow has no minimum",
        "",
    ),
    Option(
        "maxTriggerDelay",
        duration_ms,
        "a duration such as 90s or 15m",
        15 * 60_000,
        "how long records may wait for `minOffsetsPerTrigger` since the last micro-batch with records",
        "15m",
    ),
    Option(
        "maxOffsetsPerTrigger",
        whole_number(1),
        "a number of offsets, 1 or more",
        None,
        "maximum offsets per micro-batch; by default all committed ones",
        "",
    ),
    Option(
        "maxOffsetsPerPartition",
        whole_number(1),
        "a number of offsets, 1 or more",
        100_000,
        "maximum offsets per task",
    ),
    Option(
        "minPartitions",
        whole_number(1),
        "a number of partitions, 1 or more",
        1,
        "minimum tasks per micro-batch with that many offsets",
    ),
    Option(
        "failOnDataLoss",
        boolean,
        "true or false",
        True,
        "if records are lost before they are read: true ends the query, false warns and continues at the log's start",
    ),
    Option("includeHeaders", boolean, "true or false", False, "adds the column `headers`"),
    Option(KAFKA_COLUMNS, boolean, "true or false", False, KAFKA_COLUMNS_MEANING),
    Option("includeRetries", boolean, "true or false", False, "adds the column `retries`"),
    Option("includeControl", boolean, "true or false", False, "includes control records"),
    Option(
        "value.format",
        choice("raw", "msgpack"),
        "raw or msgpack",
        "raw",
        "msgpack: other columns of the given schema come from the values",
    ),
    Option(
        "mode",
        choice("PERMISSIVE", "FAILFAST"),
        "PERMISSIVE or FAILFAST",
        "PERMISSIVE",
        "a value that does not fit the columns: nulls, or an error that ends the query",
    ),
)
"""The options for reading."""


@attrs.frozen
class LiveOptions:
    """The parsed options of a reader.  Can be pickled."""

    address: QuorumAddress
    starting: Place | FromTime
    ending: Place | FromTime
    min_per_trigger: int | None
    max_trigger_delay_ms: int
    max_per_trigger: int | None
    max_per_partition: int
    min_partitions: int
    fail_on_data_loss: bool
    include_headers: bool
    include_kafka_columns: bool
    include_retries: bool
    include_control: bool
    is_msgpack: bool
    is_failfast: bool


_NOT_SERVED: Final = {
    "asOfOffset": (
        "a quorum serves its log, and not the state as of an offset",
        "load() of a copy of a node's directory with content=latest-by-key, or endingOffsets={text} and a query for "
        "the newest record of each key",
    ),
    "content": ("a quorum serves committed records", "load() of a copy of a node's directory"),
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
    starting_ms, ending_ms = values["startingTimestamp"], values["endingTimestamp"]
    is_latest = values["startingOffsetsByTimestampStrategy"] == "latest"
    least, most = values["minOffsetsPerTrigger"], values["maxOffsetsPerTrigger"]
    if least is not None and most is not None and least > most:
        raise ConfigError(
            f"format {SOURCE}: option minOffsetsPerTrigger={least}: above maxOffsetsPerTrigger={most}, expected at most"
            " that"
        )
    return LiveOptions(
        address=attrs.evolve(address, topic_name=next(iter(named.values()), None), replicas=values["readReplicas"]),
        starting=values["startingOffsets"] if starting_ms is None else FromTime(starting_ms, is_latest),
        ending=values["endingOffsets"] if ending_ms is None else FromTime(ending_ms, is_latest_without=True),
        min_per_trigger=least,
        max_trigger_delay_ms=values["maxTriggerDelay"],
        max_per_trigger=most,
        max_per_partition=values["maxOffsetsPerPartition"],
        min_partitions=values["minPartitions"],
        fail_on_data_loss=values["failOnDataLoss"],
        include_headers=values["includeHeaders"],
        include_kafka_columns=values[KAFKA_COLUMNS],
        include_retries=values["includeRetries"],
        include_control=values["includeControl"],
        is_msgpack=values["value.format"] == "msgpack",
        is_failfast=values["mode"] == "FAILFAST",
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
    if options.ending != LATEST:
        ending = f"endingOffsets={options.ending}"
        if isinstance(options.ending, FromTime):
            ending = f"endingTimestamp={options.ending.timestamp_ms}"
        raise ConfigError(
            f"format {SOURCE}: option {ending}: a stream has no such end, expected latest, or spark.read instead of "
            "readStream"
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
