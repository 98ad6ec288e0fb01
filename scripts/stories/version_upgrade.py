"""Upgrading kraft.version: the voters move from the configuration to the log (KIP-853 "Upgrade KRaft protocol").

With kraft.version 0, `controller.quorum.voters` names the voters, and they cannot change.  The upgrade writes them to
the log, with the directory ids that they have reported to the leader.  Then nodes ignore the key, and it can be
removed.
"""

from __future__ import annotations

from kraft_trio.client.quorum_description import QuorumDescription
from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
from scripts.stories.story import Story

STATIC_VOTERS = "controller.quorum.voters"


def has_static_voters(quorum: QuorumDescription) -> bool:
    return {state.key for state in quorum.voters} == {ReplicaKey(id, NO_DIRECTORY_ID) for id in (1, 2, 3)}


def tell(story: Story) -> None:
    voters = story.make_nodes(1, 2, 3)
    [four] = story.make_nodes(4)
    story.say("A quorum of three static voters. Every file names them, without directory ids.")
    story.make_cluster_id()
    static = {STATIC_VOTERS: ",".join(f"{node.id}@{node.endpoint}" for node in voters)}
    for node in voters:
        story.configure(node, static)
        story.format(node)
    story.start(*voters)
    with story.application():
        story.until("three voters, without directory ids", has_static_voters)
        story.quorum("describe", "--status")
        story.features("describe")

        story.say("Node 4 follows, but cannot become a voter.")
        story.follow(four)
        story.quorum("add-controller", "-c", four.properties.name, refused=True)

        story.say("kraft.version is upgraded to 1.")
        story.features("upgrade", "--feature", "kraft.version=1", "--dry-run")
        story.features("upgrade", "--feature", "kraft.version=1")
        story.features("describe")
        story.say("The log now has the same voters, with directory ids.")
        story.expect(voters=voters, observers=[four])

        story.say(f"{STATIC_VOTERS} is ignored now. Once all nodes report this, it is removed, node by node.")
        for node in voters:
            story.until_metric(node, "ignored-static-voters", 1)
        for node in voters:
            story.stop(node)
            story.configure(node, without=[STATIC_VOTERS])
            story.start(node)
            story.until_metric(node, "ignored-static-voters", 0)
            story.until_in_step(voters=voters, observers=[four])

        story.say("Now the voters can change.")
        story.quorum("add-controller", "-c", four.properties.name)
        story.expect(voters=[*voters, four])

    story.say("There is no way back.")
    story.features("downgrade", "--feature", "kraft.version=0", refused=True)
