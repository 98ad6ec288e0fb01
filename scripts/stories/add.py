"""Adding controllers: a quorum of one voter grows to three while an application writes (KIP-853 "Add controller").

A new node is formatted without voters and started, and follows as an observer.  `add-controller` with the new node's
configuration file makes it a voter; the leader waits until it has caught up.
"""

from __future__ import annotations

from scripts.stories.story import Story


def tell(story: Story) -> None:
    one, two, three = story.make_nodes(1, 2, 3)
    story.say("A quorum of one voter.")
    story.make_cluster_id()
    story.format(one, "--standalone")
    story.start(one)
    with story.application():
        voters = [one]
        for new in (two, three):
            story.say(
                f"Node {new.id} is formatted without voters and started. It follows as an observer, without a vote."
            )
            story.follow(new)
            story.expect(voters=voters, observers=[new])
            story.say(f"What would change if {new} became a voter?")
            story.quorum("add-controller", "-c", new.properties.name, "--dry-run")
            story.expect(voters=voters, observers=[new])
            story.say("Then it becomes one.")
            story.quorum("add-controller", "-c", new.properties.name)
            voters = [*voters, new]
            story.expect(voters=voters)

        leader = story.leader()
        story.say(f"The quorum of three survives the loss of {leader}, its leader, which the quorum of one could not.")
        story.lose_leader(leader)
        story.start(leader)
        story.expect(voters=voters)

    story.say("A voter is not added again: repeating the command is safe.")
    story.quorum("add-controller", "-c", three.properties.name)
