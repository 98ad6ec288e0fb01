"""The options of `write.format("kraft")` and `writeStream.format("kraft")`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from kraft_trio.spark.options import Option, choice, read_options, whole_number
from kraft_trio.spark.stream_options import QUORUM_OPTIONS, SOURCE, quorum_address
from kraft_trio.spark.stream_quorum import QuorumAddress

_SMALLEST_BATCH_BYTES: Final = 1024

WRITE_OPTIONS = (
    *QUORUM_OPTIONS,
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
)


@attrs.frozen
class WriteOptions:
    """The parsed options of a writer.  Can be pickled."""

    address: QuorumAddress
    is_msgpack: bool
    max_batch_bytes: int


def read_write_options(given: Mapping[str, str]) -> WriteOptions:
    """Raises ConfigError naming option, value and expectation."""
    # Spark's own options, for a source that writes to a path.
    wanted = {name: text for name, text in given.items() if name.lower() not in _OF_SPARK}
    values = read_options(SOURCE, WRITE_OPTIONS, wanted)
    return WriteOptions(quorum_address(values), values["value.format"] == "msgpack", values["maxBatchBytes"])


_OF_SPARK: Final = frozenset({"checkpointlocation", "path"})
