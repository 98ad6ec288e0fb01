"""A node that is left alone, and nodes that do not find it."""

from __future__ import annotations

import re

import trio

from tests.situations.site import QUIET_S, Site
from tests.situations.staged import staged


@staged("an observer's bootstrap servers do not lead to the leader", voters=1, observers=1)
async def bootstrap_leads_nowhere(site: Site) -> None:
    cluster = site.cluster
    [observer] = cluster.setup.observer_ids
    await site.stop(observer)
    site.blank_disk(observer)
    cluster.write_keys(observer, controller_quorum_bootstrap_servers="nobody:9093")
    cut = cluster.network.one_way(cluster.machines[1].host, cluster.machines[observer].host)  # It announces itself.
    await site.start(observer)
    await trio.sleep(QUIET_S)
    await site.explain()
    told = site.says(
        "`controller.quorum.bootstrap.servers` in its file names nobody:9093, which does not lead to node 1 at"
    )
    assert told.code == "no-way-to-leader"
    site.is_advised = True
    await site.stop(observer)
    cluster.network.heal(cut)
    cluster.write_keys(observer, controller_quorum_bootstrap_servers=str(cluster.endpoint_of(1)))
    await site.start(observer)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert "no-way-to-leader" not in site.codes


@staged("the survivor of three is down, and asked alone", voters=3)
async def asked_alone(site: Site) -> None:
    """Its log tells who the voters are, as `storage recover` does, and the command is complete."""
    await site.stop(1, 2, 3)
    await site.explain(1, with_file_of=1)
    told = site.says(
        "By the log on this machine, the voters are 1, 2, 3, and two of them are needed. Only if their disks"
    )
    [command] = re.findall("`(kraft storage recover [^`]*)`", told.text)
    assert command == f"kraft storage recover -c {site.file_of(1)} --unsafe-only-voter"
    shown = await site.kraft(*command.split()[1:])
    assert "nothing was changed; --cluster-id " in shown.err
    site.is_advised = True
    start = site.command("no-answer")
    assert start == f"kraft server start -c {site.file_of(1)}"
    await site.copy(start, on=1)
    await site.explain(1, with_file_of=1)
    await site.copy(site.command("no-majority"), on=2)
    await site.start(3)


@staged("a voter of three is down, and its file is given", voters=3)
async def file_given(site: Site) -> None:
    down = site.followers[0]
    await site.stop(down)
    await trio.sleep(QUIET_S)
    await site.explain(with_file_of=down)
    site.is_advised = True
    assert site.command("voter-behind") == f"kraft server start -c {site.file_of(down)}"
    await site.copy(site.command("voter-behind"), on=down)


@staged("two voters of three are down, and the file of one is given", voters=3)
async def one_file_of_two(site: Site) -> None:
    """What is said of the other one is not about that file."""
    await site.stop(2, 3)
    await trio.sleep(QUIET_S)
    await site.explain(with_file_of=3)
    site.is_advised = True
    assert site.command(site.codes[0]) == f"kraft server start -c {site.file_of(3)}"
    await site.copy(site.command(site.codes[0]), on=3)
    await trio.sleep(QUIET_S)
    await site.explain(with_file_of=3)
    assert site.command("voter-behind") == "kraft server start -c FILE"
    await site.copy(site.command("voter-behind"), on=2)


async def replaced_as_told(site: Site, lost: int) -> None:
    """The disk is gone: a blank one is formatted, the node is started and replaced, each by what is printed."""
    await site.stop(lost)
    site.move_away(lost)
    await trio.sleep(QUIET_S)
    await site.explain()
    told = site.says(f"Voter {lost} is offline")
    formatting, replacing = re.findall("`(kraft (?:storage|metadata-quorum) [^`]*)`", told.text)
    assert formatting.endswith("-c FILE --no-initial-controllers")
    assert replacing.endswith(f"replace -i {lost}")
    site.is_advised = True
    await site.copy(formatting, on=lost)
    await site.copy(site.command_of(f"Voter {lost} is offline"), on=lost)
    await trio.sleep(QUIET_S)
    await site.copy(replacing)


@staged("a follower's disk is lost", voters=3)
async def follower_lost(site: Site) -> None:
    await replaced_as_told(site, site.followers[0])


@staged("the leader's disk is lost", voters=3)
async def leader_lost(site: Site) -> None:
    await replaced_as_told(site, site.leader)


@staged("one of five disks is lost", voters=5)
async def one_of_five_lost(site: Site) -> None:
    await replaced_as_told(site, site.followers[-1])


@staged("the disk of a voter that is down is read-only", voters=3)
async def read_only(site: Site) -> None:
    down = site.followers[0]
    await site.stop(down)
    await trio.sleep(QUIET_S)
    disk = site.cluster.machines[down].disk
    disk.read_only = True
    await site.explain(with_file_of=down)
    site.says("/data: its file system is read-only, as after an error of the disk.")
    assert "make room" not in str(site.told)
    assert not [one.command for one in site.told if one.command is not None and "server start" in one.command]
    disk.read_only = False
    site.is_advised = True
    await site.start(down)


@staged("the file of a node that answers is given", voters=3)
async def file_of_one_that_answers(site: Site) -> None:
    """Its directory is not looked at, and it is not to be started."""
    down, other = site.followers
    await site.stop(down)
    await trio.sleep(QUIET_S)
    await site.explain(with_file_of=other)
    assert site.codes == ("survival", "voter-behind")
    assert site.command("voter-behind") == "kraft server start -c FILE"
    site.is_advised = True
    await site.copy(site.command("voter-behind"), on=down)


@staged("an observer is down, and its file is given", voters=3, observers=1)
async def observer_down(site: Site) -> None:
    [observer] = site.cluster.setup.observer_ids
    await site.stop(observer)
    await trio.sleep(QUIET_S)
    await site.explain(with_file_of=observer)
    assert site.codes == ("survival",)
    site.is_advised = True
    await site.start(observer)


@staged("an observer finds the leader through another node", voters=3, observers=1)
async def bootstrap_leads_on(site: Site) -> None:
    cluster = site.cluster
    [observer] = cluster.setup.observer_ids
    await site.stop(observer)
    site.blank_disk(observer)
    servers = ",".join(str(cluster.endpoint_of(id)) for id in site.followers)
    cluster.write_keys(observer, controller_quorum_bootstrap_servers=servers)
    await site.start(observer)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.codes == ("observers", "survival")


@staged("two static voters are down, and the file of one is given", voters=3, kraft_version=0)
async def static_file_given(site: Site) -> None:
    """What static voters are recovered with is not the flag of the others."""
    await site.stop(2, 3)
    await trio.sleep(QUIET_S)
    await site.explain(with_file_of=3)
    assert "--unsafe-only-voter" not in str(site.told)
    site.is_advised = True
    assert site.command(site.codes[0]) == f"kraft server start -c {site.file_of(3)}"
    await site.copy(site.command(site.codes[0]), on=3)
    await trio.sleep(QUIET_S)
    await site.start(2)
