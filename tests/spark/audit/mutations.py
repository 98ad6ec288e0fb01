"""The ways in which each check of traces is broken, as changes of the clean history."""

from __future__ import annotations

from collections.abc import Callable

from .histories import KEYS, VOTERS, Story, find, replicate

Mutation = Callable[[Story], object]
MUTATIONS: dict[str, tuple[str, Mutation]] = {}
"""By name: the check that must find the mutation, and the function that makes it.  It appends events to the clean
history or replaces some."""


def breaks(check: str) -> Callable[[Mutation], Mutation]:
    def register(mutation: Mutation) -> Mutation:
        assert mutation.__name__ not in MUTATIONS
        MUTATIONS[mutation.__name__] = check, mutation
        return mutation

    return register


@breaks("trace_one_leader_per_epoch")
def a_follower_names_another_leader(story: Story) -> None:
    story.role(3, "Follower", 2, leader=1, was="Follower")


@breaks("trace_one_leader_per_epoch")
def another_node_leads_too(story: Story) -> None:
    story.role(3, "Leader", 2, leader=2, was="Follower")


@breaks("trace_one_leader_per_epoch")
def the_same_node_leads_on_another_disk(story: Story) -> None:
    story.note("start", 2, {"directory_id": "2-ZZZ"}, role=None, leader=None, high_watermark=None)
    story.role(2, "Leader", 2, leader=2, was="Candidate")


@breaks("trace_epochs_never_fall")
def an_older_epoch_is_found_at_the_start(story: Story) -> None:
    story.note("end", 3, cause="killed")
    story.start(3, log_end=5, synced_end=5)
    story.role(3, "Unattached", 1)


@breaks("trace_one_vote_per_epoch")
def a_second_vote(story: Story) -> None:
    story.vote(3, 1, 2)


@breaks("trace_one_vote_per_epoch")
def a_candidate_has_voted_for_another(story: Story) -> None:
    story.role(3, "Candidate", 2, was="Prospective")


@breaks("trace_restarted_leader_resigns")
def a_restarted_leader_is_unattached(story: Story) -> None:
    restarted = [row for row in story.rows if row["kind"] == "role" and row["role"] == "Resigned"]
    restarted[0]["role"] = "Unattached"


@breaks("trace_restarted_leader_resigns")
def a_restarted_leader_leads_on(story: Story) -> None:
    story.note("end", 2, cause="killed")
    story.start(2, log_end=5, synced_end=5)
    story.role(2, "Resigned", 2, leader=2)
    story.role(2, "Leader", 2, leader=2, was="Resigned")


@breaks("trace_one_record_per_place")
def a_leader_appends_again_at_an_offset(story: Story) -> None:
    story.append(2, 4, 5, 2)


@breaks("trace_role_transitions")
def a_follower_becomes_a_candidate_at_once(story: Story) -> None:
    story.role(3, "Candidate", 3, was="Follower")


@breaks("trace_role_transitions")
def a_process_begins_as_a_leader(story: Story) -> None:
    story.note("end", 3, cause="killed")
    story.start(3, log_end=5, synced_end=5)
    story.role(3, "Leader", 2, leader=3)


@breaks("trace_role_transitions")
def the_epoch_of_a_leader_has_another_one(story: Story) -> None:
    story.role(3, "Prospective", 2, leader=2, was="Follower")
    story.role(3, "Follower", 2, leader=1, was="Prospective")


@breaks("trace_leader_appends_in_its_epoch")
def a_leader_appends_in_an_older_epoch(story: Story) -> None:
    story.append(2, 5, 6, 1)


@breaks("trace_leader_appends_in_its_epoch")
def a_resigned_node_appends(story: Story) -> None:
    story.role(2, "Resigned", 2, leader=2, was="Leader")
    story.append(2, 5, 6, 2)


@breaks("trace_leader_appends_in_its_epoch")
def a_follower_takes_records_of_a_later_epoch(story: Story) -> None:
    story.append(3, 5, 6, 3)


@breaks("trace_records_come_from_leaders")
def a_follower_has_more_than_the_leader(story: Story) -> None:
    story.append(3, 5, 6, 2)


@breaks("trace_records_come_from_leaders")
def a_follower_has_records_of_an_epoch_without_a_leader(story: Story) -> None:
    story.role(3, "Follower", 4, leader=1, was="Follower")
    story.append(3, 5, 6, 3)


@breaks("trace_records_come_from_leaders")
def a_follower_has_records_before_the_leaders_first(story: Story) -> None:
    story.note("truncate", 3, {"to": 2, "batches": 2}, log_end=2)
    story.append(3, 2, 3, 2)


@breaks("trace_leader_completeness")
def a_leader_lacks_what_was_committed(story: Story) -> None:
    elected = next(row for row in story.rows if row["role"] == "Leader" and row["epoch"] == 2)
    elected["log_end"] = 2


@breaks("trace_acknowledged_by_later_leaders")
def a_leader_lacks_what_was_acknowledged(story: Story) -> None:
    elected = next(row for row in story.rows if row["role"] == "Leader" and row["epoch"] == 2)
    elected["log_end"] = 2


@breaks("trace_applied_is_committed")
def what_is_not_committed_is_applied(story: Story) -> None:
    story.apply(1, 3, 5)


@breaks("trace_applied_is_committed")
def a_snapshot_of_what_is_not_committed_is_loaded(story: Story) -> None:
    story.note("load", 3, {"to": 6})


@breaks("trace_applied_is_committed")
def a_high_watermark_is_above_the_log(story: Story) -> None:
    story.note("sync", 3, high_watermark=9)


