"""What counts as right of what `explain` says during a fault."""

from __future__ import annotations

from scripts.controller_kills.explained import Said, is_critical, names, says_all_is_well

WELL = ("ok", "survival", "The quorum survives 1 more failure now: 3 of 3 voters are up, and 2 are needed.")
SPARE = ("warning", "survival", "The quorum survives no more failure now: 2 of 3 voters are up, and 2 are needed.")
OFFLINE = ("warning", "voter-behind", "Voter 2 is offline: no Fetch for 12 s. Start it.")
NO_MAJORITY = ("critical", "no-majority", "No leader: two of the voters 1, 2, 3 are needed. Silent: 1 (refused), 3.")


def test_well_is_what_survives_a_failure_and_has_nothing_critical() -> None:
    assert says_all_is_well([WELL])
    assert not says_all_is_well([SPARE, OFFLINE])
    assert not says_all_is_well([WELL, NO_MAJORITY])
    assert not says_all_is_well([])


def test_a_node_is_named_by_its_whole_id_in_a_finding_about_silence() -> None:
    said: Said = [SPARE, OFFLINE]
    assert names(said, [2])
    assert not names(said, [3]), "3 is how many voters there are"
    assert not names(said, [1]), "12 s is no node"
    assert names([NO_MAJORITY], [1, 3])
    assert is_critical([NO_MAJORITY])
    assert not is_critical(said)
