"""A snapshot and the stream from its end on: together the state of the application, however much of the log is gone."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql.pandas.types import from_arrow_schema

from harness.waiting import wait_until
from kraft_trio.spark.directories.partitions import DirectoryReader
from kraft_trio.spark.schemas import CONTENTS, arrow_schema
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.keyed_writer import KeyedWriter
from tests.acceptance.stateful_quorum import Sizes, is_trimmed_past, make_stateful_quorum
from tests.acceptance.tallied_values import TALLY_KEY
from tests.spark.live.reading import batches, command, latest, make_reader

CONTENT = "snapshot-records"


def test_nothing_is_missed_and_nothing_read_twice(make_quorum: MakeQuorum, tmp_path: Path) -> None:
    quorum = make_stateful_quorum(make_quorum, Sizes.for_log_of(2_000_000), voters=1)
    quorum.start()
    writer = KeyedWriter("w", quorum.bootstrap_servers, keys=300)

    def trimmed() -> bool:
        writer.write(500)
        writer.flush()
        return is_trimmed_past(quorum, 500)

    wait_until("the log is trimmed", trimmed)
    backups = tmp_path / "backups"
    backups.mkdir()
    command("snapshot", "save", "--bootstrap-controller", quorum.bootstrap_servers, str(backups))
    writer.write(100)
    writer.flush()

    snapshot = DirectoryReader(
        {"path": str(backups), "content": CONTENT}, from_arrow_schema(arrow_schema(CONTENTS[CONTENT]))
    )
    rows = [
        row
        for partition in snapshot.partitions()
        for batch in snapshot.read(partition)
        for row in batch.to_pylist()
        if not row["control"]
    ]
    [ends_at] = {row["snapshot_end_offset"] for row in rows}
    state = {row["key"]: row["value"] for row in rows if row["key"] != TALLY_KEY}

    stream = make_reader(quorum, startingOffsets=str(ends_at))
    start = stream.initialOffset()
    followed = [row for batch in batches(stream, start, latest(stream, start)) for row in batch.to_pylist()]
    assert len(followed) >= 100
    state.update((row["key"], row["value"]) for row in followed)
    assert state == writer.latest_values()
    assert [row["offset"] for row in followed] == [offset for offset in writer.offsets if offset >= ends_at]
