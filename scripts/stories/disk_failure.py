"""Disk failure: a voter returns blank, with its old id and a new directory id (KIP-853 "Disk failure recovery").

The old directory id remains a voter until it is removed, but the new incarnation does not count for it.  The KIP's text
adds the new one first.  Here, as in Kafka's releases, the old one is removed first, because one id cannot be a voter
twice.
"""

from __future__ import annotations

from scripts.stories.story import Story


def tell(story: Story) -> None:
    nodes = one, two, three = story.make_nodes(1, 2, 3)
    story.three_voters(nodes)
    with story.application():
        story.expect(voters=nodes)

        story.say("The disk of node 3 fails. Its new disk is formatted without voters.")
        lost, lost_directory_id = three.key, three.directory_id
        story.lose_disk(three)
        story.follow(three)
        story.say("The voters are the same as before. The blank node 3 is another replica, and an observer.")
        story.expect(voters=[one, two], gone=[lost], observers=[three])

        story.say("Step by step, the old incarnation is removed and the new one is added.")
        story.quorum("remove-controller", "-i", "3", "-d", lost_directory_id)
        story.expect(voters=[one, two], observers=[three])
        story.quorum("add-controller", "-c", three.properties.name)
        story.expect(voters=nodes)

        story.say("The same happens to node 2. This time one command does both steps.")
        lost = two.key
        story.lose_disk(two)
        story.follow(two)
        story.expect(voters=[one, three], gone=[lost], observers=[two])
        story.quorum("replace", "-i", "2")
        story.expect(voters=nodes)
