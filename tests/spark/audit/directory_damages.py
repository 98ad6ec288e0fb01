"""The ways in which directories are no backups: copies, strangers, empty ones, and logs that end early."""

from __future__ import annotations

from .backup import PLACE, Backup, breaks, lawful, quiet
from .damages import have_a_snapshot


def _cut(backup: Backup, node: int, offset: int) -> None:
    """The log of that node ends there, between two batches, and no other file tells of more."""
    backup.find("replicas", node).update(index_offset=None, producers_offset=None)
    for table, column in (("batches", "base_offset"), ("control", "offset")):
        rows = backup.tables[table]
        backup.tables[table] = [row for row in rows if row["node"] != node or row[column] < offset]


def _copy(backup: Backup, node: int, **other: str) -> None:
    """One more directory with what that node has."""
    for rows in backup.tables.values():
        rows += [{**row, **other} for row in rows if row["node"] == node]


@breaks("log_replicas_are_distinct")
def two_directories_are_copies_of_one_replica(backup: Backup) -> None:
    _copy(backup, 2, directory="/backups/copy-of-2")


@breaks("log_replicas_are_distinct")
def two_directories_without_an_id_have_one_node_id(backup: Backup) -> None:
    row = backup.find("replicas", 2)
    row.update(directory_id=None)
    backup.tables["replicas"].append({**row, "directory": "/backups/copy-of-2"})


@lawful
def a_node_has_got_a_new_disk(backup: Backup) -> None:
    _copy(backup, 4, directory="/backups/old-4", directory_id="old")


def _is_of_another_cluster(backup: Backup, node: int) -> None:
    """Its meta.properties names the cluster; all others are moved, so that the strange one keeps the name."""
    for rows in backup.tables.values():
        for row in rows:
            if row["node"] != node:
                row.update(cluster_id=f"{row['cluster_id']}, the others")


@breaks("log_directory_of_one_cluster")
def a_voter_is_of_another_cluster(backup: Backup) -> None:
    _is_of_another_cluster(backup, 3)


@breaks("log_of_one_cluster")
def a_directory_without_an_id_is_of_another_cluster(backup: Backup) -> None:
    for row in backup.tables["replicas"]:
        row.update(directory_id=None)
    for table in ("control", "snapshots"):
        for row in backup.tables[table]:
            row.update(voters=None)
    _is_of_another_cluster(backup, 3)


@quiet
def two_clusters_begin_with_the_same_leader_change(backup: Backup) -> None:
    """As young ones do that have the same ids, and started in the same millisecond."""
    cluster = f"{backup.batch(4, 0)['cluster_id']}, another"
    _copy(backup, 4, cluster_id=cluster, directory="/another", directory_id="another")
    for table, column in (("batches", "base_offset"), ("control", "offset"), ("epochs", "start_offset")):
        rows = backup.tables[table]
        backup.tables[table] = [row for row in rows if row["cluster_id"] != cluster or row[column] == 0]
    for row in backup.tables["replicas"]:
        if row["cluster_id"] == cluster:
            row.update(index_offset=None, producers_offset=None)
    for row in backup.tables["control"]:
        if row["cluster_id"] == cluster:
            row.update(voter_ids=[4], granting_voters=[4])


def _zeros_follow_the_last_batch(backup: Backup, error: str) -> None:
    row = backup.last_batch(3)
    after = {**dict.fromkeys(row), **{name: row[name] for name in PLACE}, "position": row["position"] + row["size"]}
    backup.tables["batches"].append({**after, "size": 61440, "error": f"{error}; 61440 bytes of zeros to the end"})


@breaks("log_ends_in_zeros")
def zeros_follow_the_last_batch_and_a_segment_follows_them(backup: Backup) -> None:
    backup.find("replicas", 3).update(last_segment=backup.last_batch(3)["last_offset"] + 1)
    _zeros_follow_the_last_batch(backup, "magic 0, expected 2")


@breaks("log_ends_in_zeros")
def more_zeros_than_preallocated_follow_the_last_batch(backup: Backup) -> None:
    """The reader names no others in a last segment."""
    _zeros_follow_the_last_batch(backup, "magic 0, expected 2")


@breaks("log_ends_in_zeros")
def a_sealed_segment_is_nothing_but_zeros(backup: Backup) -> None:
    first = backup.find("batches", 4, base_offset=0)
    backup.remove(4, "batches", "control")
    zeros = {"position": 0, "size": 61440, "error": "magic 0, expected 2; 61440 bytes of zeros to the end"}
    backup.tables["batches"].append({**dict.fromkeys(first), **{name: first[name] for name in PLACE}, **zeros})
    backup.find("replicas", 4).update(last_segment=first["segment"] + 1)


