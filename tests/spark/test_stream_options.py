"""The options of a live quorum's reader."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from kraft_trio.errors import ConfigError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.spark.live.batch import make_live_reader
from kraft_trio.spark.live.options import read_live_options
from kraft_trio.spark.live.reader import make_stream_reader
from kraft_trio.spark.options import EARLIEST, LATEST, FromTime, Place

QUORUM = {"bootstrapControllers": "one:9093, [::1]:9094,one:9093"}


def test_defaults() -> None:
    options = read_live_options(QUORUM)
    assert options.address.bootstrap == (Endpoint("one", 9093), Endpoint("::1", 9094))
    assert (options.starting, options.ending) == (EARLIEST, LATEST)
    assert options.max_per_trigger is None
    assert options.fail_on_data_loss


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("Earliest", EARLIEST),
        ("latest", LATEST),
        ("17", 17),
        (" 17 ", 17),
        ('{"offset": 17}', 17),
        ('{"__cluster_metadata": {"0": 17}}', 17),
        ('{"t": {"0": -2}}', EARLIEST),
        ('{"t": {"0": -1}}', LATEST),
        ('{"offset": {"0": 17}}', 17),
    ],
)
def test_where_a_query_begins(text: str, place: Place) -> None:
    assert read_live_options({**QUORUM, "startingoffsets": text}).starting == place


@pytest.mark.parametrize(
    "text",
    [
        *("", "first", "-1", "1.5", "{}", "{", '{"offset": -3}', '{"offset": true}', '{"offset": 1, "epoch": 2}'),
        *('{"t": 1}', '{"t": {}}', '{"t": {"1": 1}}', '{"t": {"0": -3}}', '{"t": {"0": true}}', '{"t": {"0": "1"}}'),
        *('{"t": {"0": 1}, "u": {"0": 1}}', '{"t": {"0": 1, "1": 1}}', '{"offset": -1}', '{"t": [0]}'),
    ],
)
def test_what_is_no_place_to_begin_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"option startingOffsets=.*expected earliest, latest, an offset") as refused:
        read_live_options({**QUORUM, "startingOffsets": text})
    assert text in str(refused.value)


@pytest.mark.parametrize("text", ["earliest", '{"t": {"0": -2}}'])
def test_a_query_cannot_end_at_the_earliest_offset(text: str) -> None:
    with pytest.raises(ConfigError, match=r"endingOffsets=.*, expected latest, an offset"):
        read_live_options({**QUORUM, "endingOffsets": text})


def test_the_topic_that_options_name_is_expected_of_the_quorum() -> None:
    of_topic = '{"__cluster_metadata": {"0": 3}}'
    assert read_live_options(QUORUM).address.topic_name is None
    for named in ({"Subscribe": "orders"}, {"startingOffsets": '{"orders": {"0": 3}}'}):
        assert read_live_options({**QUORUM, **named}).address.topic_name == "orders"
    with pytest.raises(
        ConfigError, match="options subscribe, endingOffsets: name the topics orders, __cluster_metadata"
    ):
        read_live_options({**QUORUM, "subscribe": "orders", "endingOffsets": of_topic})


@pytest.mark.parametrize("text", ["", ",", "one", "one:0", "0.0.0.0:9093", ":9093"])
def test_what_is_no_list_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"option bootstrapControllers=.*expected host:port"):
        read_live_options({"bootstrapControllers": text})


def test_nodes_must_be_given() -> None:
    with pytest.raises(ConfigError, match="option bootstrapControllers is missing: expected host:port"):
        read_live_options({"startingOffsets": "latest"})


def test_an_unknown_option_is_named_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"option startingOffset=1: there is no such option.*startingOffsets"):
        read_live_options({**QUORUM, "startingOffset": "1"})


@pytest.mark.parametrize(
    ("option", "text", "problem"),
    [
        (
            "asofoffset",
            "6",
            "option asOfOffset=6: only for directories: a quorum serves its log, and not the state as of an offset; "
            "expected load() of a copy of a node's directory with content=latest-by-key, or endingOffsets=6 and a "
            "query for the newest record of each key",
        ),
        (
            "content",
            "snapshots",
            "option content=snapshots, expected records, metadata or changes; all else needs load() of a copy of a "
            "node's directory",
        ),
        (
            "path",
            "backups/node-1",
            "option path=backups/node-1: only for directories: it says nothing of a quorum; expected load() without "
            "bootstrapControllers, or a quorum without path",
        ),
    ],
)
def test_an_option_of_directories_tells_what_to_do_instead(option: str, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_live_options({**QUORUM, option: text})
    assert str(refused.value) == f"format kraft: {problem}"


def test_what_directories_and_quorums_have_is_an_option_of_both() -> None:
    options = read_live_options({**QUORUM, "startingOffsets": "1", "endingOffsets": "6", "mode": "FAILFAST"})
    assert (options.starting, options.ending, options.is_failfast) == (1, 6, True)


OFFSETS = StructType([StructField("offset", LongType())])


def test_a_stream_has_no_end() -> None:
    with pytest.raises(ConfigError, match="option endingOffsets=30: a stream has no such end"):
        make_stream_reader({**QUORUM, "endingoffsets": '{"offset": 30}'}, OFFSETS)
    make_stream_reader({**QUORUM, "endingOffsets": "latest", "maxOffsetsPerTrigger": "30"}, OFFSETS)


def test_times_take_the_place_of_offsets() -> None:
    options = read_live_options({**QUORUM, "startingTimestamp": "5", "endingTimestamp": "9", "startingOffsets": "3"})
    assert options.starting == FromTime(5, is_latest_without=False)
    assert options.ending == FromTime(9, is_latest_without=True)
    latest = {**QUORUM, "startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "Latest"}
    assert read_live_options(latest).starting == FromTime(5, is_latest_without=True)
    with pytest.raises(ConfigError, match="option endingTimestamp=9: a stream has no such end"):
        make_stream_reader({**QUORUM, "endingTimestamp": "9"}, OFFSETS)
    with pytest.raises(ConfigError, match="startingTimestamp=2026-01-01, expected milliseconds since 1970"):
        read_live_options({**QUORUM, "startingTimestamp": "2026-01-01"})


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("15m", 900_000), ("90S", 90_000), ("2", 2), ("3min", 180_000), ("1d", 86_400_000)]
)
def test_a_trigger_may_be_delayed(text: str, milliseconds: int) -> None:
    options = read_live_options({**QUORUM, "minOffsetsPerTrigger": "10", "maxTriggerDelay": text})
    assert (options.min_per_trigger, options.max_trigger_delay_ms) == (10, milliseconds)


def test_what_triggers_cannot_be_told() -> None:
    with pytest.raises(ConfigError, match=r"maxTriggerDelay=1 week, expected a duration"):
        read_live_options({**QUORUM, "maxTriggerDelay": "1 week"})
    with pytest.raises(ConfigError, match="minOffsetsPerTrigger=10: above maxOffsetsPerTrigger=9, expected at most"):
        read_live_options({**QUORUM, "minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "9"})
    with pytest.raises(ConfigError, match="option minOffsetsPerTrigger=30: a batch query has no triggers"):
        make_live_reader({**QUORUM, "minOffsetsPerTrigger": "30"}, OFFSETS)


def test_a_batch_query_has_no_triggers() -> None:
    with pytest.raises(ConfigError, match="option maxOffsetsPerTrigger=30: a batch query has no triggers"):
        make_live_reader({**QUORUM, "maxoffsetspertrigger": "30"}, OFFSETS)
    make_live_reader({**QUORUM, "endingOffsets": "30"}, OFFSETS)
