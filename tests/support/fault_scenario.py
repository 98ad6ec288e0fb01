"""A cluster under a script of faults while writers append: safety all the time, progress once the faults have ended."""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs
import trio

from kraft_trio.errors import KraftError
from kraft_trio.node import Node
from kraft_trio.storage.batch import peek_header
from kraft_trio.wire.api import FETCH, INIT_PRODUCER_ID, PRODUCE, VOTE
from kraft_trio.wire.apis.begin_quorum_epoch import BEGIN_QUORUM_EPOCH
from tests.support.cluster import Cluster, values_of

LOSABLE = (FETCH, PRODUCE, INIT_PRODUCER_ID, VOTE, BEGIN_QUORUM_EPOCH)


@attrs.frozen
class Wait:
    """Let that much virtual time pass."""

    milliseconds: int


@attrs.frozen
class Crash:
    """Power off: what was not synced is lost, all of it or a random part."""

    node: int
    loses_everything: bool


@attrs.frozen
class Kill:
    node: int


@attrs.frozen
class CrashAll:
    loses_everything: bool


@attrs.frozen
class Restart:
    node: int


@attrs.frozen
class Stop:
    """Graceful, as by SIGTERM."""

    node: int


@attrs.frozen
class CutOff:
    """Nodes whose bit is set on one side, the others on the other."""

    side: int
    silent: bool


@attrs.frozen
class Heal:
    pass


@attrs.frozen
class SlowDisk:
    node: int
    milliseconds: int


@attrs.frozen
class FailSync:
    """The node's next fsync fails; it ends with that, and comes back by a Restart."""

    node: int


@attrs.frozen
class LoseAnswers:
    api: int
    times: int


Step = Wait | Crash | Kill | CrashAll | Restart | Stop | CutOff | Heal | SlowDisk | FailSync | LoseAnswers


