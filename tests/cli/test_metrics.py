"""`kraft metrics`: prints a node's file, and says so if the file is missing or old."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kraft_trio.cli import metrics, run
from kraft_trio.metrics.definitions import METRICS

KEYS = """
node.id=7
process.roles=controller
listeners=CONTROLLER://127.0.0.1:9093
controller.quorum.bootstrap.servers=127.0.0.1:9093
"""
FILE = """\
# HELP kafka_server_raftmetrics_current_state leader or not
# TYPE kafka_server_raftmetrics_current_state gauge
kafka_server_raftmetrics_current_state{{current_state="follower",node_id="7"}} 1.0
kafka_server_raftmetrics_current_leader{{node_id="7"}} 3.0
kafka_server_raftmetrics_high_watermark{{node_id="7"}} 9.007199254740993e+15
kafka_server_raftmetrics_fetch_records_rate{{node_id="7"}} 12.34567
kafka_controller_kafkacontroller_isobserver{{node_id="7"}} 0.0
bank_accounts{{branch="north"}} 12.0
kraft_metrics_collected_timestamp_seconds{{node_id="7"}} {collected}
"""


NOW_S = 1_700_000_000.0


class Place:
    def __init__(self, root: Path) -> None:
        self.file = root / "metrics.prom"
        self.config = root / "node.properties"
        self.config.write_text(f"{KEYS}metadata.log.dir={root}\n")

    def write(self, *, age_s: float) -> str:
        text = FILE.format(collected=repr(NOW_S - age_s))
        self.file.write_text(text)
        return text

    def run(self, *options: str) -> int:
        return run(["metrics", "-c", str(self.config), *options])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(metrics.time, "time", lambda: NOW_S)
    return Place(tmp_path)


def test_the_table_has_every_metric_and_says_how_old_they_are(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.write(age_s=1.0)
    assert place.run() == 0
    first, empty, *lines = capsys.readouterr().out.splitlines()
    assert first == "Node 7, 1.0 s ago"
    assert empty == ""
    table = {line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1] for line in lines}
    assert list(table) == list(dict.fromkeys(metric.name for metric in METRICS if metric.role != "broker"))
    assert table["current-state"] == "follower"
    assert table["current-leader"] == "3"
    assert table["high-watermark"] == "9007199254740992"
    assert table["fetch-records-rate"] == "12.346 per second"
    assert table["commit-latency-max"] == "-"


def test_prometheus_prints_the_file_as_it_is(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    text = place.write(age_s=0.0)
    assert place.run("--prometheus") == 0
    captured = capsys.readouterr()
    assert captured.out == text
    assert captured.err.startswith("kraft: collected ")


def test_json_is_one_value(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.write(age_s=2.0)
    assert place.run("--json") == 0
    value = json.loads(capsys.readouterr().out)
    assert value.pop("ageSeconds") == 2.0
    assert value == {
        "nodeId": 7,
        "metrics": {
            "current-state": "follower",
            "current-leader": 3,
            "high-watermark": 9007199254740992,
            "fetch-records-rate": 12.34567,
            "is-observer": 0,
        },
    }


@pytest.mark.parametrize("option", ["--prometheus", "--json"])
def test_old_metrics_are_printed_and_said_to_be_old(
    option: str, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.write(age_s=73.0)
    assert place.run(option) == 1
    captured = capsys.readouterr()
    assert "follower" in captured.out
    assert f"kraft: error: {place.file}: 73 s old: the node is not running, or hangs" in captured.err


def test_how_old_is_old_depends_on_how_often_they_are_written(place: Place) -> None:
    place.write(age_s=20.0)
    assert place.run() == 1
    assert place.run("--override", "kraft.metrics.interval.ms=10000") == 0


def test_without_a_file_it_says_why(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.run() == 1
    assert capsys.readouterr().err == f"kraft: error: {place.file}: there is no such file: the node is not running\n"
    assert place.run("--override", "kraft.metrics.interval.ms=0") == 1
    assert capsys.readouterr().err.endswith("there is no such file: kraft.metrics.interval.ms is 0\n")


def test_a_file_that_no_node_has_written_is_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.file.write_text("hello\n")
    assert place.run() == 1
    assert f"kraft: error: {place.file}: not the metrics of a node" in capsys.readouterr().err


def test_two_layouts_at_once_make_no_sense(place: Place) -> None:
    assert place.run("--json", "--prometheus") == 2
