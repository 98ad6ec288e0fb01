"""Removing controllers: first a follower, then the leader itself, while an application writes (KIP-853).

A leader that is removed continues until its removal has committed, without counting itself.  Then it hands over.
"""

from __future__ import annotations

from scripts.stories.story import Story


def tell(story: Story) -> None:
    nodes = story.make_nodes(1, 2, 3)
    story.three_voters(nodes)
    with story.application():
        story.expect(voters=nodes)
        leader = story.leader()
        removed = next(node for node in nodes if node is not leader)
        other = next(node for node in nodes if node not in (leader, removed))

        story.say(f"What would change without {removed}, a follower?")
        story.quorum("remove-controller", "-i", str(removed.id), "-d", removed.directory_id, "--dry-run")
        story.expect(voters=nodes)
        story.say("It is removed. Its process continues as an observer, and disturbs nobody.")
        story.quorum("remove-controller", "-i", str(removed.id), "-d", removed.directory_id)
        story.expect(voters=[leader, other], observers=[removed])

        leader = story.leader()
        [left] = {other, *nodes} - {leader, removed}
        story.say(f"Now {leader}, the leader, is removed by its id alone, because only one voter has that id.")
        story.quorum("remove-controller", "-i", str(leader.id))
        story.until("the last voter leads", lambda quorum: quorum.leader_id == left.id)
        story.expect(voters=[left], observers=[leader, removed])

        story.say("Nodes that are no longer voters can stop.")
        story.stop(leader)
        story.stop(removed)
        story.expect(voters=[left])