@breaks("log_has_records")
def a_log_is_empty(backup: Backup) -> None:
    """Also quorum-state and the epochs are gone, so that the others alone tell of records."""
    backup.remove(4, "batches", "control", "snapshots", "quorum_state", "epochs")


@breaks("log_has_records")
def all_logs_are_empty(backup: Backup) -> None:
    for table in ("batches", "control", "snapshots"):
        backup.tables[table] = []


@lawful
def all_nodes_have_just_been_formatted(backup: Backup) -> None:
    for table in ("batches", "control", "epochs"):
        backup.tables[table] = []
    backup.tables["snapshots"] = [row for row in backup.tables["snapshots"] if row["end_offset"] == 0]
    for row in backup.tables["replicas"]:
        row.update(last_segment=0, index_offset=0, producers_offset=None)
    for row in backup.tables["quorum_state"]:
        row.update(leader_epoch=2, leader_id=-1, voted_id=1)


@breaks("log_reaches_its_snapshot")
def a_log_ends_below_its_snapshot(backup: Backup) -> None:
    have_a_snapshot(backup, 4)
    _cut(backup, 4, 11)


@breaks("log_reaches_its_files")
def the_last_batches_are_gone(backup: Backup) -> None:
    ends = {name: backup.find("replicas", 4)[name] for name in ("index_offset", "producers_offset")}
    assert ends["producers_offset"] > 22
    _cut(backup, 4, 22)
    backup.find("replicas", 4).update(ends)


@breaks("log_reaches_its_files")
def the_last_segment_is_gone(backup: Backup) -> None:
    _cut(backup, 4, 22)
    backup.find("replicas", 4).update(last_segment=17, index_offset=22)


@lawful
def the_last_segment_is_empty(backup: Backup) -> None:
    """As where a leader has just begun it."""
    _cut(backup, 4, 22)
    backup.find("replicas", 4).update(last_segment=22, index_offset=22, producers_offset=22)


@breaks("log_lag")
def half_of_a_log_is_gone(backup: Backup) -> None:
    for node in (1, 2, 3):
        row = backup.last_batch(node)
        row.update(last_offset=row["base_offset"] + 500)
    _cut(backup, 4, 14)


@lawful
def a_replica_ends_a_little_behind(backup: Backup) -> None:
    _cut(backup, 4, 22)


@breaks("log_expected_voters")
def no_voter_has_a_directory(backup: Backup) -> None:
    for node in (2, 3, 4):
        backup.remove(node, "replicas")


@breaks("log_committed_by_majority")
def a_majority_has_lost_what_a_snapshot_covers(backup: Backup) -> None:
    for node in (2, 3, 4):
        backup.tables["snapshots"] = [
            row for row in backup.tables["snapshots"] if row["node"] != node or row["end_offset"] == 0
        ]
        _cut(backup, node, 11)


@breaks("log_committed_by_majority")
def the_same_where_voters_have_no_directory_ids(backup: Backup) -> None:
    a_majority_has_lost_what_a_snapshot_covers(backup)
    for row in backup.tables["snapshots"]:
        row.update(voters=None)
    rows = backup.tables["control"]
    backup.tables["control"] = [row for row in rows if row["type"] != "Voters"]


@lawful
def a_minority_ends_below_a_snapshot(backup: Backup) -> None:
    _cut(backup, 4, 11)


@quiet
def kafkas_snapshots_have_the_time_of_writing(backup: Backup) -> None:
    for row in backup.tables["quorum_state"]:
        row.update(crc_ok=None)
    for row in backup.tables["snapshots"]:
        row.update(sha256=f"of {row['directory']}")


@quiet
def kafkas_snapshots_have_an_order_of_their_own(backup: Backup) -> None:
    kafkas_snapshots_have_the_time_of_writing(backup)
    for row in backup.tables["snapshots"]:
        row.update(content_sha256=f"of {row['directory']}")


@quiet
def a_log_begins_at_a_snapshot_within_a_segment(backup: Backup) -> None:
    """Kafka removes whole segments alone, and tells in its checkpoint where the log begins."""
    backup.find("epochs", 1, epoch=1).update(start_offset=12)


@quiet
def a_leader_has_written_nothing_yet(backup: Backup) -> None:
    row = max((row for row in backup.tables["epochs"] if row["node"] == 3), key=lambda row: row["epoch"])
    end = backup.last_batch(3)["last_offset"] + 1
    backup.tables["epochs"].append({**row, "epoch": row["epoch"] + 1, "start_offset": end})
    backup.find("quorum_state", 3).update(leader_epoch=row["epoch"] + 1, leader_id=3, voted_id=3)


@breaks("log_epochs_checkpoint")
def an_epoch_begins_behind_the_end(backup: Backup) -> None:
    a_leader_has_written_nothing_yet(backup)
    backup.tables["epochs"][-1]["start_offset"] += 1
