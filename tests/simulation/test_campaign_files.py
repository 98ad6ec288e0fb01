"""What a campaign keeps: every outcome as it was, traces of what failed, and where a second run continues."""

from __future__ import annotations

import json
import re
from pathlib import Path

import attrs
import pytest

pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra `spark`")

from kraft_trio.errors import ConfigError, StorageError  # noqa: E402
from kraft_trio.simulation.campaign.outcome import Outcome  # noqa: E402
from kraft_trio.simulation.campaign.seed_run import SeedRuns  # noqa: E402
from kraft_trio.simulation.faults.nemesis import PlanOptions  # noqa: E402
from kraft_trio.spark.campaigns.files import COLUMNS, CampaignDirectory  # noqa: E402
from kraft_trio.spark.campaigns.task import ChunkTask  # noqa: E402
from kraft_trio.tracing.files import open_trace  # noqa: E402
from tests.simulation.bad_runs import LOOPS, RAISES, VIOLATES, BadRuns  # noqa: E402

SETTINGS = {"format": "kraft-trio campaign", "time": "4s", "nodes": 3}


@pytest.fixture
def directory(tmp_path: Path) -> CampaignDirectory:
    directory = CampaignDirectory(tmp_path / "out")
    directory.begin(SETTINGS)
    return directory


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir())


def test_outcomes_are_read_as_they_were(directory: CampaignDirectory) -> None:
    chunk = (1, RAISES, 4, LOOPS, VIOLATES)
    outcomes = ChunkTask(BadRuns(), directory)(chunk, 0)
    assert names(directory.path / "results") == ["seeds-00000001.parquet"]
    read = directory.outcomes(range(100))
    assert [read[seed] for seed in chunk] == [
        attrs.evolve(o, transitions=dict(o.transitions), counts=dict(o.counts)) for o in outcomes
    ]
    assert directory.outcomes([4, 50]).keys() == {4}
    table = pq.read_table(directory.path / "results")
    assert table.column_names == [column.name for column in COLUMNS]
    assert table["replay"].to_pylist() == [f"replay {seed}" for seed in chunk]
    assert table["repeats"].to_pylist() == [None, None, None, None, True]


def test_only_what_can_be_repeated_has_a_trace(directory: CampaignDirectory) -> None:
    ChunkTask(BadRuns(), directory)((1, RAISES, LOOPS, VIOLATES), 0)
    assert names(directory.path / "traces") == [f"seed-{VIOLATES:08d}.parquet"]


@pytest.mark.usefixtures("acknowledges_at_once")
def test_the_trace_of_a_seed_that_fails_has_every_event(directory: CampaignDirectory, tmp_path: Path) -> None:
    runs = SeedRuns(PlanOptions(voters=3, observers=0, duration_us=2_000_000, profiles=()))
    [outcome] = ChunkTask(runs, directory)((3,), 0)
    assert outcome.failure is not None
    rows = pq.read_table(directory.path / "traces" / "seed-00000003.parquet").to_pylist()
    runs.run_traced(3, str(tmp_path / "trace"))
    with open_trace(tmp_path / "trace") as (_, events):
        assert [(e.sequence, e.time_us, e.node, e.kind) for e in events] == [
            (row["sequence"], row["time_us"], row["node"], row["kind"]) for row in rows
        ]
    assert rows[-1]["kind"] in {"violation", "end"}
    assert {(row["run"], row["seed"], row["error"]) for row in rows} == {("seed 3", 3, None)}
    assert pq.read_table(directory.path / "results")["repeats"].to_pylist() == [True]


@attrs.frozen
class OtherEveryTime(BadRuns):
    """A run that is another one when it is run again."""

    def run_traced(self, seed: int, path: str) -> Outcome:
        return attrs.evolve(super().run_traced(seed, path), digest="another")


def test_a_run_that_does_not_repeat_is_told(directory: CampaignDirectory) -> None:
    ChunkTask(OtherEveryTime(), directory)((VIOLATES,), 0)
    assert pq.read_table(directory.path / "results")["repeats"].to_pylist() == [False]


def test_nothing_is_named_before_it_is_whole(directory: CampaignDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kraft_trio.spark.campaigns.files.pq.write_table", fails)
    with pytest.raises(OSError, match="No space left"):
        ChunkTask(BadRuns(), directory)((1, 2), 0)
    assert names(directory.path / "results") == []
    (directory.path / "results" / ".seeds-00000001.parquet.host.1.unfinished").write_bytes(b"half")
    assert directory.outcomes(range(10)) == {}


class TestTheDirectory:
    def test_another_campaign_is_refused_by_what_differs(self, directory: CampaignDirectory) -> None:
        directory.begin(SETTINGS)
        with pytest.raises(ConfigError, match=re.escape("time: 60s; expected 4s, as the campaign there has it")):
            directory.begin({**SETTINGS, "time": "60s"})
        assert json.loads((directory.path / "campaign.json").read_text()) == SETTINGS

    def test_somebody_elses_directory_is_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "photos").write_text("x")
        with pytest.raises(ConfigError, match=r"not empty, and without campaign\.json"):
            CampaignDirectory(tmp_path).begin(SETTINGS)
        assert names(tmp_path) == ["photos"]

    def test_a_description_that_is_none(self, directory: CampaignDirectory) -> None:
        for text in ("{", "[]", "3"):
            (directory.path / "campaign.json").write_text(text)
            with pytest.raises(ConfigError, match=r"campaign\.json: .*; expected that of a campaign"):
                directory.begin(SETTINGS)

    def test_results_that_are_damaged(self, directory: CampaignDirectory) -> None:
        path = directory.path / "results" / "seeds-00000001.parquet"
        path.write_bytes(b"PAR1")
        with pytest.raises(StorageError, match=f"{path}: .*; expected results of a campaign"):
            directory.outcomes(range(10))

    def test_results_that_went_elsewhere(self, directory: CampaignDirectory) -> None:
        ChunkTask(BadRuns(), directory)((1, 2), 0)
        directory.check_is_shared([1, 2])
        with pytest.raises(StorageError, match="no result of seed 3, of 2 seeds in all, which have run"):
            directory.check_is_shared([1, 2, 3, 4])
