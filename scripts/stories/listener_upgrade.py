"""Changing the controllers' listener, node by node and without an interruption (KIP-853).

Every node first gets the second listener, then makes it the default, then drops the first.  The endpoints spread by
themselves: each node reports them to the leader, which writes them to the log.
"""

from __future__ import annotations

from scripts.stories.node import Node
from scripts.stories.story import Story

OLD, NEW = "CONTROLLER", "CONTROLLER_2"


def tell(story: Story) -> None:
    voters = story.make_nodes(1, 2, 3)
    [broker] = story.make_nodes(4)
    second = dict(zip((1, 2, 3), story.free_endpoints(3), strict=True))
    first = {node.id: node.endpoint for node in voters}
    new_servers = ",".join(map(str, second.values()))

    story.say("A quorum of three voters with one listener each, and node 4, an observer with the role of a broker.")
    story.begin_with(voters)
    story.start(*voters)
    without_listener = {
        "process.roles": "broker",
        "listeners": f"PLAIN://{broker.endpoint}",
        "controller.quorum.bootstrap.servers": ",".join(map(str, first.values())),
    }
    story.configure(broker, without_listener)
    story.follow(broker)

    def restart_with(node: Node, *names: str) -> None:
        """Stop each node, change its listeners, and start it.  The leader must learn of them before the next node's
        turn.
        """
        endpoints = {OLD: first[node.id], NEW: second[node.id]}
        story.stop(node)
        settings = {
            "controller.listener.names": ",".join(names),
            "listeners": ",".join(f"{name}://{endpoints[name]}" for name in sorted(names)),
        }
        if OLD not in names:
            settings["controller.quorum.bootstrap.servers"] = new_servers
        story.configure(node, settings)
        node.endpoint = endpoints[names[0]]
        story.start(node)
        wanted = {name: endpoints[name] for name in names}
        story.until(
            f"{node} listens on {wanted}",
            lambda quorum: node.id in quorum.endpoints and dict(quorum.endpoints[node.id]) == wanted,
        )
        story.until_in_step(voters=voters, observers=[broker])

    with story.application(*second.values()):
        story.expect(voters=voters, observers=[broker])

        story.say(f"First, every controller also listens on {NEW}.")
        for node in voters:
            restart_with(node, OLD, NEW)
        story.expect(voters=voters, observers=[broker])

        story.say(f"Second, {NEW} becomes the default, by which controllers reach each other.")
        for node in voters:
            restart_with(node, NEW, OLD)

        story.say(f"Third, the broker uses {NEW}.")
        story.stop(broker)
        switched = {"controller.listener.names": NEW, "controller.quorum.bootstrap.servers": new_servers}
        story.configure(broker, switched)
        story.start(broker)
        story.expect(voters=voters, observers=[broker])

        story.say(f"Last, {OLD} is dropped.")
        for node in voters:
            restart_with(node, NEW)
        story.expect(voters=voters, observers=[broker])
