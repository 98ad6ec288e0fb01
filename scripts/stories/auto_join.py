"""Controllers that join by themselves: two nodes become voters without a command (KIP-853 "Automatic joining").

With `controller.quorum.auto.join.enable=true` a controller that is no voter adds itself, and one whose disk was
replaced removes its old incarnation first.  One that an operator has removed stays away.
"""

from __future__ import annotations

from scripts.stories.story import Story

REFUSAL = "not joining by itself"


def tell(story: Story) -> None:
    nodes = one, two, three = story.make_nodes(1, 2, 3)
    story.say("Node 1 is the first voter. All three have the same setting, and know node 1.")
    story.make_cluster_id()
    for node in nodes:
        joining = {
            "controller.quorum.auto.join.enable": "true",
            "controller.quorum.bootstrap.servers": str(one.endpoint),
        }
        story.configure(node, joining)
    story.format(one, "--standalone")
    story.start(one)
    with story.application():
        story.expect(voters=[one])
        story.say("Nodes 2 and 3 are formatted without voters and started; nobody does anything else.")
        for new in (two, three):
            story.format(new, "--no-initial-controllers")
        story.start(two, three)
        story.expect(voters=nodes)

        story.say("The disk of node 3 is lost. It is formatted again, under the same id, and started.")
        story.kill(three)
        story.lose_disk(three)
        story.format(three, "--no-initial-controllers")
        story.start(three)
        story.say("The new incarnation removes the old one, and takes its place.")
        story.expect(voters=nodes)

        story.say(
            "An operator removes node 2. It is running, and set to join, but it stays away: it was removed on purpose."
        )
        story.quorum("remove-controller", "-i", "2", "-d", two.directory_id)
        story.until_logged(two, REFUSAL)
        story.say("That holds after a restart, too.")
        story.stop(two)
        story.start(two)
        story.until_logged(two, REFUSAL, times=2)
        story.expect(voters=[one, three], observers=[two])
