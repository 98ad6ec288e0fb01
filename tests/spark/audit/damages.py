"""The ways in which each check of the contents of logs is broken."""

from __future__ import annotations

from kraft_trio.spark.decoding.rows import no_timestamp

from .backup import PLACE, Backup, Row, breaks, breaks_alone, lawful

NANOSECONDS = 1_700_000_000_000_000_000
"""What a producer may take for milliseconds."""


@lawful
def a_fetched_snapshot_is_yet_to_take_the_place_of_the_log(backup: Backup) -> None:
    row = backup.find("snapshots", 3, end_offset=12)
    backup.tables["snapshots"].append(row | {"end_offset": 200, "epoch": 7, "voters": row["voters"][:1]})


@lawful
def an_old_snapshot_lies_far_below_the_log(backup: Backup) -> None:
    row = backup.find("snapshots", 3, end_offset=12)
    backup.tables["snapshots"].append(row | {"end_offset": 3, "epoch": 1, "voters": row["voters"][:1]})


@lawful
def an_uncommitted_end_differs(backup: Backup) -> None:
    offset = backup.last_batch(4)["base_offset"]
    backup.last_batch(4).update(epoch=9)
    elected = backup.find("control", 4, type="LeaderChange", epoch=3)
    backup.tables["control"].append(elected | {"offset": offset, "epoch": 9, "leader_id": 4})
    backup.find("quorum_state", 4).update(leader_epoch=9, leader_id=4, voted_id=-1)


@lawful
def a_producers_times_are_none(backup: Backup) -> None:
    """As of one that counts nanoseconds, in a batch of values and in one that begins an epoch."""
    for node in (1, 2, 3, 4):
        _have_an_odd_time(backup.batch(node, 13))
        _have_an_odd_time(backup.batch(node, 20))
        elected = backup.find("control", node, type="LeaderChange", epoch=2)
        elected.update(timestamp=None, error=no_timestamp(NANOSECONDS))


def _have_an_odd_time(row: Row) -> None:
    row.update(max_timestamp=None, error=f"max {no_timestamp(NANOSECONDS)}")


@lawful
def sequences_begin_anew(backup: Backup) -> None:
    """One log, in which a producer has used up all its numbers."""
    for name in ("control", "snapshots", "epochs"):
        backup.tables[name] = []
    first, second = backup.batch(1, 12), backup.batch(1, 13)
    after = 12 + 2**31
    producer = {"segment": 12, "producer_id": 7, "producer_epoch": 0, "base_sequence": 5}
    first.update(producer, last_offset=after - 1)
    second.update(producer, base_offset=after, last_offset=after)
    backup.tables["batches"] = [first, second]
    backup.tables["quorum_state"] = [backup.find("quorum_state", 1)]
    backup.tables["replicas"] = [backup.find("replicas", 1)]
    backup.tables["snapshots"] = []
    covered = {"end_offset": 12, "valid": True, "size": 1, "epoch": 1, "content_sha256": "00", "sha256": "00"}
    place = {name: first[name] for name in ("directory", "cluster_id", "node", "directory_id")}
    backup.tables["snapshots"].append(place | covered)


def _rot(backup: Backup, node: int, offset: int) -> None:
    """The batch has other bytes than it should: of its records nothing is known."""
    backup.batch(node, offset).update(crc_ok=False, error="CRC is 0x1, its header says 0x2")
    _forget_control(backup, node, offset)


def _tear(backup: Backup, node: int, offset: int) -> None:
    """Replace the batch by bytes that are not a batch."""
    row = backup.batch(node, offset)
    kept = {
        name: row[name] for name in ("directory", "cluster_id", "node", "directory_id", "segment", "position", "size")
    }
    row.update(dict.fromkeys(row), **kept, error="no batch: length 0")
    _forget_control(backup, node, offset)


def _forget_control(backup: Backup, node: int, offset: int) -> None:
    rows = backup.tables["control"]
    backup.tables["control"] = [row for row in rows if (row["node"], row["batch_offset"]) != (node, offset)]


def have_a_snapshot(backup: Backup, node: int) -> None:
    """The one that the others have at offset 12."""
    place = {name: backup.batch(node, 12)[name] for name in ("directory", "cluster_id", "node", "directory_id")}
    backup.tables["snapshots"].append(backup.find("snapshots", 1, end_offset=12) | place)


@breaks_alone("log_checksums")
def a_leader_change_is_rotten(backup: Backup) -> None:
    _rot(backup, 4, 20)


@breaks_alone("log_damage")
def a_leader_change_is_torn(backup: Backup) -> None:
    _tear(backup, 4, 20)


@breaks_alone("log_checksums")
def a_voter_set_is_rotten(backup: Backup) -> None:
    have_a_snapshot(backup, 4)
    _rot(backup, 4, 11)


@breaks_alone("log_damage")
def a_voter_set_is_torn(backup: Backup) -> None:
    have_a_snapshot(backup, 4)
    _tear(backup, 4, 11)


@breaks_alone("log_damage")
def the_first_batch_is_torn(backup: Backup) -> None:
    _tear(backup, 4, 0)


