"""Which voter set and kraft.version are in force where, through appends, truncations, trims and snapshots."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quorum_builders import key, static_voters, voters

from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_history import MAX_REMOVED, VoterHistory
from kraft_trio.protocol.voter_set import Voter, VoterSet

STATIC = static_voters(1, 2, 3)
BOOTSTRAP, FIRST, SECOND = voters(1, 2, 3), voters(1, 2, 3, 4), voters(1, 2, 3, 4, 5)


def history() -> VoterHistory:
    """The bootstrap set at offset -1, {1,2,3,4} at 10 and {1,2,3,4,5} at 20."""
    built = VoterHistory(STATIC)
    built.add_voters(-1, BOOTSTRAP)
    built.add_kraft_version(-1, 1)
    built.add_voters(10, FIRST)
    built.add_voters(20, SECOND)
    return built


def test_static_voters_hold_until_a_voters_record_is_known() -> None:
    empty = VoterHistory(STATIC)
    assert (empty.voters, empty.voters_offset, empty.voters_at(100)) == (STATIC, None, STATIC)
    assert (empty.kraft_version, empty.kraft_version_at(100)) == (0, 0)
    assert not empty.came_from_bootstrap
    empty.add_voters(0, FIRST)
    assert (empty.voters, empty.voters_offset, empty.static_voters) == (FIRST, 0, STATIC)
    assert empty.uncommitted(None) == (0,)


@pytest.mark.parametrize(
    ("offset", "in_force"),
    [(-2, STATIC), (-1, BOOTSTRAP), (9, BOOTSTRAP), (10, FIRST), (19, FIRST), (20, SECOND), (99, SECOND)],
)
def test_a_set_is_in_force_from_its_own_record_on(offset: int, in_force: VoterSet) -> None:
    assert history().voters_at(offset) == in_force


def test_kraft_version_has_its_own_history() -> None:
    built = history()
    built.add_kraft_version(12, 2)
    assert [built.kraft_version_at(offset) for offset in (-2, -1, 11, 12)] == [0, 1, 1, 2]
    assert built.kraft_version == 2
    assert built.truncate_to(12) is True
    assert built.kraft_version == 1
    assert built.voters == FIRST


@pytest.mark.parametrize(
    ("end", "in_force", "offset", "dropped"),
    [
        (21, SECOND, 20, False),
        (20, FIRST, 10, True),
        (11, FIRST, 10, True),
        (10, BOOTSTRAP, -1, True),
        (0, BOOTSTRAP, -1, True),
    ],
)
def test_truncation_brings_the_earlier_set_back(end: int, in_force: VoterSet, offset: int, dropped: bool) -> None:
    truncated = history()
    assert truncated.truncate_to(end) is dropped
    assert (truncated.voters, truncated.voters_offset) == (in_force, offset)
    assert truncated.came_from_bootstrap is (offset == -1)
    truncated.add_voters(end, STATIC)
    assert truncated.voters == STATIC


def test_truncation_below_all_entries_restores_static_voters() -> None:
    without_snapshot = VoterHistory(STATIC)
    without_snapshot.add_voters(3, FIRST)
    without_snapshot.truncate_to(3)
    assert (without_snapshot.voters, without_snapshot.voters_offset) == (STATIC, None)


@pytest.mark.parametrize("offset", [-1, 0, 19, 20])
def test_offsets_only_rise(offset: int) -> None:
    built = history()
    with pytest.raises(ValueError, match=rf"voters: offset {offset}, expected 21 or more"):
        built.add_voters(offset, STATIC)
    assert built.voters == SECOND


def test_nothing_sits_below_the_bootstrap_snapshot() -> None:
    with pytest.raises(ValueError, match=r"kraft.version: offset -2, expected -1 or more"):
        VoterHistory(STATIC).add_kraft_version(-2, 1)


@pytest.mark.parametrize(
    ("start", "oldest_known"), [(0, BOOTSTRAP), (10, BOOTSTRAP), (11, FIRST), (20, FIRST), (21, SECOND), (99, SECOND)]
)
def test_trimming_keeps_the_newest_set_below_the_new_start(start: int, oldest_known: VoterSet) -> None:
    trimmed = history()
    trimmed.trim_prefix_to(start)
    assert trimmed.voters == SECOND
    assert trimmed.voters_at(start - 1) == oldest_known
    trimmed.truncate_to(start)
    assert trimmed.voters == oldest_known


def test_trimming_forgets_what_is_superseded() -> None:
    trimmed = history()
    trimmed.add_kraft_version(12, 2)
    trimmed.trim_prefix_to(15)
    assert (trimmed.voters_at(9), trimmed.kraft_version_at(9)) == (STATIC, 0)
    assert (trimmed.voters_at(14), trimmed.kraft_version_at(14)) == (FIRST, 2)


def test_trimming_below_every_entry_changes_nothing() -> None:
    trimmed = VoterHistory(STATIC)
    trimmed.add_voters(10, FIRST)
    trimmed.add_voters(20, SECOND)
    trimmed.trim_prefix_to(5)
    assert (trimmed.voters_at(9), trimmed.voters_at(10), trimmed.voters_at(20)) == (STATIC, FIRST, SECOND)


@pytest.mark.parametrize(
    ("high_watermark", "offsets"),
    [(None, (10, 20)), (0, (10, 20)), (10, (10, 20)), (11, (20,)), (20, (20,)), (21, ()), (99, ())],
)
def test_a_set_commits_when_the_high_watermark_passes_its_offset(
    high_watermark: int | None, offsets: tuple[int, ...]
) -> None:
    assert history().uncommitted(high_watermark) == offsets


def test_a_snapshot_leaves_nothing_of_the_log_it_replaces() -> None:
    """S11: uncommitted sets above the snapshot's end are gone, and so are older ones."""
    installed = history()
    installed.add_kraft_version(21, 2)
    installed.install_snapshot(15, FIRST, 1)
    assert (installed.voters, installed.voters_offset, installed.kraft_version) == (FIRST, 14, 1)
    assert (installed.voters_at(13), installed.kraft_version_at(13), installed.kraft_version_at(14)) == (STATIC, 0, 1)
    assert installed.uncommitted(15) == ()