@attrs.define
class FaultScenario:
    """Run it with `run`, in a fresh Trio run under virtual time; the seed decides whatever the steps do not."""

    seed: int
    steps: Sequence[Step]
    voters: int = 3
    writers: int = 3
    observes: bool = False
    acknowledged: dict[int, list[tuple[int, bytes]]] = attrs.field(factory=dict)
    """By writer, what was acknowledged: offset and value, in order."""
    cluster: Cluster = attrs.field(init=False)
    _random: random.Random = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self.cluster = Cluster(voter_ids=tuple(range(1, self.voters + 1)), seed=self.seed)
        self.cluster.network.latency_s = lambda: self._random.uniform(0.0, 0.004)

    @property
    def node_ids(self) -> range:
        return range(1, self.voters + 1 + self.observes)

    async def run(self) -> None:
        cluster = self.cluster
        for node_id in self.node_ids:
            cluster.format(node_id)
            self._set_disk_speed(node_id, 2)
        async with cluster.running(*self.node_ids), trio.open_nursery() as writers:
            for writer in range(self.writers):
                self.acknowledged[writer] = []
                writers.start_soon(self._write, writer)
            for step in self.steps:
                await self._take(step)
            await self._end_faults()
            await self._check_progress()
            writers.cancel_scope.cancel()
        self._check_acknowledged()

    def _set_disk_speed(self, node_id: int, milliseconds: int) -> None:
        self.cluster.disks[node_id].sync_latency = lambda: self._random.uniform(0.0, milliseconds / 1000)

    # Faults

    def _id(self, number: int) -> int:
        return self.node_ids[number % len(self.node_ids)]

    async def _take(self, step: Step) -> None:
        cluster = self.cluster
        match step:
            case Wait(milliseconds=milliseconds):
                await trio.sleep(milliseconds / 1000)
            case Crash(node=node, loses_everything=everything):
                await self._crash(self._id(node), everything)
            case CrashAll(loses_everything=everything):
                for node_id in self.node_ids:
                    await self._crash(node_id, everything)
            case Kill(node=node):
                if self._id(node) in cluster.nodes:
                    cluster.kill(self._id(node))
            case Restart(node=node):
                await self._restart(self._id(node))
            case Stop(node=node):
                if self._id(node) in cluster.nodes:
                    await cluster.stop(self._id(node))
            case CutOff(side=side, silent=silent):
                one_side = {node_id for node_id in self.node_ids if side >> (node_id - 1) & 1}
                cluster.partition(one_side, set(self.node_ids) - one_side, silent=silent)
            case Heal():
                cluster.heal()
            case SlowDisk(node=node, milliseconds=milliseconds):
                self._set_disk_speed(self._id(node), milliseconds)
            case FailSync(node=node):
                if self._id(node) in cluster.nodes:
                    cluster.fail_next_sync(self._id(node))
            case LoseAnswers(api=api, times=times):
                cluster.network.lose_answers(LOSABLE[api % len(LOSABLE)], times)

    async def _crash(self, node_id: int, loses_everything: bool) -> None:
        if node_id in self.cluster.nodes:
            await self.cluster.crash(node_id, lose_everything_unsynced=loses_everything)

    async def _restart(self, node_id: int) -> None:
        cluster = self.cluster
        if node_id in cluster.nodes:
            return
        await cluster.wait_until_ended(node_id)
        cluster.disks[node_id].hook = None
        if cluster.failures.pop(node_id, None) is not None:
            # What was written behind a failed fsync may be there while what was before it is not: a hole in the log,
            # which a node refuses to start on.  The machine is switched off first.
            cluster.disks[node_id].crash(lose_everything_unsynced=True)
        await cluster.restart(node_id)

    async def _end_faults(self) -> None:
        self.cluster.heal()
        self.cluster.network.lose_no_more_answers()
        for node_id in self.node_ids:
            self._set_disk_speed(node_id, 2)
            self.cluster.disks[node_id].hook = None
            await self._restart(node_id)
            self.cluster.may_fail.discard(node_id)

    # Writing

    async def _write(self, writer: int) -> None:
        """Append one value after the other through whichever node runs; one that failed is not tried again."""
        source = random.Random(self.seed * 10 + writer)
        number = 0
        while True:
            nodes = [self.cluster.nodes[id] for id in sorted(self.cluster.nodes)]
            if not nodes:
                await trio.sleep(0.1)
                continue
            node = source.choice(nodes)
            value = b"%d:%d" % (writer, number)
            number += 1
            try:
                with trio.move_on_after(source.choice([0.05, 1.0, 20.0])) as patience:
                    (offset,) = await node.append([value])
            except KraftError:
                await trio.sleep(0.01)
                continue
            if not patience.cancelled_caught:
                self.acknowledged[writer].append((offset, value))
            await trio.sleep(source.uniform(0.0, 0.05))

    # What must have come of it

    async def _check_progress(self) -> None:
        """Everyone agrees and goes on within a bounded time."""
        done: list[int] = []
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                for node in list(self.cluster.nodes.values()):
                    nursery.start_soon(self._append_last, node, done)
        assert len(done) == len(self.node_ids)
        with trio.fail_after(30):
            last = max(done)
            for node in self.cluster.nodes.values():
                while (node.log.high_watermark or 0) <= last:  # noqa: ASYNC110
                    await trio.sleep(0.01)

    async def _append_last(self, node: Node, done: list[int]) -> None:
        (offset,) = await node.append([b"last"])
        done.append(offset)

    def _check_acknowledged(self) -> None:
        batches = self.cluster.invariants.committed
        end = 0
        values: dict[int, bytes] = {}
        for base_offset, batch in sorted(batches.items()):
            assert base_offset == end, f"a gap in what was committed: {end} to {base_offset}"
            end = peek_header(batch).next_offset
            values.update(values_of(batch))
        unique = [value for value in values.values() if value != b"last"]
        assert len(unique) == len(set(unique)), "a value took effect twice"
        for acknowledged in self.acknowledged.values():
            for offset, value in acknowledged:
                assert values.get(offset) == value, (
                    f"acknowledged {value!r} at {offset}, there is {values.get(offset)!r}"
                )
            offsets = [offset for offset, _ in acknowledged]
            assert offsets == sorted(offsets), "acknowledged out of order"
