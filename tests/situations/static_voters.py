"""Static voters (kraft.version 0), whose files or disks are wrong."""

from __future__ import annotations

import re

import trio

from tests.situations.site import QUIET_S, Site
from tests.situations.staged import staged

SERVERS = ",".join(f"node-{node_id}:9093" for node_id in (1, 2, 3))


async def switched_to_bootstrap_servers(site: Site, *node_ids: int) -> None:
    """Replace the voters in their files before `features upgrade`, and restart."""
    for node_id in node_ids:
        await site.stop(node_id)
        site.cluster.write_keys(
            node_id,
            controller_quorum_voters="",
            controller_quorum_bootstrap_servers=SERVERS,
        )
        await site.start(node_id)
    await trio.sleep(QUIET_S)
    await site.explain()


@staged("two of three static voters are down", voters=3, kraft_version=0)
async def two_down(site: Site) -> None:
    await site.stop(2, 3)
    await trio.sleep(QUIET_S)
    await site.explain()
    site.says("Start one of")
    site.is_advised = True
    await site.copy(site.command(site.codes[0]), on=2)


@staged("a static voter is down since before the leader was elected", voters=3, kraft_version=0)
async def down_since_before(site: Site) -> None:
    """Its directory is looked at before it is started."""
    down, leader = site.followers[0], site.leader
    await site.stop(down)
    await site.stop(leader)
    await site.start(leader)
    await trio.sleep(QUIET_S)
    await site.explain()
    site.says("This leader has never heard it")
    await site.copy(site.command("voter-behind"), on=down)
    assert site.codes == ("survival", "voter-behind")
    site.is_advised = True
    await site.copy(site.command("voter-behind"), on=down)


@staged("every static voter announces a dead address", voters=3, kraft_version=0)
async def dead_addresses(site: Site) -> None:
    await site.stop(1, 2, 3)
    site.cluster.misadvertise([1, 2, 3])
    await site.start(1, 2, 3)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.codes.count("dead-address") == 3
    site.says("correct `advertised.listeners` in its file, and restart it")
    site.is_advised = True
    site.cluster.misadvertise([1, 2, 3], end=True)
    for node_id in (1, 2, 3):
        await site.stop(node_id)
        await site.start(node_id)


@staged("one static voter was switched to bootstrap servers too early", voters=3, kraft_version=0)
async def one_switched(site: Site) -> None:
    await switched_to_bootstrap_servers(site, site.followers[0])
    assert site.codes == ("unnamed-voters", "survival")
    assert "Stop" not in str(site.told)
    site.is_advised = True
    await site.copy(site.command("unnamed-voters"))


@staged("two static voters were switched to bootstrap servers too early", voters=3, kraft_version=0)
async def two_switched(site: Site) -> None:
    await switched_to_bootstrap_servers(site, *site.followers)
    assert site.codes == ("unnamed-voters", "survival")
    site.is_advised = True
    await site.copy(site.command("unnamed-voters"))


@staged("all static voters were switched to bootstrap servers too early", voters=3, kraft_version=0, keeps=(1, 2, 3))
async def all_switched(site: Site) -> None:
    """The line to put back is printed; the restart that it needs is the only thing that is done to the nodes."""
    await switched_to_bootstrap_servers(site, 1, 2, 3)
    assert site.codes == ("unnamed-voters",)
    [line] = re.findall("`controller.quorum.voters=(.*?)`", site.told[0].text)
    for node_id in (1, 2, 3):
        await site.stop(node_id)
        site.cluster.write_keys(node_id, controller_quorum_voters=line, controller_quorum_bootstrap_servers="")
        await site.start(node_id)


@staged("a static voter with a blank disk elected itself", voters=3, kraft_version=0, keeps=(1, 2), invariants=())
async def second_quorum(site: Site) -> None:
    """Its file names itself alone.  The others were called removed, and were to be stopped."""
    await site.stop(3)
    site.blank_disk(3)
    site.cluster.write_static_voters(3, (3,))
    await site.start(3)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert "other-static-voters" in site.codes
    assert "removed" not in site.codes
    if "two-leaders" in site.codes:
        site.says("because the files name different static voters: these are two quorums. Stop writing.")
    site.says("can elect two leaders, which know nothing of each other's records. Stop writing. Keep copies")
    site.is_advised = True
    await site.stop(3)
    site.mount_again(3)
    site.cluster.write_static_voters(3, (1, 2, 3))
    await site.start(3)


@staged("a static voter was added to some files", voters=3, observers=1, kraft_version=0)
async def half_way(site: Site) -> None:
    changed = site.followers[0]
    await site.stop(changed)
    site.cluster.write_static_voters(changed, (1, 2, 3, 4))
    await site.start(changed)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert "other-static-voters" in site.codes
    assert "removed" not in site.codes
    site.says("Any two majorities of them share a voter. Write the same voters into all files, and restart each.")
    site.is_advised = True
    await site.stop(changed)
    site.cluster.write_static_voters(changed, (1, 2, 3))
    await site.start(changed)


@staged("two of three static voters have blank disks", voters=3, kraft_version=0, keeps=(1,), invariants=())
async def blank_majority(site: Site) -> None:
    """They have elected a leader.  Voter 1 is down, and has the only copy: it was to be started."""
    await site.stop(1, 2, 3)
    site.blank_disk(2, 3)
    await site.start(2, 3)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.codes == ("survival", "voter-behind")
    command = site.command("voter-behind")
    assert command.endswith("explain -c FILE"), command
    await site.copy(command, on=1)
    assert site.codes == ("newer-log", "survival", "voter-behind")
    site.says("Do not start it: it would drop its records. Keep a copy of its directory.")
    site.is_advised = True
    for node_id in (2, 3):
        await site.stop(node_id)
        site.mount_again(node_id)
        await site.start(node_id)
    site.is_advised = False
    await site.start(1)