def test_a_snapshot_without_voters_falls_back_to_the_static_ones() -> None:
    installed = history()
    installed.install_snapshot(15, None, 0)
    assert (installed.voters, installed.voters_offset, installed.kraft_version) == (STATIC, None, 0)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("plain"), st.integers(1, 3)),
            st.tuples(st.just("voters"), st.integers(1, 9)),
            st.tuples(st.just("truncate"), st.integers(0, 5)),
        ),
        max_size=40,
    )
)
def test_in_force_is_always_the_last_set_in_the_surviving_log(steps: list[tuple[str, int]]) -> None:
    log: list[VoterSet | None] = []
    folded = VoterHistory(STATIC)
    for step, number in steps:
        if step == "plain":
            log += [None] * number
        elif step == "voters":
            folded.add_voters(len(log), voters(number))
            log.append(voters(number))
        else:
            del log[max(0, len(log) - number) :]
            folded.truncate_to(len(log))
        surviving = [(offset, found) for offset, found in enumerate(log) if found is not None]
        assert folded.voters == (surviving[-1][1] if surviving else STATIC)
        assert folded.voters_offset == (surviving[-1][0] if surviving else None)
        assert folded.uncommitted(0) == tuple(offset for offset, _ in surviving)


def test_the_same_set_under_another_disk_is_another_set() -> None:
    replaced = history()
    replaced.add_voters(30, voters(1, 2, key(3, "b")))
    assert not replaced.voters.is_voter(key(3, "a"))
    assert replaced.voters.is_voter(key(3, "b"))


def test_removed_voters_are_a_function_of_the_log() -> None:
    """Whether a replica has the whole log or a snapshot and the rest of it, it names the same, in the same order."""
    keys = {name: ReplicaKey(id, UUID(int=id * 10 + int(name[1:]))) for id, name in ((1, "a1"), (2, "b1"), (2, "b2"))}
    sets = [("a1", "b1"), ("a1",), ("a1", "b2"), ("a1",), ("b1",), ("a1", "b1"), ("b2",)]
    whole = VoterHistory(VoterSet([Voter(ReplicaKey(9))]))
    told = []
    for offset, names in enumerate(sets):
        whole.add_voters(offset, VoterSet(Voter(keys[name]) for name in names))
        told.append([name for key in whole.removed for name in keys if keys[name] == key])
    assert told == [[], ["b1"], ["b1"], ["b1", "b2"], ["b2", "a1"], ["b2"], ["a1", "b1"]]
    for end in range(1, len(sets)):
        later = VoterHistory(VoterSet())
        later.install_snapshot(end, whole.voters_at(end - 1), 1, whole.removed_at(end - 1))
        for offset in range(end, len(sets)):
            later.add_voters(offset, whole.voters_at(offset))
        assert later.removed == whole.removed
        later.trim_prefix_to(len(sets))
        assert later.removed == whole.removed
    whole.truncate_to(4)
    assert whole.removed == (keys["b1"], keys["b2"])


def test_oldest_removals_are_forgotten_first() -> None:
    stay = Voter(ReplicaKey(0, UUID(int=1)))
    history = VoterHistory(VoterSet())
    for number in range(MAX_REMOVED + 6):
        comes = Voter(ReplicaKey(1, UUID(int=100 + number)))
        history.add_voters(2 * number, VoterSet([stay, comes]))
        history.add_voters(2 * number + 1, VoterSet([stay]))
    assert [key.directory_id.int for key in history.removed] == list(range(106, 106 + MAX_REMOVED))


def test_static_voters_are_not_counted_as_removed() -> None:
    """The configuration may differ from replica to replica, and names no incarnations."""
    history = VoterHistory(VoterSet([Voter(ReplicaKey(1)), Voter(ReplicaKey(2))]))
    history.add_voters(5, VoterSet([Voter(ReplicaKey(1)), Voter(ReplicaKey(2, UUID(int=2)))]))
    history.add_voters(6, VoterSet([Voter(ReplicaKey(2, UUID(int=2)))]))
    assert history.removed == ()


def test_target_belongs_to_the_set_that_names_it() -> None:
    """Truncating, trimming and a snapshot treat it as they treat the voters."""
    target = (key(4),)
    built = VoterHistory(STATIC)
    built.add_voters(3, BOOTSTRAP)
    built.add_voters(7, BOOTSTRAP, target)
    built.add_voters(9, FIRST)
    assert [built.target_at(offset) for offset in (2, 3, 7, 8, 9)] == [(), (), target, target, ()]
    assert built.target == ()
    built.trim_prefix_to(8)
    built.truncate_to(9)
    assert built.target == target
    later = VoterHistory(STATIC)
    later.install_snapshot(9, built.voters_at(8), 1, built.removed_at(8), built.target_at(8))
    assert later.target == target
    built.truncate_to(7)
    assert built.target == ()
