"""Node failure: a voter is gone for good, and another node takes its place (KIP-853 "Node failure recovery").

The new node is added before the failed one is removed: three of four voters are alive, which is a majority.
"""

from __future__ import annotations

from scripts.stories.story import Story


def tell(story: Story) -> None:
    one, two, three, four = story.make_nodes(1, 2, 3, 4)
    voters = [one, two, three]
    story.three_voters(voters)
    with story.application():
        story.expect(voters=voters)
        story.say("The machine of node 3 burns down.")
        failed, failed_directory_id = three.key, three.directory_id
        story.lose_disk(three)
        story.expect(voters=[one, two], gone=[failed])

        story.say("A new machine, node 4, follows the quorum.")
        story.follow(four)
        story.expect(voters=[one, two], gone=[failed], observers=[four])

        story.say("Node 4 becomes a voter. Then the failed node is removed.")
        story.quorum("add-controller", "-c", four.properties.name)
        story.expect(voters=[one, two, four], gone=[failed])
        story.quorum("remove-controller", "-i", "3", "-d", failed_directory_id)
        story.expect(voters=[one, two, four])

        leader = story.leader()
        story.say(f"The quorum can again lose any voter; here it loses {leader}, its leader.")
        story.lose_leader(leader)
        story.start(leader)
        story.expect(voters=[one, two, four])
