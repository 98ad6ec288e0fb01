"""Disks that are blank, of another incarnation, or copies."""

from __future__ import annotations

import trio

from tests.situations.site import QUIET_S, Site
from tests.situations.staged import staged


@staged("one of three disks is blank", voters=3)
async def one_blank(site: Site) -> None:
    await _follower_gets_a_blank_disk(site)
    assert "other-directory" in site.codes
    site.says("the node has a blank or another disk, so it does not vote. Mount the voter's disk; if that is lost")
    site.is_advised = True
    await site.copy(site.command("other-directory"))


@staged("one of three disks is not mounted", voters=3)
async def one_not_mounted(site: Site) -> None:
    blank = await _follower_gets_a_blank_disk(site)
    site.says("Mount the voter's disk")
    site.is_advised = True
    await site.stop(blank)
    site.mount_again(blank)
    await site.start(blank)


async def _follower_gets_a_blank_disk(site: Site) -> int:
    """Which one; it has been explained."""
    blank = site.followers[0]
    await site.stop(blank)
    site.blank_disk(blank)
    await site.start(blank)
    await trio.sleep(QUIET_S)
    await site.explain()
    return blank


@staged("two of three disks are blank", voters=3, keeps=(1,))
async def two_blank(site: Site) -> None:
    await site.stop(1, 2, 3)
    site.blank_disk(2, 3)
    await site.start(1, 2, 3)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.codes == ("other-disks",)
    site.says("Mount those disks again. Leave node 1 as it is: nobody else may have the records.")
    site.is_advised = True
    for node_id in (2, 3):
        await site.stop(node_id)
        site.mount_again(node_id)
        await site.start(node_id)


@staged("three of five disks are blank", voters=5, keeps=(1, 2))
async def three_blank(site: Site) -> None:
    await site.stop(1, 2, 3, 4, 5)
    site.blank_disk(3, 4, 5)
    await site.start(1, 2, 3, 4, 5)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.codes == ("other-disks",)
    site.says("Leave node 1 and node 2 as they are")
    site.is_advised = True
    for node_id in (3, 4, 5):
        await site.stop(node_id)
        site.mount_again(node_id)
        await site.start(node_id)


@staged("one disk is blank, and another voter is down", voters=3)
async def blank_and_down(site: Site) -> None:
    await site.stop(1, 2, 3)
    site.blank_disk(2)
    await site.start(1, 2)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.codes == ("other-disks", "no-majority")
    site.is_advised = True
    await site.copy(site.command("no-majority"), on=3)
    await trio.sleep(QUIET_S)
    await site.explain()
    await site.copy(site.command("other-directory"))


@staged("each node was formatted with a list of its own", voters=3, writes=False, started=(), invariants=())
async def own_lists(site: Site) -> None:
    """Nobody is ever elected, so that all may be formatted again."""
    lists = [site.new_list(), site.new_list(), site.new_list()]
    for node_id, voters in zip((1, 2, 3), lists, strict=True):
        await site.format(node_id, voters)
    await site.start(1, 2, 3)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.codes == ("other-lists",)
    site.says("Stop all of them, move their directories away, and format each with one list.")
    site.is_advised = True
    command = site.command("other-lists")
    await site.stop(1, 2, 3)
    for node_id in (1, 2, 3):
        site.move_away(node_id)
        await site.copy(command, on=node_id)
    for node_id in (1, 2, 3):
        await site.start(node_id)
    await site.write()


@staged("one node was formatted with a list of its own", voters=3, writes=False, started=(), invariants=())
async def one_own_list(site: Site) -> None:
    """The two others have a leader."""
    one, other = site.new_list(), site.new_list()
    for node_id, voters in zip((1, 2, 3), (one, one, other), strict=True):
        await site.format(node_id, voters)
    await site.start(1, 2, 3)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert "other-directory" in site.codes
    site.is_advised = True
    await site.copy(site.command("other-directory"))
    await site.write()


@staged(
    "two lists of directory ids, and a voter that is silent",
    voters=3,
    writes=False,
    is_repaired=False,
    keeps=(1, 2),
    started=(),
    invariants=(),
)
async def lists_and_a_silent_voter(site: Site) -> None:
    """What the silent one has is not known, so nobody is formatted."""
    lists = [site.new_list(), site.new_list()]
    for node_id, voters in zip((1, 2), lists, strict=True):
        await site.format(node_id, voters)
        await site.start(node_id)
    await trio.sleep(QUIET_S)
    await site.explain()
    assert site.codes == ("other-lists",)
    assert site.told[0].command is None
    site.says("Leave all of them as they are until it is known what 3 has")