@breaks_alone("log_offsets_without_holes")
def a_segment_is_missing(backup: Backup) -> None:
    """With the row by which the data source tells it."""
    rows = backup.tables["batches"]
    last = backup.batch(4, 10)
    lost = [row for row in rows if (row["node"], row["segment"]) == (4, 11)]
    kept = {name: last[name] for name in PLACE}
    seam = {**dict.fromkeys(last), **kept, "position": last["position"] + last["size"], "size": 0}
    error = "the segment ends before offset 11, the next one begins with offset 14"
    backup.tables["batches"] = [*(row for row in rows if row not in lost), {**seam, "error": error}]
    _forget_control(backup, 4, 11)


@breaks_alone("log_offsets_without_holes")
def a_batch_is_gone(backup: Backup) -> None:
    """With what the data source says of the next one."""
    backup.tables["batches"].remove(backup.batch(4, 12))
    backup.batch(4, 13).update(error="base offset 13, expected 12")


@breaks("log_is_readable")
def a_directory_is_not_there(backup: Backup) -> None:
    empty = dict.fromkeys(backup.tables["batches"][0])
    row = empty | {"directory": "/backups/node-9", "cluster_id": backup.tables["batches"][0]["cluster_id"]}
    backup.tables["batches"].append(row | {"error": "/backups/node-9: is empty"})


@breaks("log_is_readable")
def quorum_state_is_damaged(backup: Backup) -> None:
    row = backup.find("quorum_state", 1)
    row |= {"leader_epoch": None, "leader_id": None, "voted_id": None, "error": "line 1: no JSON"}


@breaks("log_checksums")
def a_bit_has_flipped(backup: Backup) -> None:
    backup.batch(2, 12).update(crc_ok=False, error="CRC is 1, computed is 2")


@breaks("log_damage")
def a_batch_is_garbage(backup: Backup) -> None:
    row = backup.batch(2, 12)
    kept = {name: row[name] for name in ("directory", "cluster_id", "node", "directory_id", "segment", "position")}
    row.update(dict.fromkeys(row), **kept, size=200, error="no batch: length 0")


@breaks("log_torn_tail")
def the_last_batch_is_cut(backup: Backup) -> None:
    row = backup.last_batch(3)
    row.update(base_offset=None, last_offset=None, epoch=None, error="cut short")


@breaks("log_offsets_without_holes")
def a_batch_is_missing(backup: Backup) -> None:
    backup.tables["batches"].remove(backup.batch(4, 12))


@breaks("log_epochs_never_fall")
def an_epoch_falls(backup: Backup) -> None:
    backup.batch(1, 21).update(epoch=1)


@breaks("log_matching")
def a_batch_has_other_bytes(backup: Backup) -> None:
    row = backup.batch(3, 13)
    row.update(content_crc=row["content_crc"] ^ 1)


@breaks("log_matching")
def a_batch_of_odd_times_has_other_bytes(backup: Backup) -> None:
    a_producers_times_are_none(backup)
    a_batch_has_other_bytes(backup)


@breaks("log_matching")
def a_batch_has_another_size(backup: Backup) -> None:
    row = backup.batch(3, 13)
    row.update(size=row["size"] + 1)


@breaks("log_same_prefix")
def an_older_epoch_lies_below_a_common_one(backup: Backup) -> None:
    for row in backup.tables["batches"]:
        if row["node"] == 4 and row["epoch"] == 2:
            row.update(epoch=1)


@breaks("log_same_prefix")
def the_same_and_the_ends_differ_too(backup: Backup) -> None:
    an_older_epoch_lies_below_a_common_one(backup)
    backup.last_batch(4).update(epoch=9)


@breaks("log_one_leader_per_epoch")
def two_logs_name_two_leaders(backup: Backup) -> None:
    backup.find("control", 2, type="LeaderChange", epoch=2).update(leader_id=3)


@breaks("log_one_leader_per_epoch")
def a_stored_leader_is_another(backup: Backup) -> None:
    backup.find("quorum_state", 4).update(leader_id=2)


@breaks("log_leader_begins_its_epoch")
def a_leader_change_is_missing(backup: Backup) -> None:
    backup.tables["control"].remove(backup.find("control", 2, type="LeaderChange", epoch=2))


@breaks("log_elected_by_majority")
def a_minority_has_voted(backup: Backup) -> None:
    for row in backup.tables["control"]:
        if row["type"] == "LeaderChange" and row["epoch"] == 2:
            row.update(granting_voters=[2, 3])


@breaks("log_one_vote_per_epoch")
def two_copies_have_two_votes(backup: Backup) -> None:
    row = backup.find("quorum_state", 1)
    row.update(voted_id=2, voted_directory_id="AAA")
    backup.tables["quorum_state"].append(row | {"directory": "/backups/older/node-1", "voted_id": 3})


@breaks("log_one_vote_per_epoch")
def a_vote_is_not_for_the_leader_that_it_elected(backup: Backup) -> None:
    changes = [row for row in backup.tables["control"] if row["type"] == "LeaderChange"]
    last = max(changes, key=lambda row: row["epoch"])
    [voter, *_] = set(last["granting_voters"]) - {last["leader_id"]}
    backup.find("quorum_state", voter).update(voted_id=voter, voted_directory_id="AAA")


