"""`content=changes` of a live quorum where the log is trimmed while it is read, without a quorum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from kraft_trio.metadata.history import History, Origin
from kraft_trio.spark.live import change_rows
from kraft_trio.spark.live.columns import live_columns
from kraft_trio.spark.live.fetching import LogRange
from kraft_trio.spark.live.options import LiveOptions, read_live_options
from kraft_trio.spark.live.quorum import DataLossError
from kraft_trio.spark.live.row_makers import MakesRows, row_maker
from kraft_trio.spark.schemas import arrow_schema
from tests.metadata.test_history import TOPIC, changed, partition
from tests.support.metadata_histories import framed
from tests.support.metadata_logs import batch_of

VALUES = [framed(one) for one in (TOPIC, partition(), *(changed(isr=(1, 2)[: 1 + at % 2]) for at in range(18)))]
"""A topic, its partition, and 18 changes of that, at offsets 0 to 19."""


@attrs.define
class TrimmedLog:
    """What can be asked about the log; it begins at `begins`."""

    begins: int = 0
    asked: list[int] = attrs.field(factory=list)

    def image_before(self, options: LiveOptions, wanted: LogRange) -> History:
        self.asked.append(wanted.begin)
        if wanted.begin < self.begins:
            raise DataLossError(f"the log begins at {self.begins}")
        history = History()
        for offset, value in enumerate(VALUES[: wanted.begin]):
            list(history.add(Origin(offset, 1, None), value))
        return history


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> TrimmedLog:
    made = TrimmedLog()
    monkeypatch.setattr(change_rows, "image_before", made.image_before)
    change_rows._kept.clear()
    return made


def maker(**options: str) -> MakesRows:
    read = read_live_options({"bootstrapControllers": "one:1", "content": "changes", **options})
    return row_maker(read, from_arrow_schema(arrow_schema(live_columns(read))))


def read(made: MakesRows, wanted: LogRange, batches: Sequence[tuple[int, int]]) -> list[tuple[Any, ...]]:
    """The offsets, keys and operations of the range; each batch has the values from one offset to the other."""
    task = made.of_task(wanted)
    found = list(task.before())
    for first, last in batches:
        found += task.rows_of(batch_of(first, VALUES[first:last]), wanted)
    task.end()
    return [(row["offset"], row["key"], row["operation"]) for batch in found for row in batch.to_pylist()]


EXISTS = [(None, "orders", "snapshot"), (None, "orders-0", "snapshot")]


def updates(first: int, last: int) -> list[tuple[Any, ...]]:
    return [(offset, "orders-0", "update") for offset in range(first, last)]


def test_what_is_behind_a_gap_begins_with_what_exists(log: TrimmedLog) -> None:
    made = maker(failOnDataLoss="false")
    found = read(made, LogRange("c", 4, 16), [(4, 7), (11, 16)])
    assert found == [*updates(4, 7), *EXISTS, *updates(11, 16)]
    assert log.asked == [4, 11]


def test_a_range_whose_beginning_is_gone_begins_with_what_exists(log: TrimmedLog) -> None:
    log.begins = 8
    assert read(maker(failOnDataLoss="false"), LogRange("c", 4, 12), [(8, 12)]) == [*EXISTS, *updates(8, 12)]
    with pytest.raises(DataLossError, match="begins at 8"):
        maker().of_task(LogRange("c", 4, 12))


def test_what_was_before_a_gap_at_the_end_is_not_kept(log: TrimmedLog) -> None:
    made = maker(failOnDataLoss="false")
    assert read(made, LogRange("c", 4, 12), [(4, 7)]) == updates(4, 7)
    assert read(made, LogRange("c", 12, 14), [(12, 14)]) == updates(12, 14)
    assert log.asked == [4, 12]


def test_a_range_that_is_gone_tells_nothing_and_keeps_nothing(log: TrimmedLog) -> None:
    log.begins = 15
    made = maker(failOnDataLoss="false")
    assert read(made, LogRange("c", 4, 12), []) == []
    assert read(made, LogRange("c", 15, 17, begins_with_state=True), [(15, 17)]) == [*EXISTS, *updates(15, 17)]


def test_what_was_before_a_range_is_replayed_once(log: TrimmedLog) -> None:
    made = maker()
    for _ in range(2):
        assert read(made, LogRange("c", 4, 8, epoch_before=1), [(4, 8)]) == updates(4, 8)
        assert read(made, LogRange("c", 8, 12, epoch_before=1), [(6, 10), (10, 12)]) == updates(8, 12)
    assert log.asked == [4]
    read(made, LogRange("another", 4, 8, epoch_before=1), [(4, 8)])
    assert log.asked == [4, 4]
    for _ in range(2):
        # Without an id, clusters cannot be told apart.
        read(made, LogRange(None, 4, 8, epoch_before=1), [(4, 8)])
    assert log.asked == [4, 4, 4, 4]


def test_records_that_come_again_count_once(log: TrimmedLog) -> None:
    """A leader answers with the batch that holds an offset; another may have cut its batches elsewhere."""
    assert read(maker(), LogRange("c", 4, 12), [(4, 8), (6, 12)]) == updates(4, 12)


def test_what_was_before_another_log_of_the_cluster_is_not_used(log: TrimmedLog) -> None:
    """A cluster that was made anew may have its old id."""
    made = maker()
    read(made, LogRange("c", 4, 8, epoch_before=1), [(4, 8)])
    read(made, LogRange("c", 8, 12, epoch_before=2), [(8, 12)])
    read(made, LogRange("c", 8, 12), [(8, 12)])
    assert log.asked == [4, 8, 8]
