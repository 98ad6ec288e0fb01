"""Mutants of `Node.leadership`: what a task that runs on the leader alone relies on."""

from __future__ import annotations

from collections.abc import Iterable

import trio

from kraft_trio.actors.election.leadership import Leadership
from kraft_trio.errors import NotLeaderError
from kraft_trio.node import Node
from kraft_trio.simulation import Cluster
from tests.support.ledger import Ledgers

from .mutant import Change, mutant
from .runs import custom

TITLE = "only the leader's task acts, and on the state of all earlier leaders"


async def _terms(cluster: Cluster) -> None:
    """A leader commits and is lost; its successor begins a term, resigns, and then writes in the name of that term."""
    first = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    entered = trio.Event()

    async def lead(node: Node[bytes, int]) -> None:
        async with node.leadership() as term:
            ledger = LEDGERS.of[node.key.id]
            if ledger.entries != [b"of the first leader"]:
                cluster.violate(TITLE, (f"the term began with {ledger.entries}",), (node.key.id,))
            entered.set()
            await trio.sleep_forever()
        await write_late(cluster, node, term.epoch)

    async with trio.open_nursery() as nursery:
        for node in cluster.others(first):
            nursery.start_soon(lead, node)
        await first.execute(b"of the first leader")
        cluster.machines[first.key.id].kill()
        await entered.wait()
        second = await cluster.wait_for_leader()
        await second.resign()
        await trio.sleep(0.5)
        if len(nursery.child_tasks) == 2:
            cluster.violate(TITLE, ("the task of the term goes on",), (second.key.id,))
        nursery.cancel_scope.cancel()


async def write_late(cluster: Cluster, node: Node[bytes, int], epoch: int) -> None:
    try:
        await node.append([b"late"], epoch=epoch)
    except NotLeaderError:
        return
    cluster.violate(TITLE, (f"a value of a term in epoch {epoch} committed after it",), (node.key.id,))


LEDGERS = Ledgers()
LED = custom("a leader's task", _terms, state_machine=LEDGERS)


@mutant(breaks="an append of a term takes effect in its epoch or never", found_by=(0,), run=LED)
def any_leader_takes_the_append() -> Iterable[Change]:
    append = Node.append

    async def unfenced(self: Node[bytes, int], values: list[bytes], *, epoch: int | None = None) -> range:
        return await append(self, values)

    yield Node, "append", unfenced


@mutant(breaks="a term begins when the epoch's first record is applied", found_by=(0,), run=LED)
def a_term_begins_with_the_role() -> Iterable[Change]:
    async def at_once(self: Node[bytes, int], leadership: Leadership) -> None:
        pass

    yield Node, "_wait_for_first_record", at_once


@mutant(breaks="the end of the leadership ends the task", found_by=(0,), run=LED)
def the_task_outlives_the_leadership() -> Iterable[Change]:
    yield Leadership, "end", lambda self: None
