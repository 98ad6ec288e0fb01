"""`content=quorum-state` and `content=epochs`: the contents of a replica's small files."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from kraft_trio.errors import StorageError
from kraft_trio.protocol.types import NO_DIRECTORY_ID, directory_id_to_text
from kraft_trio.spark.decoding.rows import Rows
from kraft_trio.storage.directory.quorum_state import decode_quorum_state
from kraft_trio.storage.segments.leader_epoch_checkpoint import decode_leader_epochs


def quorum_state_row(path: str, data: bytes, rows: Rows) -> pa.RecordBatch:
    """The row of a file `quorum-state`; for a damaged file, only the problem."""
    line, _, second_line = data.partition(b"\n")
    try:
        state = decode_quorum_state(path, data)
    except StorageError as error:
        return rows.one(error=str(error))
    values: dict[str, Any] = {
        "leader_id": state.leader_id,
        "leader_epoch": state.epoch,
        "data_version": json.loads(line)["data_version"],
        "crc_ok": True if second_line else None,
    }
    if state.voted_key is not None:
        id = state.voted_key.directory_id
        values["voted_id"] = state.voted_key.id
        values["voted_directory_id"] = None if id == NO_DIRECTORY_ID else directory_id_to_text(id)
    return rows.one(**values)


def epoch_rows(path: str, data: bytes, rows: Rows) -> pa.RecordBatch:
    """The rows of a file `leader-epoch-checkpoint`; for a damaged file, only the problem."""
    try:
        entries = decode_leader_epochs(path, data)
    except StorageError as error:
        return rows.one(error=str(error))
    return rows.some([{"epoch": epoch, "start_offset": offset} for epoch, offset in entries])
