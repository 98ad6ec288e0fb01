"""Disk failure: a voter comes back blank, under its old id with a new directory id (KIP-853 "Disk failure recovery").

The old directory id stays a voter until it is removed, but nothing that the new incarnation says counts for it.
The KIP's text adds the new one first; as in Kafka's releases one id cannot be a voter twice, so the old one goes first.
"""

from __future__ import annotations

from scripts.stories.story import Story


def tell(story: Story) -> None:
    nodes = one, two, three = story.make_nodes(1, 2, 3)
    story.say("A quorum of three voters.")
    story.begin_with(nodes)
    story.start(*nodes)
    with story.application():
        story.expect(voters=nodes)

        story.say("The disk of node 3 fails. It gets a new one, which is formatted without voters.")
        lost, lost_directory_id = three.key, three.directory_id
        story.kill(three)
        story.lose_disk(three)
        story.format(three, "--no-initial-controllers")
        story.start(three)
        story.say("The voters are who they were; the blank node 3 is another replica, an observer.")
        story.expect(voters=[one, two], gone=[lost], observers=[three])

        story.say("Step by step: the old incarnation is removed, then the new one is added.")
        story.quorum("remove-controller", "-i", "3", "-d", lost_directory_id)
        story.expect(voters=[one, two], observers=[three])
        story.quorum("add-controller", "-c", three.properties.name)
        story.expect(voters=nodes)

        story.say("It happens again, to node 2; this time one command does both.")
        lost = two.key
        story.kill(two)
        story.lose_disk(two)
        story.format(two, "--no-initial-controllers")
        story.start(two)
        story.expect(voters=[one, three], gone=[lost], observers=[two])
        story.quorum("replace", "-i", "2")
        story.expect(voters=nodes)
