"""The columns of each content about metadata."""

from __future__ import annotations

from collections.abc import Iterable

from kraft_trio.metadata.entities import ENTITIES
from kraft_trio.spark.metadata.changes import CHANGE_COLUMNS
from kraft_trio.spark.metadata.state import state_columns
from kraft_trio.spark.metadata.typed_records import typed_columns
from kraft_trio.spark.schemas import CHANGES, METADATA, Column


def metadata_columns(content: str, types: Iterable[str] = ()) -> tuple[Column, ...]:
    """The columns of one of METADATA_CONTENTS; of `metadata`, only those of the named types of records, if any."""
    if content == METADATA:
        return typed_columns(types)
    return CHANGE_COLUMNS if content == CHANGES else state_columns(ENTITIES[content])
