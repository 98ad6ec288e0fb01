"""All controllers get new addresses at once, and find each other again (KIP-642).

No endpoint in the log is right any more, so no voter reaches another one there.  The bootstrap servers lead to the new
addresses.
"""

from __future__ import annotations

from scripts.stories.story import Story


def tell(story: Story) -> None:
    voters = story.make_nodes(1, 2, 3)
    moved = dict(zip((1, 2, 3), story.free_endpoints(3), strict=True))

    story.three_voters(voters)
    story.expect(voters=voters)

    with story.application(*moved.values()):
        story.say("All machines go down together, and come back with other addresses.")
        for node in voters:
            story.kill(node)
        servers = ",".join(map(str, moved.values()))
        for node in voters:
            node.endpoint = moved[node.id]
            listeners = {"listeners": f"CONTROLLER://{node.endpoint}", "controller.quorum.bootstrap.servers": servers}
            story.configure(node, listeners)
        story.start(*voters)

        story.say("They tell each other where they are, elect a leader, and it writes the new addresses to the log.")
        story.until(
            "the log has the new addresses",
            lambda quorum: {id: dict(quorum.endpoints.get(id, ())).get("CONTROLLER") for id in moved} == moved,
        )
        story.expect(voters=voters)
