"""Voters in the log (kraft.version 1), whose processes or links fail."""

from __future__ import annotations

import re

import trio

from kraft_trio.protocol.types import directory_id_to_text
from tests.actors.membership.test_shared_node_id import run_stray
from tests.situations.site import QUIET_S, Site
from tests.situations.staged import staged


@staged("one of three voters is down", voters=3)
async def one_down(site: Site) -> None:
    await _one_is_down(site, site.followers[0])


@staged("the leader is down", voters=3)
async def leader_down(site: Site) -> None:
    await _one_is_down(site, site.leader)


async def _one_is_down(site: Site, down: int) -> None:
    await site.stop(down)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.codes == ("survival", "voter-behind")
    site.is_advised = True
    await site.copy(site.command("voter-behind"), on=down)


@staged("two of three voters are down", voters=3)
async def two_down(site: Site) -> None:
    await site.stop(2, 3)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.codes[0] in ("no-majority", "survival")
    assert "one of" in site.says("Start one of").text
    site.is_advised = True
    await site.copy(site.command(site.codes[0]), on=3)


@staged("all voters are down", voters=3)
async def all_down(site: Site) -> None:
    await site.stop(1, 2, 3)
    await site.explain()
    assert site.codes == ("no-answer",)
    site.is_advised = True
    await site.copy(site.command("no-answer"), on=1)
    await site.explain()
    assert site.codes == ("no-majority",)
    await site.copy(site.command("no-majority"), on=2)
    await trio.sleep(QUIET_S)
    await site.explain()
    await site.copy(site.command("voter-behind"), on=3)


@staged("three of five voters are down", voters=5)
async def three_of_five_down(site: Site) -> None:
    await site.stop(3, 4, 5)
    await trio.sleep(QUIET_S)
    await site.explain()
    site.says("Start one of")
    site.is_advised = True
    await site.copy(site.command(site.codes[0]), on=4)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert "no more failure" in site.told[0].text
    for node_id in (3, 5):
        await site.copy(site.command_of(f"Voter {node_id}"), on=node_id)


@staged("a voter hangs", voters=3)
async def hangs(site: Site) -> None:
    hanging = site.followers[0]
    site.cluster.machines[hanging].pause()
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.codes == ("survival", "voter-behind")
    site.says("restart it if it hangs")
    site.is_advised = True
    await site.stop(hanging)
    await site.copy(site.command("voter-behind"), on=hanging)


@staged("the only voter is down", voters=1, observers=1)
async def only_voter_down(site: Site) -> None:
    await site.stop(1)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.codes == ("no-majority", "observers")
    site.is_advised = True
    await site.copy(site.command("no-majority"), on=1)


@staged("a voter is cut off from the leader, and answers here", voters=3)
async def cut_off(site: Site) -> None:
    away = site.followers[0]
    others = [id for id in (1, 2, 3) if id != away]
    site.cluster.partition([away], others)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.codes[-1] == "voter-behind"
    site.says(f"Its node runs, but does not fetch from the leader: node-{site.leader}:9093: cannot connect")
    site.cluster.heal()


@staged("the voters do not reach one another, and answer here", voters=3)
async def none_reach_each_other(site: Site) -> None:
    site.cluster.partition([1], [2], [3])
    await trio.sleep(QUIET_S)
    await site.explain()
    assert "no-leader" in site.codes
    site.says("the voters do not reach one another")
    site.cluster.heal()
    await trio.sleep(QUIET_S)
    site.is_advised = True
    assert "critical" not in (await site.copy(site.command("no-leader"))).out


@staged("the leader is cut off from here alone", voters=3)
async def not_reached(site: Site) -> None:
    leader = site.leader
    site.cluster.network.partition(["operator"], [f"node-{leader}"])
    await site.explain()
    assert set(site.codes) <= {"not-reached", "survival", "leader-not-reached", "no-leader"}
    site.cluster.heal()


@staged("a removed voter does not know it", voters=3)
async def removed(site: Site) -> None:
    away = site.followers[0]
    cluster = site.cluster
    cluster.partition([away], [id for id in (1, 2, 3) if id != away])
    key, asked = cluster.key_of(away), str(cluster.endpoint_of(site.leader))
    removal = ("remove-controller", "-i", str(away), "-d", directory_id_to_text(key.directory_id))
    assert (await site.kraft("metadata-quorum", "--bootstrap-controller", asked, *removal)).code == 0
    await trio.sleep(QUIET_S)
    await site.explain()
    assert "removed" in site.codes
    site.says(f"Node {away} was removed, and does not know it")
    site.is_advised = True
    await site.stop(away)
    cluster.heal()


