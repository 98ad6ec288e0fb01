"""The options of `write.format("kraft")` and `writeStream.format("kraft")`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from kraft_trio.errors import ConfigError
from kraft_trio.spark.live.options import QUORUM_OPTIONS, SOURCE, read_quorum_options
from kraft_trio.spark.live.quorum import QuorumAddress
from kraft_trio.spark.options import Option, any_text, choice, field, fields_of, flag, options_in, whole_number
from kraft_trio.spark.writing.identity import Write

_SMALLEST_BATCH_BYTES: Final = 1024


@attrs.frozen(kw_only=True)
class WriteOptions:
    """The parsed options of a writer.  Can be pickled."""

    address: QuorumAddress
    named_write: Write | None
    """What the user called a batch write."""
    value_format: str = field(
        Option(
            "value.format",
            choice("raw", "msgpack"),
            "raw or msgpack",
            "raw",
            "msgpack: all columns except `key` form the value, as a map by name",
        )
    )
    max_batch_bytes: int = field(
        Option(
            "maxBatchBytes",
            whole_number(_SMALLEST_BATCH_BYTES),
            f"bytes, {_SMALLEST_BATCH_BYTES} or more",
            1048588,
            "maximum size of a batch; at most the quorum's `message.max.bytes`",
        )
    )
    is_exactly_once: bool = field(
        flag(
            "exactlyOnce", "false: a repeated attempt appends its rows again, also if they are other rows", default=True
        )
    )
    sorts_rows: bool = field(
        flag(
            "sortRows",
            "sorts a partition's rows by key and value, in memory: for queries whose order of rows changes when "
            "repeated",
        )
    )
    offsets_path: str = field(
        Option(
            "offsetsPath",
            any_text,
            "a path or a URL",
            "",
            "a directory in which the driver tells the offsets of each write, in a JSON file",
        )
    )

    @property
    def is_msgpack(self) -> bool:
        return self.value_format == "msgpack"


WRITE_OPTIONS = (
    *QUORUM_OPTIONS,
    Option("topic", any_text, "a topic", "", "the quorum's topic, whose name is checked"),
    *options_in(WriteOptions),
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
)


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
        address=attrs.evolve(address, topic_name=values["topic"] or None),
        named_write=Write(name, version) if name else None,
        **fields_of(WriteOptions, values),
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
