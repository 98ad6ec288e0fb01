"""All voters are exchanged by one command, and then exchanged back one change at a time (KIP-642).

`reassign --to` names the voters to have, and the leader takes the steps.  By hand, a person takes the same steps in the
same order.  The application writes all the while, and the story compares what it noticed.  The command is measured
twice, because new voters have no connections to each other yet when they elect a leader for the first time.
"""

from __future__ import annotations

from collections.abc import Sequence

from scripts.stories.node import Node
from scripts.stories.service import table
from scripts.stories.story import Story


def tell(story: Story) -> None:
    nodes = story.make_nodes(1, 2, 3, 4, 5, 6)
    first, second = nodes[:3], nodes[3:]
    story.three_voters(first)
    with story.application() as application:
        story.say("Three further nodes are formatted without voters, and follow.")
        for node in second:
            story.follow(node)
        story.expect(voters=first, observers=second)

        story.say("What would the leader do to make them the voters instead?")
        story.quorum("reassign", "--to", "4,5,6", "--dry-run")
        story.say("Then it does so. The command only watches, and the next leader continues if this one fails.")
        with application.measured("one command"):
            story.quorum("reassign", "--to", "4,5,6", "--wait")
        story.expect(voters=second, observers=first)

        story.say("By hand, each step of the way back is a command: a voter is added, one is removed, the leader last.")
        with application.measured("by hand"):
            _exchange_by_hand(story, second, first)
        story.expect(voters=first, observers=second)

        story.say("And once more with one command.")
        with application.measured("one command again"):
            story.quorum("reassign", "--to", "4,5,6", "--wait")
        story.expect(voters=second, observers=first)

    story.say("What the application noticed:")
    story.show(table(application.services))


def _exchange_by_hand(story: Story, leaving: Sequence[Node], coming: Sequence[Node]) -> None:
    leader = story.leader()
    leader_last = sorted(leaving, key=lambda node: node is leader)
    for new, old in zip(coming, leader_last, strict=True):
        story.quorum("add-controller", "-c", new.properties.name)
        story.quorum("remove-controller", "-i", str(old.id))