@breaks("trace_applied_once_in_order")
def records_are_applied_again(story: Story) -> None:
    story.apply(3, 4, 5)


@breaks("trace_applied_once_in_order")
def a_snapshot_takes_the_state_back(story: Story) -> None:
    story.note("load", 3, {"to": 3})


@breaks("trace_applied_once_in_order")
def an_acknowledged_write_is_not_applied(story: Story) -> None:
    for number, offset in ((3, 5), (4, 6)):
        story.operation(number, "pending")
        replicate(story, 2, offset, offset + 1, 2, nodes=(2, 3))
        story.operation(number, "ok", [offset])
    story.apply(3, 6, 7)


@breaks("trace_high_watermark_never_falls")
def a_high_watermark_falls(story: Story) -> None:
    story.commit(3, 4)


@breaks("trace_successive_high_watermarks")
def a_later_leader_knows_less(story: Story) -> None:
    find(story, "high_watermark", 2, 2)["high_watermark"] = 2


@breaks("trace_no_truncation_of_committed")
def what_is_committed_is_truncated(story: Story) -> None:
    story.note("truncate", 3, {"to": 4, "batches": 1}, log_end=4)


@breaks("trace_no_truncation_of_committed")
def a_leader_truncates(story: Story) -> None:
    story.append(2, 5, 6, 2)
    story.note("truncate", 2, {"to": 5, "batches": 1}, log_end=5)


@breaks("trace_high_watermark_of_the_epoch")
def a_leader_commits_what_it_was_elected_with(story: Story) -> None:
    find(story, "high_watermark", 2, 2)["high_watermark"] = 3


@breaks("trace_high_watermark_of_the_epoch")
def a_follower_commits_before_its_leader(story: Story) -> None:
    for node in (3, 1):
        story.role(node, "Unattached", 3, was="Follower")
    story.role(3, "Leader", 3, leader=3, was="Candidate")
    story.role(1, "Follower", 3, leader=3, was="Unattached")
    story.append(1, 3, 5, 2)
    story.commit(1, 5)


@breaks("trace_commits_by_majority")
def a_leader_commits_alone(story: Story) -> None:
    story.append(2, 5, 6, 2)
    story.sync(2, 6)
    story.commit(2, 6)


@breaks("trace_elected_by_majority")
def a_vote_was_not_granted(story: Story) -> None:
    find(story, "log", 3, 1)["details"]["granted"] = False


@breaks("trace_members_campaign")
def an_observer_campaigns(story: Story) -> None:
    story.start(4)
    story.role(4, "Unattached", 0)
    story.role(4, "Prospective", 0, was="Unattached")


@breaks("trace_one_uncommitted_voter_set")
def two_voter_sets_at_a_time(story: Story) -> None:
    story.append(2, 5, 6, 2, f"{VOTERS} {KEYS[4]}")
    story.append(2, 6, 7, 2, VOTERS)


@breaks("trace_overlapping_voter_sets")
def two_voters_change(story: Story) -> None:
    story.append(2, 5, 6, 2, f"{KEYS[1]} {KEYS[2]} {KEYS[4]}")


@breaks("trace_reassignment_steps")
def a_step_leads_away_from_the_target(story: Story) -> None:
    story.append(2, 5, 6, 2, VOTERS, target=f"{KEYS[1]} {KEYS[2]}")
    for node in (2, 3):
        story.commit(node, 6)
    story.append(2, 6, 7, 2, f"{VOTERS} {KEYS[4]}", target=f"{KEYS[1]} {KEYS[2]}")


@breaks("trace_no_early_voter_change")
def the_first_record_changes_the_voters(story: Story) -> None:
    first = next(row for row in story.rows if row["kind"] == "append" and row["details"]["record_epoch"] == 2)
    first["details"] |= {"voters_offsets": [3], "voters": [f"{VOTERS} {KEYS[4]}"]}


@breaks("trace_snapshots_are_committed")
def more_is_trimmed_than_is_committed(story: Story) -> None:
    story.note("trim", 3, {"to": 6})


@breaks("trace_snapshots_are_committed")
def a_snapshot_takes_the_place_of_a_leaders_log(story: Story) -> None:
    story.note("replace", 2, {"snapshot_id": "5@2", "batches": 0})


@breaks("trace_acknowledged_is_committed")
def what_is_not_committed_is_acknowledged(story: Story) -> None:
    story.operation(3, "pending")
    story.operation(3, "ok", [5])


@breaks("trace_acknowledged_once")
def an_offset_is_acknowledged_twice(story: Story) -> None:
    story.operation(3, "pending")
    story.operation(3, "ok", [4])


@breaks("trace_real_time_order")
def a_later_read_sees_less(story: Story) -> None:
    story.operation(3, "pending")
    story.operation(3, "ok", [1, 2], from_offset=0, end_offset=3)


@breaks("trace_real_time_order")
def a_later_write_stands_before_an_earlier_one(story: Story) -> None:
    story.operation(3, "pending")
    story.operation(3, "ok", [3])


@breaks("trace_reads_are_whole")
def a_read_passes_over_a_write(story: Story) -> None:
    story.operation(3, "pending")
    story.operation(3, "ok", [1, 2], from_offset=0, end_offset=5)


@breaks("trace_is_readable")
def events_are_left_out(story: Story) -> None:
    story.note("lost", 3, {"events": 7})


@breaks("trace_is_readable")
def an_event_is_not_there(story: Story) -> None:
    story.rows.remove(find(story, "sync", 3, 1))


@breaks("trace_is_readable")
def the_first_events_are_not_there(story: Story) -> None:
    del story.rows[:3]