@staged("a clock is an hour ahead", voters=3)
async def wrong_clock(site: Site) -> None:
    site.cluster.machines[2].wall_clock_offset_ms = 3_600_000
    await site.explain()
    assert site.codes == ("clock", "survival")
    site.says("The clock of node 2 is 60 minutes ahead of the others. Set it right")
    site.cluster.machines[2].wall_clock_offset_ms = 0


@staged("an observer is down", voters=3, observers=1)
async def observer_down(site: Site) -> None:
    await site.stop(4)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.codes == ("survival",)


@staged("two processes run on copies of a directory", voters=3, invariants=())
async def copies(site: Site) -> None:
    """Stop one of them; the other one counts then."""
    cluster = site.cluster
    follower = cluster.nodes[site.followers[0]]
    copy = cluster.machines[follower.key.id].disk.copy()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_stray, cluster, follower, 600.0, copy)
        await trio.sleep(QUIET_S)
        await site.explain()
        assert site.codes[0] == "shared-id"
        site.says("Stop the wrong one")
        nursery.cancel_scope.cancel()
    await trio.sleep(100)
    await site.explain()
    assert "shared-id" not in site.codes


@staged("an old copy of a voter's directory was started", voters=3, invariants=())
async def old_copy(site: Site) -> None:
    """It counts again once it has caught up, which needs no advice."""
    away = site.followers[0]
    await site.stop(away)
    machine = site.cluster.machines[away]
    machine.kept_disk, machine.kept_key = machine.disk.copy(), site.cluster.key_of(away)
    await site.start(away)
    await site.cluster.wait_until_alike()
    leader = site.cluster.leader()
    assert leader is not None
    await leader.append([b"d"])
    await site.cluster.wait_until_alike()
    await site.stop(away)
    site.mount_again(away)
    await site.start(away)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.codes[0] == "restored-voter"
    site.says("It has caught up, and counts again.")


@staged("a voter change cannot commit", voters=3, observers=1)
async def pending_change(site: Site) -> None:
    """The new set of four needs three; two are up."""
    cluster, leader = site.cluster, site.leader
    others = [id for id in (1, 2, 3) if id != leader]
    await cluster.machines[4].start()
    ran = await site.kraft(
        "metadata-quorum", "--bootstrap-controller", str(cluster.endpoint_of(leader)), "reassign", "--to", "1,2,3,4"
    )
    assert ran.code == 0, ran
    await trio.sleep(QUIET_S)
    await site.stop(others[0])
    await site.stop(4)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.told[0].severity == "critical", site.told
    site.says("Start one of")
    site.is_advised = True
    await site.copy(site.command(site.codes[0]), on=others[0])
    await trio.sleep(QUIET_S)
    await site.explain()
    await site.copy(site.command("voter-behind"), on=4)


@staged("a voter is paused for a moment, and the others elect another leader", voters=3)
async def paused_leader(site: Site) -> None:
    old = site.leader
    site.cluster.machines[old].pause()
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.codes == ("survival", "voter-behind")
    site.cluster.machines[old].resume()
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.codes == ("survival",)


@staged("nodes of two clusters answer", voters=3, observers=1, invariants=())
async def two_clusters(site: Site) -> None:
    machine = site.cluster.machines[4]
    await site.stop(4)
    site.move_away(4)
    site.lists += 1
    other = ("--no-initial-controllers", "-t", "another-cluster-000000")
    await site._format("storage", "format", "-c", str(site.file_of(4)), *other, on=4)
    machine.excuse("its cluster is another")
    await site.start(4)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.codes[0] == "clusters"
    site.says("correct the addresses that led to the others")
    await site.stop(4)


@staged("the bootstrap servers in a voter's file are gone, and it finds the leader by its log", voters=3)
async def bootstrap_servers_are_gone(site: Site) -> None:
    """Said also if the command names other servers."""
    listing = site.followers[0]
    await site.stop(listing)
    site.cluster.write_keys(listing, controller_quorum_bootstrap_servers="nobody:9093")
    await site.start(listing)
    await trio.sleep(QUIET_S)
    await site.explain(site.leader, with_file_of=listing)
    assert site.codes == ("wrong-list", "survival")
    named = re.search("`controller.quorum.bootstrap.servers=(.*)`, and restart it", site.says("nobody:9093. By").text)
    assert named is not None
    site.is_advised = True
    await site.stop(listing)
    site.cluster.write_keys(listing, controller_quorum_bootstrap_servers=named[1])
    await site.start(listing)
    await trio.sleep(QUIET_S)
    await site.explain(site.leader, with_file_of=listing)
    assert site.codes == ("survival",)
