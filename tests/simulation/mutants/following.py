"""Mutants of followers and of what applications are given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import trio

from kraft_trio.actors.application.state_machine_driver import StateMachineDriver
from kraft_trio.actors.election import leader_discovery
from kraft_trio.actors.election.election_responses import ElectionResponses
from kraft_trio.actors.network import leader_requests, request_router
from kraft_trio.actors.replication import follower_replication, replica_fetch
from kraft_trio.actors.replication.follower_replication import FollowerReplication
from kraft_trio.messages import BeginQuorumEpochReceived
from kraft_trio.protocol.check_quorum import ReplicaPosition
from kraft_trio.protocol.roles import Prospective
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.disk.inode import SECTOR_BYTES
from kraft_trio.simulation.script.catalog import parse_step
from kraft_trio.storage.log.log import Log

from .commits import COMES_BACK
from .mutant import Change, mutant, without_assertions
from .runs import campaign, custom, scenario, script, start_clients, storm

CALM = storm("nothing", seconds=3, clients=4)
RESTARTED = script(
    "a follower is restarted",
    """
    elect 1
    wait 500ms
    restart 2
    wait 1s
    """,
    clients=3,
)
ONE_BATCH = {"controller.quorum.fetch.max.bytes": "1"}
FILLING, PADDING = 427, 38
SLOW_FOLLOWER = script(
    "a follower with a slow disk",
    """
    set controller.quorum.election.timeout.ms 200
    set controller.quorum.fetch.timeout.ms 400
    elect 1
    slow-disk 2 100ms
    wait 1s
    """,
    clients=4,
)
STRANGER = script(
    "a node of another cluster",
    """
    elect 1
    append "a"
    intrude 1
    wait 1s
    """,
)
REELECTED = script(
    "a follower that missed two elections",
    """
    set controller.quorum.fetch.timeout.ms 20000
    elect 1
    append "a"
    isolate 2
    elect 3
    elect 1
    heal
    wait 1s
    """,
)


async def _unanswered(cluster: Cluster) -> None:
    """The fetches of 2 are lost; what the leader announces to it arrives."""
    await parse_step("elect 1").take(cluster)
    await parse_step("answers-only 2 -> 1").take(cluster)
    with trio.move_on_after(5):
        await cluster.nodes[2].election.view.wait_for(lambda view: isinstance(view.role, Prospective))
        return
    facts = ("2 has had no answer for 5 s", f"it is {cluster.nodes[2].view.role}")
    cluster.violate("a follower without answers asks for pre-votes", facts, (2,))
    await trio.sleep_forever()


UNANSWERED = custom("the fetches of one follower are lost", _unanswered)


async def _comes_back_and_crashes(cluster: Cluster) -> None:
    """1 is cut off with records that nobody else has; its power fails while it makes durable that it has cut them."""
    await parse_step("elect 1").take(cluster)
    start_clients(cluster, 6, 10.0)
    await trio.sleep(0.2)
    await parse_step("isolate 1").take(cluster)
    await trio.sleep(0.9)
    await parse_step("slow-disk 1 100ms").take(cluster)
    replica = cluster.replica_of(cluster.key_of(1))
    end = replica.log_end
    await parse_step("heal").take(cluster)
    with trio.move_on_after(2):
        await cluster.wait_until(lambda: replica.log_end < end)
    await parse_step("crash 1 reordered").take(cluster)
    await parse_step("start 1").take(cluster)
    await trio.sleep(1)


COMES_BACK_AND_CRASHES = custom(
    "a leader cut off with records that nobody else has comes back, and crashes",
    _comes_back_and_crashes,
    settings={"controller.quorum.election.timeout.ms": "200", "controller.quorum.fetch.timeout.ms": "400"},
)


async def _overwrites(cluster: Cluster) -> None:
    """1 has two records of a later epoch where the next leader has one of an earlier epoch, of the same size.

    While 1 writes that one over the first of its two, its power fails.  A new record with the old one behind it would
    look like a log, as epochs rise along it.
    """

    async def take(*steps: str) -> None:
        for step in steps:
            await parse_step(step).take(cluster)

    async def append_alone(node_id: int, value: str) -> None:
        end = cluster.nodes[node_id].log.end_offset
        cluster.nursery.start_soon(parse_step(f'append "{value}" via {node_id}').take, cluster)
        await cluster.wait_until(lambda: cluster.nodes[node_id].log.synced_end_offset > end)

    await take("elect 2", f'append "{"a" * FILLING}" via 2', 'append "b" via 1', 'append "c" via 3', "settle")
    end = cluster.nodes[1].log.end_offset
    await take("isolate 2")
    await append_alone(2, "x" * PADDING)
    await take("answers-only 3 -> 1")
    await campaign(cluster, 1)
    await cluster.wait_until(lambda: cluster.nodes[1].log.synced_end_offset > end)
    await append_alone(1, "y")
    first_of_1, first_of_2 = (cluster.replica_of(cluster.nodes[node].key).entries_from(end)[0] for node in (1, 2))
    assert first_of_1.size == first_of_2.size, f"PADDING is off by {first_of_1.size - first_of_2.size}"
    beyond = (first_of_1.position + first_of_1.size) % SECTOR_BYTES
    assert not beyond, f"FILLING is off by {-beyond}: what is left of the old tail must begin with a sector"
    machine = cluster.machines[1]
    machine.disk.sync_latency = lambda: 0.1
    await take("heal")
    await take("isolate 1")
    await campaign(cluster, 2)
    await cluster.wait_until(lambda: (cluster.nodes[2].log.high_watermark or 0) > end + 1)
    await take("heal")
    replica = cluster.replica_of(cluster.nodes[1].key)
    await cluster.wait_until(lambda: [entry.epoch for entry in replica.entries_from(end)] == [first_of_2.epoch])
    await take("crash 1 reordered", "start 1", "wait 1s")


OVERWRITES = custom("a torn overwrite of a diverging tail", _overwrites, settings=ONE_BATCH)
UNASSERTED_FETCH = (
    (follower_replication, "replica_fetch_request", without_assertions(replica_fetch.replica_fetch_request)),
    (leader_discovery, "replica_fetch_request", without_assertions(replica_fetch.replica_fetch_request)),
)


class _NoSync:
    """A log whose `sync` returns before anything is durable."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def sync(self, *, may_block: bool = False) -> int:
        await trio.lowlevel.checkpoint()
        return self._log.end_offset


