"""`content=topics`, `partitions`, `brokers` and so on: what existed at a moment, by a replica's metadata."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from kraft_trio.metadata.columns import Column as ThingColumn
from kraft_trio.metadata.entities import ENTITIES, TOPIC, Entity
from kraft_trio.metadata.image import Image
from kraft_trio.spark.decoding.rows import Rows
from kraft_trio.spark.directories.as_of import AsOf
from kraft_trio.spark.directories.reading import ROWS_A_BATCH
from kraft_trio.spark.directories.replicas import Replica
from kraft_trio.spark.metadata.arrow import arrow_type, column_array
from kraft_trio.spark.metadata.replaying import Replaying
from kraft_trio.spark.schemas import ERROR, REPLICA, Column

END_OFFSET = Column("end_offset", pa.int64(), "end of the records that make up the state (exclusive)")


def state_columns(entity: Entity) -> tuple[Column, ...]:
    """The columns of one kind of thing."""
    own = (Column(name, arrow_type(type), f"of the {entity.name}") for name, type in entity.types)
    return (*REPLICA, END_OFFSET, *own, ERROR)


def state_rows(replica: Replica, entity: str, as_of: AsOf, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """What is wrong with the replica, and then what existed.  `schema` has any of `state_columns`."""
    replaying = Replaying(replica, as_of, entities=(entity,))
    problems = replaying.run()
    constants = {**replica.columns, END_OFFSET.name: replaying.end}
    rows = Rows(schema, constants)
    if replica.error is not None and not replica.partition:
        yield rows.one(error=replica.error)
    for problem in problems:
        yield rows.one(error=problem.reason)
    yield from image_rows(replaying.history.image, ENTITIES[entity], rows)


def image_rows(image: Image, entity: Entity, rows: Rows) -> Iterator[pa.RecordBatch]:
    """A row for each thing in the image."""
    things = list(image.things(entity.name))
    for start in range(0, len(things), ROWS_A_BATCH):
        some = things[start : start + ROWS_A_BATCH]
        made = {column.name: partial(_array, column, some) for column in entity.columns}
        if entity.has_topic:
            made[TOPIC] = partial(_topics, image, some)
        yield rows.make(len(some), made)


def _array(column: ThingColumn, things: Sequence[Any]) -> pa.Array:
    return column_array([column.of(thing) for thing in things], column.type)


def _topics(image: Image, things: Sequence[Any]) -> pa.Array:
    return pa.array([image.topic_name(thing.topic_id) for thing in things], pa.string())
