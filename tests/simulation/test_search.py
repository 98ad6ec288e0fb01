"""A search of seeds: its mixes of faults, the order of its seeds, and the file that it continues from."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from kraft_trio.errors import ConfigError
from kraft_trio.simulation.campaign.coverage_page import lines, page
from kraft_trio.simulation.campaign.outcome import Failure, Outcome
from kraft_trio.simulation.campaign.reached import REACHABLE
from kraft_trio.simulation.campaign.search import Search
from kraft_trio.simulation.campaign.state_file import FILE, Ended, StateFile
from kraft_trio.simulation.campaign.strata import StratifiedRuns, name_of, strata_of
from kraft_trio.simulation.faults.nemesis import PROFILES, PlanOptions, make_plan

OPTIONS = PlanOptions(profiles=("disk", "membership"), duration_us=5_000_000)
NAMES = ["none", "none with a witness", "disk", "disk with a witness", "membership", "disk,membership"]


def ended(seed: int, *reached: int, failure: Failure | None = None) -> Ended:
    return Ended(seed, 60.0, 2.0, f"digest-{seed}", reached, failure)


def outcome(seed: int, *reached: int) -> Outcome:
    return Outcome(seed, None, 60.0, 2.0, f"digest-{seed}", reached=frozenset(REACHABLE[number] for number in reached))


# Mixes


def test_every_mix_of_faults_is_a_stratum() -> None:
    assert [name_of(stratum) for stratum in strata_of(OPTIONS)] == NAMES
    everything = strata_of(PlanOptions())
    assert len(everything) == 2 ** len(PROFILES) + 2 ** (len(PROFILES) - 1) + 1
    assert len(set(everything)) == len(everything)
    assert everything[-1].clique


@pytest.mark.parametrize(("voters", "left_out"), [(2, {"witness", "clique"}), (3, set()), (7, {"clique"})])
def test_what_the_number_of_voters_excludes_is_no_stratum(voters: int, left_out: set[str]) -> None:
    strata = strata_of(PlanOptions(voters=voters))
    assert {"witness"} - left_out == {"witness" for one in strata if one.witness}
    assert {"clique"} - left_out == {"clique" for one in strata if one.clique}
    assert all(len(make_plan(1, one).header.voters) == voters for one in (strata[0], strata[-1]))


def test_neighbours_are_in_different_mixes_and_say_so_in_their_command() -> None:
    runs = StratifiedRuns(strata_of(OPTIONS))
    assert [runs.replay(seed) for seed in (12, 15)] == [
        "kraft simulate --seed 12 --time 5s --faults none",
        "kraft simulate --seed 15 --time 5s --faults disk --witness",
    ]


# Order


def test_the_mixes_take_turns_at_first() -> None:
    search = Search(StratifiedRuns(strata_of(OPTIONS)))
    assert search.next_seeds(range(100, 1000), 6) == [102, 103, 104, 105, 100, 101]


def test_what_has_ended_does_not_run_again() -> None:
    search = Search(StratifiedRuns(strata_of(OPTIONS)), [ended(seed) for seed in range(8)])
    assert sorted(search.next_seeds(range(10), 6)) == [8, 9]
    search.add(ended(8))
    search.add(ended(9))
    search.add(ended(9))
    assert search.next_seeds(range(10), 6) == []
    assert search.virtual_s == 600.0


def test_mixes_that_reach_what_is_rare_get_more_seeds() -> None:
    """Stratum 2 alone reaches what the others do not."""
    known = [ended(seed, 0, 1, *([2] if seed % len(NAMES) == 2 else [])) for seed in range(60)]
    search = Search(StratifiedRuns(strata_of(OPTIONS)), known)
    chosen = search.next_seeds(range(1000), 120)
    assert chosen == search.next_seeds(range(1000), 120)
    assert len(set(chosen)) == 120
    of_strata = [sum(seed % len(NAMES) == number for seed in chosen) for number in range(len(NAMES))]
    assert min(of_strata) >= 10
    assert of_strata[2] == max(of_strata) > 25


# File


def test_a_search_continues_from_its_file(tmp_path: Path) -> None:
    failure = Failure("invariant 5", "logs match", 1.5, ("a", "b"))
    with StateFile.opened(tmp_path / "state") as file:
        assert file.read() == []
        assert file.options is None
        file.begin(OPTIONS, range(3, 5))
        file.choose(range(3, 9))
        file.add(outcome(3, 1, 5))
        file.add(attrs.evolve(outcome(4), failure=failure))
    with StateFile.opened(tmp_path / "state") as file:
        assert file.read() == [ended(3, 1, 5), ended(4, failure=failure)]
        assert file.options == OPTIONS
        assert file.seeds == range(3, 9)


@pytest.mark.parametrize("cut", [1, 40, 130])
def test_a_line_that_was_cut_short_is_gone(tmp_path: Path, cut: int) -> None:
    with StateFile.opened(tmp_path) as file:
        file.begin(OPTIONS, range(9))
        file.add(outcome(3))
        file.add(outcome(4))
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:-cut])
    left = [3] if cut < 100 else []
    with StateFile.opened(tmp_path) as file:
        assert [one.seed for one in file.read()] == left
        file.add(outcome(5))
    with StateFile.opened(tmp_path) as file:
        assert [one.seed for one in file.read()] == [*left, 5]


def test_one_process_at_a_time_has_the_file(tmp_path: Path) -> None:
    with StateFile.opened(tmp_path):
        with pytest.raises(ConfigError, match="another process runs seeds of it"), StateFile.opened(tmp_path):
            pass
    with StateFile.opened(tmp_path):
        pass


def test_a_state_of_other_plans_is_refused(tmp_path: Path) -> None:
    with StateFile.opened(tmp_path) as file:
        file.begin(OPTIONS, range(9))
    path = tmp_path / FILE
    header = json.loads(path.read_text())
    path.write_text(json.dumps({**header, "plans": "0" * 32}) + "\n")
    with StateFile.opened(tmp_path) as file, pytest.raises(ConfigError, match="a version whose seeds have other plans"):
        file.read()


@pytest.mark.parametrize("text", ["x\n", "[]\n", '{"format":"other"}\n', "7\n"])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with (
        StateFile.opened(tmp_path) as file,
        pytest.raises(ConfigError, match=r"line 1: .*; expected the first line of a campaign"),
    ):
        file.read()
    assert (tmp_path / FILE).read_text() == text


# Report


def test_the_report_names_what_was_reached_and_what_failed() -> None:
    failures = [Failure("invariant 5", "logs <match>", 1.5, ()), Failure("invariant 2", "epochs", 1.5, ())]
    search = Search(StratifiedRuns(strata_of(OPTIONS)), [ended(0, 0), ended(1, 0, failure=failures[0])])
    search.add(ended(6, REACHABLE.index("Sync"), failure=failures[1]))
    assert list(lines(search, range(10))) == [
        "3 of 10 seeds, 0.05 virtual hours in 0.00 hours of processes, 2 violations",
        "6 mixes of faults, each with 0 to 2 seeds",
        "messages × roles × voters reached: 1 of 900",
        "actions of the specification: 1 of 27",
        "neighbours of actions: 0 of 405",
        "actions never taken: " + ", ".join(name for name in REACHABLE[900:927] if name != "Sync"),
        "invariant 2 (epochs): 1 seed",
        "  kraft simulate --seed 6 --time 5s --faults none",
        "invariant 5 (logs <match>): 1 seed",
        "  kraft simulate --seed 1 --time 5s --faults none --witness",
    ]
    shown = page(search, range(10))
    assert "invariant 5 (logs &lt;match&gt;)" in shown
    assert f'title="{REACHABLE[0].replace(" at a ", ", ").replace(", voter", " · voter")}: 2 seeds"' in shown
    assert shown.count("<td") == 900 + 27 * 27
    assert shown.count("<td class=never>") == 27 * 27 - 405
    assert f"<li>{REACHABLE[1]}</li>" in shown
    assert f"<li>{REACHABLE[0]}</li>" not in shown
