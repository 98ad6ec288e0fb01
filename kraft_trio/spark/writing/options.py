"""The options of `write.format("kraft")` and `writeStream.format("kraft")`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from kraft_trio.errors import ConfigError
from kraft_trio.spark.live.options import QUORUM_OPTIONS, SOURCE, read_quorum_options
from kraft_trio.spark.live.quorum import QuorumAddress
from kraft_trio.spark.options import Option, any_text, boolean, choice, whole_number
from kraft_trio.spark.writing.identity import Write

_SMALLEST_BATCH_BYTES: Final = 1024

WRITE_OPTIONS = (
    *QUORUM_OPTIONS,
    Option("topic", any_text, "a topic", "", "the quorum's topic, whose name is checked"),
    Option(
        "value.format",
        choice("raw", "msgpack"),
        "raw or msgpack",
        "raw",
        "msgpack: all columns except `key` form the value, as a map by name",
    ),
    Option(
        "maxBatchBytes",
        whole_number(_SMALLEST_BATCH_BYTES),
        f"bytes, {_SMALLEST_BATCH_BYTES} or more",
        1048588,
        "maximum size of a batch; at most the quorum's `message.max.bytes`",
    ),
    Option(
        "exactlyOnce",
        boolean,
        "true or false",
        True,
        "false: a repeated attempt appends its rows again, also if they are other rows",
    ),
    Option(
        "sortRows",
        boolean,
        "true or false",
        False,
        "sorts a partition's rows by key and value, in memory: for queries whose order of rows changes when repeated",
    ),
    Option(
        "txnAppId",
        any_text,
        "a text",
        "",
        "batch writes: a name; with `txnVersion`, a repeated `save` appends nothing twice",
    ),
    Option(
        "txnVersion",
        whole_number(),
        "a whole number",
        None,
        "batch writes: number of the write among those of `txnAppId`; may only rise",
        "",
    ),
    Option(
        "offsetsPath",
        any_text,
        "a path or a URL",
        "",
        "a directory in which the driver tells the offsets of each write, in a JSON file",
    ),
)


@attrs.frozen
class WriteOptions:
    """The parsed options of a writer.  Can be pickled."""

    address: QuorumAddress
    is_msgpack: bool
    max_batch_bytes: int
    is_exactly_once: bool = True
    sorts_rows: bool = False
    named_write: Write | None = None
    """What the user called a batch write."""
    offsets_path: str = ""


def read_write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options of a batch write.  Raises ConfigError naming option, value and expectation."""
    # Spark's own options, for a source that writes to a path.
    wanted = {name: text for name, text in given.items() if name.lower() not in _OF_SPARK}
    values, address = read_quorum_options(WRITE_OPTIONS, wanted)
    name, version, is_exactly_once = values["txnAppId"], values["txnVersion"], values["exactlyOnce"]
    if bool(name) != (version is not None):
        given_one = f"txnVersion={version}" if version is not None else f"txnAppId={name}"
        raise ConfigError(f"format {SOURCE}: option {given_one} alone, expected txnAppId and txnVersion, or neither")
    if name and not is_exactly_once:
        raise ConfigError(f"format {SOURCE}: option txnAppId={name}, expected none with exactlyOnce=false")
    return WriteOptions(
        attrs.evolve(address, topic_name=values["topic"] or None),
        values["value.format"] == "msgpack",
        values["maxBatchBytes"],
        is_exactly_once,
        values["sortRows"],
        Write(name, version) if name else None,
        values["offsetsPath"],
    )


def read_stream_write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options of a streaming query.  Raises ConfigError naming option, value and expectation."""
    read = read_write_options(given)
    if read.named_write is not None:
        raise ConfigError(
            f"format {SOURCE}: option txnAppId={read.named_write.application}, expected none for a stream: its "
            "checkpoint has the query's id, and Spark numbers its micro-batches"
        )
    return read


_OF_SPARK: Final = frozenset({"checkpointlocation", "path"})
