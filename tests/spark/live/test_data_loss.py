"""What was to be read is gone: an error, or on from the log's start with a warning."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Callable

import pytest

from harness.quorum import Quorum
from harness.waiting import wait_until
from kraft_trio.spark.live.fetching import LogRange
from kraft_trio.spark.live.options import read_live_options
from kraft_trio.spark.live.quorum import DataLossError
from kraft_trio.spark.live.reader import LogPartition
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.keyed_writer import KeyedWriter
from tests.acceptance.snapshot_files import log_start_of
from tests.acceptance.stateful_quorum import Sizes, common_snapshot, is_trimmed_past, make_stateful_quorum
from tests.spark.conftest import IN_PARTS
from tests.spark.live.reading import Offset, committed_rows, latest, make_reader, rows

PATIENCE = {"timeoutMs": "4000"}


def begin_anew(quorum: Quorum) -> None:
    """The only node loses its directory, and is formatted as it was, with the same cluster id."""
    node = quorum.nodes[1]
    node.kill()
    shutil.rmtree(node.directory)
    completed = quorum.format(node)
    assert completed.returncode == 0, completed.stderr
    quorum.start()


def shorter_log(quorum: Quorum) -> None:
    begin_anew(quorum)
    quorum.produce(["short"])


def other_epochs(quorum: Quorum) -> None:
    begin_anew(quorum)
    for number in range(3):
        quorum.produce([f"other {number}-{index}" for index in range(20)])
        quorum.nodes[1].kill()
        quorum.start()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        pytest.param(shorter_log, "was read up to there, and only offsets up to", marks=IN_PARTS),
        (other_epochs, r"the record before it is of epoch \d+ now, it was of epoch 1"),
    ],
)
def test_a_log_that_is_another_one(
    make_quorum: MakeQuorum, caplog: pytest.LogCaptureFixture, change: Callable[[Quorum], None], named: str
) -> None:
    quorum = make_quorum(1)
    quorum.start()
    quorum.produce([f"{index}" for index in range(30)])
    reader = make_reader(quorum, **PATIENCE)
    start = reader.initialOffset()
    end = latest(reader, start)
    change(quorum)
    quorum.leader()

    with pytest.raises(DataLossError, match=f"cluster {quorum.cluster_id}, offset {end['offset']}.*{named}"):
        latest(make_reader(quorum, **PATIENCE), end)
    with pytest.raises(DataLossError, match=r"\(failOnDataLoss=false continues at the log's start\)"):
        make_reader(quorum, **PATIENCE).partitions(start, end)

    available_now = make_reader(quorum, **PATIENCE)
    available_now.prepareForTriggerAvailableNow()
    with pytest.raises(DataLossError, match=named):
        latest(available_now, end)

    going_on = make_reader(quorum, failOnDataLoss="false", **PATIENCE)
    with caplog.at_level(logging.WARNING, "kraft_trio.spark"):
        after = latest(going_on, end)
    assert re.search(named, caplog.text)
    assert "continuing at offset 0, the log's start" in caplog.text
    assert after["losses"] == 1
    assert rows(going_on, end, after) == committed_rows(quorum.nodes[1])
    offset = quorum.produce(["and on"])
    assert rows(going_on, after, latest(going_on, after)) == [(offset, b"and on")]


def trimmed_quorum(make_quorum: MakeQuorum) -> tuple[Quorum, Offset]:
    """A node whose log begins behind what a query has read, and the position of that query."""
    quorum = make_stateful_quorum(make_quorum, Sizes.for_log_of(2_000_000), voters=1)
    quorum.start()
    writer = KeyedWriter("w", quorum.bootstrap_servers, keys=50)
    writer.write(20)
    writer.flush()
    reader = make_reader(quorum)
    position = latest(reader, reader.initialOffset())

    def trimmed() -> bool:
        writer.write(500)
        writer.flush()
        return is_trimmed_past(quorum, position["offset"])

    wait_until("the log is trimmed", trimmed)
    common_snapshot(quorum)
    # A trim may still be under way.  The node starts again without retention limits, so its log start stays.
    quorum.kill_all()
    quorum.settings["metadata.max.retention.bytes"] = "-1"
    quorum.write_properties(quorum.nodes[1])
    quorum.start()
    quorum.leader()
    return quorum, position


def test_records_that_were_trimmed(make_quorum: MakeQuorum, caplog: pytest.LogCaptureFixture) -> None:
    quorum, position = trimmed_quorum(make_quorum)
    begins = log_start_of(quorum.nodes[1])
    with pytest.raises(DataLossError, match=f"offset {position['offset']}: the log begins at {begins} now"):
        latest(make_reader(quorum), position)

    going_on = make_reader(quorum, failOnDataLoss="false")
    after = latest(going_on, position)
    assert (after["beganAt"], after["losses"]) == (begins, 1)
    assert rows(going_on, position, after) == committed_rows(quorum.nodes[1])

    first = make_reader(quorum).initialOffset()
    assert first["offset"] == begins, "earliest is where the log begins"

    options = read_live_options({"bootstrapControllers": quorum.bootstrap_servers})
    too_early = LogRange(quorum.cluster_id, position["offset"], begins + 5)
    with pytest.raises(DataLossError, match=f"offsets {position['offset']} to {begins} are gone"):
        list(going_on.read(LogPartition(options, too_early)))
    caplog.clear()
    options = read_live_options({"bootstrapControllers": quorum.bootstrap_servers, "failOnDataLoss": "false"})
    read = [row["offset"] for batch in going_on.read(LogPartition(options, too_early)) for row in batch.to_pylist()]
    assert read == [offset for offset, _ in committed_rows(quorum.nodes[1]) if offset < begins + 5]
    assert f"offsets {position['offset']} to {begins} are gone" in caplog.text
