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
