"""Bootstrapping with three voters, all of them known before the first one starts (KIP-853).

Every node is formatted with the same list, including directory ids, so all start with the same voters.
"""

from __future__ import annotations

from scripts.stories.story import Story


def tell(story: Story) -> None:
    nodes = story.make_nodes(1, 2, 3)
    story.say("Three directory ids are created, and each node is formatted with the same list of voters.")
    initial_controllers = story.begin_with(nodes)

    story.say("They are started and elect a leader.")
    story.start(*nodes)
    with story.application():
        story.expect(voters=nodes)
        leader = story.leader()
        story.say(f"One of three voters may fail. Here it is {leader}, the leader.")
        story.lose_leader(leader)
        story.expect(voters=nodes)
        story.say("It returns and follows.")
        story.start(leader)
        story.expect(voters=nodes)

    story.say("A list of voters is for a new directory only. A formatted node is not formatted again.")
    format_again = ("storage", "format", "-t", story.cluster_id, "-c", nodes[0].properties.name)
    story.kraft(*format_again, "--initial-controllers", initial_controllers, refused=True)
