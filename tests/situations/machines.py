"""One machine is wrong: its address, its directory, its name, its disk."""

from __future__ import annotations

import trio

from kraft_trio.kv import KvMachine
from kraft_trio.kv.command_serde import CommandSerde
from kraft_trio.kv.requests import AlarmAction, AlarmRequest, AlarmType
from kraft_trio.status.health import as_text, readiness
from tests.situations.site import QUIET_S, Site
from tests.situations.staged import staged


@staged("a voter announces a dead address", voters=3)
async def dead_address(site: Site) -> None:
    wrong = site.followers[0]
    await site.stop(wrong)
    site.cluster.misadvertise([wrong])
    await site.start(wrong)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert "dead-address" in site.codes
    site.says(f"Nobody listens at node-{wrong}:")
    site.is_advised = True
    site.cluster.misadvertise([wrong], end=True)
    await site.stop(wrong)
    await site.start(wrong)


@staged("the start of a static voter would be refused", voters=3, observers=1, kraft_version=0)
async def refused_start(site: Site) -> None:
    """Its file names other voters than before: no command starts it."""
    wrong = site.followers[0]
    await site.stop(wrong)
    site.cluster.write_static_voters(wrong, (wrong, 4))
    await trio.sleep(QUIET_S)
    await site.explain(with_file_of=wrong)
    assert "directory" in site.codes
    assert not any("server start" in (one.command or "") for one in site.told)
    site.says("could elect a leader without what")
    site.cluster.write_static_voters(wrong, (1, 2, 3))
    await site.explain(with_file_of=wrong)
    assert "directory" not in site.codes
    site.is_advised = True
    await site.copy(site.command("voter-behind"), on=wrong)


@staged("the directory of a voter that is down is not mounted", voters=3)
async def not_mounted(site: Site) -> None:
    away = site.followers[0]
    await site.stop(away)
    site.move_away(away)
    await trio.sleep(QUIET_S)
    await site.explain(with_file_of=away)
    assert "directory" in site.codes
    site.says("Mount its disk.")
    assert not any("server start" in (one.command or "") for one in site.told)
    site.mount_again(away)
    await site.explain(with_file_of=away)
    site.is_advised = True
    await site.copy(site.command("voter-behind"), on=away)


@staged("all voters have lost their power at once", voters=3)
async def power_failure(site: Site) -> None:
    for machine in site.cluster.machines.values():
        machine.crash()
    for node_id in (1, 2, 3):
        await site.cluster.machines[node_id].wait_until_ended()
    await site.explain()
    assert site.codes == ("no-answer",)
    site.is_advised = True
    command = site.command("no-answer")
    for node_id in (1, 2, 3):
        await site.copy(command, on=node_id)


@staged("a follower is behind a slow link", voters=3)
async def one_way(site: Site) -> None:
    """It reaches nobody, and is reached."""
    away = site.followers[0]
    site.cluster.network.isolate(f"node-{away}", [f"node-{id}" for id in (1, 2, 3) if id != away], silent=True)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert "voter-behind" in site.codes
    assert "Start" not in " ".join(one.text for one in site.told)
    site.cluster.heal()


@staged(
    "the key-value store is full",
    voters=3,
    writes=False,
    is_repaired=False,
    serde=CommandSerde(),
    state_machine=lambda _: KvMachine(),
)
async def full_store(site: Site) -> None:
    """The alarm is part of the state, so that all nodes have it, and none is to be taken out of service."""
    leader = await site.cluster.wait_for_leader()
    await leader.execute(AlarmRequest(AlarmAction.ACTIVATE, alarm=AlarmType.NOSPACE))
    await site.cluster.wait_until_alike()
    await site.explain()
    assert site.codes == ("store-full",)
    site.says("alarm NOSPACE, at a quota of")
    site.says("Then disarm: `kraft kv alarm disarm`.")
    checks = readiness(leader.tree, ())
    assert as_text("readyz", checks, verbose=False)[0] == 200
    assert b"state-machine-applies ok, but: alarm NOSPACE" in as_text("readyz", checks, verbose=False)[1]
    await leader.execute(AlarmRequest(AlarmAction.DEACTIVATE, alarm=AlarmType.NOSPACE))
    await site.explain()
    assert site.codes == ("survival",)
    assert as_text("readyz", readiness(leader.tree, ()), verbose=False) == (200, b"ok\n")
