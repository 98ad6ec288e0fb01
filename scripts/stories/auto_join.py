"""Auto-join: two nodes become voters without a command (KIP-853 "Automatic joining").

With `controller.quorum.auto.join.enable=true`, a controller outside the voter set adds itself.  If its disk was
replaced, it first removes its old incarnation.  A voter that an operator removed stays out.
"""

from __future__ import annotations

from scripts.stories.story import Story

REFUSAL = "not joining by itself"


def tell(story: Story) -> None:
    nodes = one, two, three = story.make_nodes(1, 2, 3)
    story.say("Node 1 is the first voter. All three nodes have the same setting, and know node 1.")
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
        story.say("Nodes 2 and 3 are formatted without voters and started. They need no command.")
        story.follow(two, three)
        story.expect(voters=nodes)

        story.say("Node 3 loses its disk. It is formatted again under the same id, and started.")
        story.lose_disk(three)
        story.follow(three)
        story.say("The new incarnation removes the old one and takes its place.")
        story.expect(voters=nodes)

        story.say(
            "An operator removes node 2. It still runs with auto-join, but stays out, because it was removed "
            "on purpose."
        )
        story.quorum("remove-controller", "-i", "2", "-d", two.directory_id)
        story.until_logged(two, REFUSAL)
        story.say("It stays out after a restart, too.")
        story.stop(two)
        story.start(two)
        story.until_logged(two, REFUSAL, times=2)
        story.expect(voters=[one, three], observers=[two])