@mutant(breaks="a follower fetches only from an offset that it has synced", found_by=(20,), run=CALM)
def a_follower_fetches_before_its_fsync() -> Iterable[Change]:
    real = FollowerReplication._apply

    async def apply(self: Any, partition: Any, *connection: Any) -> bool:
        log = self._context.log
        sync, log.sync = log.sync, _NoSync(log).sync
        try:
            return await real(self, partition, *connection)
        finally:
            log.sync = sync

    return [(FollowerReplication, "_apply", apply), *UNASSERTED_FETCH]


@mutant(breaks="a follower's high watermark is within its own log", found_by=(8,), run=SLOW_FOLLOWER, seeds=3)
def a_follower_takes_the_high_watermark_as_it_is_told() -> Iterable[Change]:
    real = FollowerReplication._apply

    async def apply(self: Any, partition: Any, *connection: Any) -> bool:
        log = self._context.log
        if partition.high_watermark > (log.high_watermark or 0):
            known, log._high_watermark = log._high_watermark, partition.high_watermark
            for watcher in log._watchers:
                watcher.high_watermark_advanced(known, partition.high_watermark)
        return await real(self, partition, *connection)

    return [(FollowerReplication, "_apply", apply)]


@mutant(breaks="a follower drops only what conflicts", found_by=(9,), run=COMES_BACK)
def a_diverging_log_is_truncated_wholly() -> Iterable[Change]:
    return [
        (follower_replication, "truncation_point", lambda *_: OffsetAndEpoch(0, 0)),
        (FollowerReplication, "_truncate", _truncate_blindly),
        (Log, "truncate_to", without_assertions(Log.truncate_to)),
    ]


def _truncate_blindly(self: Any, _partition: Any) -> None:
    self._context.log.truncate_to(0)