@breaks_alone("log_epoch_is_stored")
def quorum_state_is_missing(backup: Backup) -> None:
    backup.tables["quorum_state"].remove(backup.find("quorum_state", 4))


@breaks("log_formatted_voters")
def a_node_was_formatted_with_another_list(backup: Backup) -> None:
    row = backup.find("snapshots", 2, end_offset=0)
    row.update(voters=[{**voter, "directory_id": f"{voter['id']}-other"} for voter in row["voters"]])


@breaks("log_epoch_is_stored")
def quorum_state_is_old(backup: Backup) -> None:
    backup.find("quorum_state", 3).update(leader_epoch=2, leader_id=2)


@breaks("log_epochs_checkpoint")
def an_epoch_starts_elsewhere(backup: Backup) -> None:
    backup.find("epochs", 2, epoch=2).update(start_offset=19)


@breaks("log_overlapping_voter_sets")
def two_voters_change_at_once(backup: Backup) -> None:
    row = backup.find("control", 4, type="Voters", offset=22)
    row.update(voters=[voter for voter in row["voters"] if voter["id"] == 2])


@breaks("log_overlapping_voter_sets")
def a_voter_changes_its_directory_and_another_goes(backup: Backup) -> None:
    row = backup.find("control", 4, type="Voters", offset=22)
    row.update(voters=[{**voter, "directory_id": f"{voter['id']}-other"} for voter in row["voters"]])


def _reassign(backup: Backup, target: tuple[int, ...], later: tuple[int, ...] | None = None) -> None:
    """Node 4 has removed voter 1 on the way to a target; `later` is the target afterwards."""
    before = backup.find("control", 4, type="Voters", offset=11)
    replicas = {voter["id"]: {"id": voter["id"], "directory_id": voter["directory_id"]} for voter in before["voters"]}
    after = backup.find("control", 4, type="Voters", offset=22)
    before.update(target=[replicas[id] for id in target])
    after.update(target=[replicas[id] for id in (target if later is None else later)])


@lawful
def a_reassignment_is_on_its_way(backup: Backup) -> None:
    _reassign(backup, (2, 4))


@lawful
def a_reassignment_is_over(backup: Backup) -> None:
    _reassign(backup, (2, 3, 4), ())


@lawful
def a_leader_of_kafka_drops_the_target(backup: Backup) -> None:
    _reassign(backup, (1, 2), ())


@breaks("log_reassignment_steps")
def a_voter_of_the_target_is_removed(backup: Backup) -> None:
    _reassign(backup, (1, 2))


@breaks("log_reassignment_steps")
def a_step_changes_the_target(backup: Backup) -> None:
    _reassign(backup, (2, 3), (2, 4))


@breaks("log_snapshot_target")
def a_snapshot_has_lost_the_target(backup: Backup) -> None:
    backup.find("control", 2, type="Voters", offset=11).update(target=[{"id": 2, "directory_id": None}])


@breaks("log_snapshot_voters")
def a_snapshot_has_other_voters(backup: Backup) -> None:
    row = backup.find("snapshots", 2, end_offset=12)
    row.update(voters=row["voters"][:-1])


@breaks("log_snapshots_are_whole")
def a_snapshot_is_cut(backup: Backup) -> None:
    backup.find("snapshots", 2, end_offset=12).update(valid=False, error="no footer")


@breaks("log_snapshots_are_equal")
def a_snapshot_has_other_records(backup: Backup) -> None:
    backup.find("snapshots", 2, end_offset=12).update(sha256="00", content_sha256="00")


@breaks("log_snapshots_are_same_bytes")
def a_snapshot_has_other_bytes(backup: Backup) -> None:
    backup.find("snapshots", 2, end_offset=12).update(sha256="00")


@breaks("log_snapshots_are_aligned")
def a_snapshot_ends_below_a_later_epoch(backup: Backup) -> None:
    for node in (1, 2, 3):
        backup.find("snapshots", node, end_offset=12).update(end_offset=21)


@breaks("log_snapshots_are_aligned")
def a_snapshot_ends_within_a_batch(backup: Backup) -> None:
    backup.batch(1, 11).update(last_offset=12)


@breaks("log_start_is_covered")
def no_snapshot_reaches_up_to_the_log(backup: Backup) -> None:
    backup.tables["snapshots"].remove(backup.find("snapshots", 1, end_offset=12))


@breaks("log_appended_once")
def a_retry_took_effect_twice(backup: Backup) -> None:
    first, second = backup.batch(4, 12), backup.batch(4, 13)
    second.update({name: first[name] for name in ("producer_id", "producer_epoch", "base_sequence")})


@breaks("log_appended_once")
def a_retry_took_effect_twice_and_sequences_begin_anew(backup: Backup) -> None:
    sequences_begin_anew(backup)
    last = backup.tables["batches"][-1]
    offset = last["last_offset"] + 1
    position = last["position"] + last["size"]
    again = {"position": position, "base_offset": offset, "last_offset": offset}
    backup.tables["batches"].append({**last, **again})
