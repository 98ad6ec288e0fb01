"""Backup and restore: a quorum saves its state, loses all its disks, and a new cluster starts from the backup.

`snapshot save` copies a committed snapshot from the running quorum.  `snapshot restore` starts a new one-voter cluster
from it, with a new cluster id and directory id.  Then the cluster grows (KIP-630, KIP-853).
"""

from __future__ import annotations

from pathlib import Path

from kraft_trio.storage.batches.batch import Record
from kraft_trio.storage.snapshots.checkpoint import read_checkpoint
from scripts.stories.node import StoryError
from scripts.stories.story import Story

BACKUP = "backup.checkpoint"
AFTERWARDS = "afterwards.checkpoint"


def tell(story: Story) -> None:
    old = story.make_nodes(1, 2, 3)
    story.say("A quorum of three voters, which keeps the newest record of each key, and all records without a key.")
    for node in old:
        story.configure(node, {"kraft.state.machine": "latest-by-key"})
    story.begin_with(old)
    story.start(*old)
    story.expect(voters=old)
    with story.application() as application:
        application.until_written(100)
    story.say("Each node takes a snapshot. The leader's is saved and checked.")
    story.kraft("snapshot", "take", "--bootstrap-controller", str(old[0].endpoint), "--all")
    story.kraft("snapshot", "save", "--bootstrap-controller", story.bootstrap, BACKUP)
    story.kraft("snapshot", "verify", BACKUP)

    story.say("All three machines are lost.")
    old_cluster_id = story.cluster_id
    for node in old:
        story.lose_disk(node)

    story.say("A new cluster cannot have the old cluster's id.")
    new = four, five, six = story.make_nodes(4, 5, 6)
    bootstrap = ",".join(str(node.endpoint) for node in new)
    for node in new:
        story.configure(
            node, {"kraft.state.machine": "latest-by-key", "controller.quorum.bootstrap.servers": bootstrap}
        )
    story.kraft("snapshot", "restore", BACKUP, "-c", four.properties.name, "-t", old_cluster_id, refused=True)
    story.say("With a new id, node 4 becomes the only voter of a new cluster, and leads it.")
    story.make_cluster_id()
    story.kraft("snapshot", "restore", BACKUP, "-c", four.properties.name, "-t", story.cluster_id)
    story.start(four)
    story.expect(voters=[four])

    story.say("It grows to three, while an application writes.")
    with story.application():
        voters = [four]
        for node in (five, six):
            story.follow(node)
            story.quorum("add-controller", "-c", node.properties.name)
            voters = [*voters, node]
            story.expect(voters=voters)

    story.say("Its state holds what was saved and what was written since.")
    story.kraft("snapshot", "take", "--bootstrap-controller", str(four.endpoint), "--all")
    story.kraft("snapshot", "save", "--bootstrap-controller", str(four.endpoint), AFTERWARDS)
    before, after = (_values(story.home / name) for name in (BACKUP, AFTERWARDS))
    if after[: len(before)] != before or after != story.written:
        raise StoryError(f"{len(before)} records were saved, {len(story.written)} written, {len(after)} are there")


def _values(file: Path) -> list[str]:
    """Those in a snapshot, in their order."""
    return [(r.value or b"").decode() for r in read_checkpoint(file.read_bytes()) if isinstance(r, Record)]