@mutant(breaks="a follower drops what conflicts", found_by=(0,), run=COMES_BACK)
def a_follower_does_not_truncate() -> Iterable[Change]:
    async def wait(self: Any, partition: Any, *connection: Any) -> bool:
        return False if partition.diverging is not None else bool(await real(self, partition, *connection))

    real = FollowerReplication._apply
    return [(FollowerReplication, "_apply", wait)]


@mutant(breaks="a truncation is durable before something else is written", found_by=(5, 6), run=OVERWRITES, seeds=48)
def a_truncation_is_not_synced() -> Iterable[Change]:
    real = FollowerReplication._apply

    async def apply(self: Any, partition: Any, *connection: Any) -> bool:
        if partition.diverging is None:
            return await real(self, partition, *connection)
        self._truncate(partition)
        durability = self._context.log._durability
        durability.synced_truncations = durability.truncations
        return True

    return [(FollowerReplication, "_apply", apply), *UNASSERTED_FETCH]


@mutant(breaks="only the leader of its epoch answers a Fetch", found_by=(6, 10, 20), run=REELECTED)
def the_epoch_of_a_fetch_is_not_looked_at() -> Iterable[Change]:
    real_append = Log.append_as_follower

    def check(view: Any, _request_epoch: int) -> Any:
        return real_check(view, -1)

    real_check = leader_requests.leader_check
    return [
        (leader_requests, "leader_check", check),
        (Log, "append_as_follower", lambda self, batches, max_epoch=None: real_append(self, batches)),
        (FollowerReplication, "_is_from_leader", lambda self, leader_id, leader_epoch: True),
    ]


# Who keeps whom


@mutant(
    breaks="progress, not contact, keeps a leader",
    found_by=(0,),
    run=scenario("s19_contact_without_progress"),
)
def contact_keeps_a_leader() -> Iterable[Change]:
    return [(ReplicaPosition, "fetches", lambda self, offset, leader_end_offset: True)]


@mutant(breaks="only the leader's answers stop a follower from campaigning", found_by=(0,), run=UNANSWERED)
def the_word_of_a_leader_keeps_a_follower() -> Iterable[Change]:
    """As if BeginQuorumEpoch, which a leader sends to voters that have stopped fetching, were an answer."""
    following: dict[int, FollowerReplication] = {}
    real_run, real_answer = FollowerReplication.run, ElectionResponses.answer

    async def run(self: Any) -> None:
        following[self._context.key.id] = self
        await real_run(self)

    def answer(self: Any, message: Any, ruling: Any) -> None:
        real_answer(self, message, ruling)
        follower = following.get(self._config.node_id)
        if follower is not None and isinstance(message, BeginQuorumEpochReceived) and ruling.error is None:
            follower._reset_fetch_timer()

    return [(FollowerReplication, "run", run), (ElectionResponses, "answer", answer)]


# What applications are given


@mutant(breaks="a state machine gets only committed records", found_by=(8,), run=CALM)
def the_state_machine_is_given_what_is_not_committed() -> Iterable[Change]:
    return [(StateMachineDriver, "_committed_end", lambda self: self._log.end_offset)]


@mutant(breaks="a state machine gets each record once", found_by=(8,), run=CALM)
def the_state_machine_is_given_a_batch_twice() -> Iterable[Change]:
    real = StateMachineDriver.__init__

    def init(self: Any, log: Log, on_commit: Any, limit: int, **others: Any) -> None:
        async def twice(records: Any) -> None:
            await on_commit(records)
            if records[0].offset % 7 == 0:
                await on_commit(records)

        real(self, log, twice, limit, **others)

    return [(StateMachineDriver, "__init__", init)]


@mutant(breaks="a state machine gets every record", found_by=(8, 25), run=RESTARTED)
def the_state_machine_misses_what_came_before_it() -> Iterable[Change]:
    real = StateMachineDriver.run

    async def run(self: Any) -> None:
        while self._log.high_watermark is None:
            await self._log.changed.park()
        self.applied_offset = self._log.high_watermark
        await real(self)

    return [(StateMachineDriver, "run", run)]


@mutant(breaks="a request of another cluster changes nothing", found_by=(23,), run=STRANGER, seeds=2)
def the_cluster_id_is_not_looked_at() -> Iterable[Change]:
    return [(request_router.RequestRouter, "_identity_error", lambda self, cluster_id, topic, partition: None)]
