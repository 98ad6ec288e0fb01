"""Bootstrapping with one voter: a quorum of one, to which others can be added later (KIP-853).

`kraft storage format --standalone` creates the directory id, and a bootstrap checkpoint with this node as the only
voter.  It runs once in the life of a cluster.
"""

from __future__ import annotations

from scripts.stories.story import Story


def tell(story: Story) -> None:
    [one] = story.make_nodes(1)
    story.say("The first node is formatted as the only voter, and its directory gets an id.")
    story.make_cluster_id()
    story.format(one, "--standalone")
    story.kraft("storage", "info", "-c", one.properties.name)

    story.say("It is started and leads at once, because it is a majority by itself.")
    story.start(one)
    with story.application():
        story.expect(voters=[one])
        story.say("Its machine fails for a moment and returns. The node knows its voters from its log.")
        story.kill(one)
        story.start(one)
        story.expect(voters=[one])

    story.say("The last voter cannot be removed.")
    story.quorum("remove-controller", "-i", "1", "-d", one.directory_id, refused=True)
    story.expect(voters=[one])
