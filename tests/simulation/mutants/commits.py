"""Mutants of the leader: what it appends, what it takes for committed, whom it tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import trio

from kraft_trio.actors.context.replica_progress import ProgressTable
from kraft_trio.actors.network import client_requests
from kraft_trio.actors.replication import leader_replication, repeated_batches
from kraft_trio.actors.replication.leader_fetches import LeaderFetches
from kraft_trio.actors.replication.leader_replication import LeaderReplication
from kraft_trio.actors.replication.pending_appends import PendingAppends
from kraft_trio.client.log_client import LogClient
from kraft_trio.messages import FetchReceived
from kraft_trio.protocol.acknowledged_end import AcknowledgedEnd, CameBack
from kraft_trio.protocol.high_watermark import next_high_watermark
from kraft_trio.protocol.producers import Accept, ProducerStates
from kraft_trio.protocol.reconciliation import Valid
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.network.simulated_network import FrameFate, frames_of
from kraft_trio.simulation.script.catalog import parse_step
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.log.log_state import LogState
from kraft_trio.wire.apis.produce import PRODUCE, ProducePartition, ProducePartitionResponse, ProduceRequest
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode

from .elections import CRASHES, ELECTIONS
from .mutant import Change, mutant
from .runs import custom, script, storm

SLOW_LEADER = script(
    "a leader with a slow disk",
    """
    set controller.quorum.election.timeout.ms 200
    set controller.quorum.fetch.timeout.ms 400
    elect 1
    slow-disk 1 100ms
    wait 1s
    """,
    clients=4,
)
PARTITIONS = storm("partitions", "isolate", "halves", "one_way", gap_s=0.4, seconds=6, operations_per_s=6)
RETRIES = storm("lost answers", "resets", "cut_frames", "requests_only", gap_s=0.2, seconds=6, operations_per_s=6)
SWAPPED = script(
    "a leader cut off with records that nobody else has comes back as another one is cut off",
    """
    set controller.quorum.election.timeout.ms 200
    set controller.quorum.fetch.timeout.ms 400
    elect 1
    wait 200ms
    isolate 1
    wait 500ms
    isolate 3
    wait 300ms
    heal
    isolate 3
    wait 300ms
    """,
    clients=12,
)
COMES_BACK = script(
    "a leader cut off with a record that nobody else has comes back",
    """
    set controller.quorum.election.timeout.ms 200
    set controller.quorum.fetch.timeout.ms 400
    elect 1
    append "a"
    isolate 1
    append "b" via 1
    heal
    wait 2s
    expect alike
    """,
    expects=True,
)


async def _stale_read(cluster: Cluster) -> None:
    """A client reads at a leader that was cut off up to where, as others have told it, all is committed."""
    await parse_step("elect 1").take(cluster)
    await parse_step('append "a"').take(cluster)
    old = cluster.nodes[1]
    await parse_step("isolate 1").take(cluster)
    cluster.nursery.start_soon(parse_step('append "never committed" via 1').take, cluster)
    new = await cluster.wait_for_leader(other_than=old)
    await parse_step(f'append "b" via {new.key.id}').take(cluster)
    history = cluster.history
    operation = history.invoke("read", client="reader", from_offset=0)
    network = cluster.network.seen_from("client-reader")
    async with LogClient([cluster.endpoint_of(1)], client_id="reader", network=network) as client:
        with trio.move_on_after(2):
            records = [record async for record in client.read(0, history.known_end)]
            offsets, values = [r.offset for r in records], [r.value or b"" for r in records]
            history.succeed(operation, offsets=offsets, values=values, end_offset=history.known_end)


STALE_READ = custom("a read at a leader cut off", _stale_read)


async def _offered_again(cluster: Cluster) -> None:
    """A batch is on one log alone, and truncated there; then its producer offers it to that very replica."""
    await parse_step("elect 1").take(cluster)
    await parse_step('append "a" via 1').take(cluster)
    old = cluster.nodes[1]
    await parse_step("isolate 1").take(cluster)
    requests = frames_of(PRODUCE, is_request=True)
    cluster.network.plan(requests, FrameFate.RESET, times=1000)
    await parse_step('append "b" via 1').take(cluster)
    await cluster.wait_for_leader(other_than=old)
    await parse_step("heal").take(cluster)
    await cluster.wait_until_alike()
    await parse_step("elect 1").take(cluster)
    await parse_step("wait 2s").take(cluster)


OFFERED_AGAIN = custom("a batch that was truncated is offered again", _offered_again)


async def _garbled(cluster: Cluster) -> None:
    """A client's batch has one bit flipped on its way into the socket."""
    cluster.history.is_complete = True
    await parse_step("elect 1").take(cluster)
    batch = bytearray(encode_batch([NewRecord(value=b"wanted")], timestamp_ms=0))
    batch[batch.index(b"wanted")] ^= 1
    config = cluster.config_of(1)
    partition = ProducePartition(topic_name=config.topic_name, topic_id=config.topic_id, partition=0, records=batch)
    stream = await cluster.network.seen_from("client-garbled").connect(cluster.endpoint_of(1))
    connection = await Connection.negotiated(stream, "garbled", 2**20)
    with trio.move_on_after(2):
        await connection.request(PRODUCE, ProduceRequest(acks=-1, timeout_ms=1000, partitions=(partition,)))
    await connection.aclose()
    # A node that reads the batch finds that it is damaged, hands over, and ends.
    await parse_step("wait 5s").take(cluster)


GARBLED = custom("a garbled batch", _garbled)
WAITS_ALONE = script(
    "an application that waits in the process of a leader cut off",
    """
    set controller.quorum.election.timeout.ms 200
    set controller.quorum.fetch.timeout.ms 400
    set controller.quorum.request.timeout.ms 300
    elect 1
    append "a"
    isolate 1
    append "b" via 1
    """,
)
CUT_OFF = script(
    "a leader cut off for good",
    """
    elect 1
    append "a"
    isolate 1
    wait 10s
    expect no leader among 1
    """,
    expects=True,
)
WATCHED = storm("observers", observers=2, seconds=5)


@mutant(breaks="the leader counts what it has synced", found_by=(11,), run=SLOW_LEADER, seeds=3)
def the_leader_counts_its_unsynced_end() -> Iterable[Change]:
    def synced(self: Any, voters: Any, _own_synced_end: int) -> Any:
        return real(self, voters, 1 << 60)

    def next_(voters: Any, synced_end_offsets: Mapping[Any, int], **others: Any) -> int | None:
        return next_high_watermark(voters, synced_end_offsets=synced_end_offsets, **others)

    real = ProgressTable.synced_end_offsets
    advance = Log.advance_high_watermark
    return [
        (ProgressTable, "synced_end_offsets", synced),
        (leader_replication, "next_high_watermark", next_),
        (Log, "advance_high_watermark", lambda self, offset: advance(self, min(offset, self.end_offset))),
    ]


@mutant(breaks="an append is acknowledged when it is committed", found_by=(7, 21), run=CRASHES, seeds=3)
def an_append_is_acknowledged_at_once() -> Iterable[Change]:
    return [(PendingAppends, "_is_committed", lambda self, next_offset: True)]


@mutant(breaks="a leader that has lost its epoch acknowledges nothing", found_by=(7, 21), run=PARTITIONS, seeds=8)
def pending_appends_are_acknowledged_when_the_epoch_ends() -> Iterable[Change]:
    return [(PendingAppends, "_abandon", lambda _self, pending: PendingAppends._acknowledge(pending, 0))]


@mutant(breaks="a commit needs a majority", found_by=(11,), run=ELECTIONS)
def a_commit_needs_one_voter_fewer() -> Iterable[Change]:
    def next_(voters: Any, synced_end_offsets: Any, leader: Any, epoch_start_offset: int, current: int | None) -> Any:
        offsets = sorted((synced_end_offsets.get(voter.key, 0) for voter in voters), reverse=True)
        reached = offsets[max(0, voters.majority - 2)]
        return reached if reached > max(epoch_start_offset, current or 0) else current

    return [(leader_replication, "next_high_watermark", next_)]


@mutant(breaks="only voters count for a commit", found_by=(11,), run=WATCHED, seeds=4)
def observers_count_for_commits() -> Iterable[Change]:
    def next_(voters: Any, synced_end_offsets: Any, leader: Any, epoch_start_offset: int, current: int | None) -> Any:
        offsets = sorted(synced_end_offsets.values(), reverse=True)
        reached = offsets[voters.majority - 1] if len(offsets) >= voters.majority else 0
        return reached if reached > max(epoch_start_offset, current or 0) else current

    def synced(self: Any, voters: Any, own: int) -> Any:
        return {key: progress.end_offset for key, progress in self._replicas.items()} | {self._leader: own}

    return [(leader_replication, "next_high_watermark", next_), (ProgressTable, "synced_end_offsets", synced)]


@mutant(breaks="a leader commits only with a record of its own epoch", found_by=(10,), run=ELECTIONS)
def records_of_older_epochs_are_committed_by_counting() -> Iterable[Change]:
    def next_(*args: Any, **given: Any) -> int | None:
        return next_high_watermark(*args, **{**given, "epoch_start_offset": -1})

    return [(leader_replication, "next_high_watermark", next_)]


@mutant(breaks="a new leader knows no high watermark yet", found_by=(10,), run=ELECTIONS, seeds=2)
def a_new_leader_tells_the_high_watermark_it_knew() -> Iterable[Change]:
    return [(LeaderReplication, "high_watermark", property(lambda self: self._log.high_watermark))]


@mutant(
    breaks="the high watermark never falls",
    found_by=(9,),
    run=script("two voters, requests are repeated", "voters 1 2\nduplicates 30%\nwait 3s\n", clients=4),
    seeds=3,
)
def the_high_watermark_follows_the_majority_down() -> Iterable[Change]:
    def next_(*args: Any, **given: Any) -> int | None:
        reached = next_high_watermark(*args, **{**given, "current": None})
        return given["current"] if reached is None else reached

    def advance(self: Any, offset: int) -> None:
        known, self._high_watermark = self._high_watermark, offset
        for watcher in self._watchers:
            watcher.high_watermark_advanced(known, offset)
        self._durability.wake()

    return [(leader_replication, "next_high_watermark", next_), (Log, "advance_high_watermark", advance)]


@mutant(breaks="a leader begins its epoch without knowing any progress", found_by=(11, 20), run=ELECTIONS, seeds=4)
def a_leader_goes_on_with_the_progress_of_an_older_epoch() -> Iterable[Change]:
    real = LeaderReplication.__init__
    tables: dict[Any, ProgressTable] = {}

    def init(self: Any, context: Any, *args: Any, **given: Any) -> None:
        real(self, context, *args, **given)
        self.progress = tables.setdefault(context.key, self.progress)

    return [(LeaderReplication, "__init__", init)]


@mutant(breaks="only a log that agrees with the leader's counts", found_by=(11,), run=SWAPPED, seeds=6)
def a_diverging_follower_counts_as_far_as_it_says() -> Iterable[Change]:
    real = LeaderReplication._replica_fetch

    def fetch(self: Any, message: FetchReceived, replica: Any) -> None:
        end = min(message.partition.fetch_offset, self._log.end_offset)
        if self.progress.fetched(replica, end, leader_end_offset=self._log.end_offset, now_s=trio.current_time()):
            self._advance_high_watermark()
        real(self, message, replica)

    return [(LeaderReplication, "_replica_fetch", fetch)]


@mutant(breaks="the leader tells a follower that its log diverges", found_by=(5, 6, 8), run=COMES_BACK)
def divergence_is_never_told() -> Iterable[Change]:
    return [(Log, "validate_fetch", lambda self, fetch_offset, last_fetched_epoch: Valid())]


@mutant(breaks="epochs decide whether a log diverges", found_by=(5, 6, 8), run=COMES_BACK)
def only_a_log_too_long_diverges() -> Iterable[Change]:
    real = Log.validate_fetch

    def validate(self: Any, fetch_offset: int, last_fetched_epoch: int) -> Any:
        return Valid() if fetch_offset <= self.end_offset else real(self, fetch_offset, last_fetched_epoch)

    return [(Log, "validate_fetch", validate)]


@mutant(breaks="a leader appends in its own epoch", found_by=(6,), run=ELECTIONS)
def a_leader_appends_in_the_epoch_of_its_log() -> Iterable[Change]:
    real = Log.append_as_leader
    return [
        (Log, "append_as_leader", lambda self, batches, epoch: real(self, batches, max(1, self.epochs.latest_epoch)))
    ]


@mutant(breaks="a consumer reads what is committed", found_by=(21,), run=STALE_READ)
def consumers_are_given_what_is_not_committed() -> Iterable[Change]:
    def complete(self: Any, message: FetchReceived) -> bool:
        if message.partition.fetch_offset >= self._log.end_offset:
            return False
        self.answer(message, self._read(message, None))
        return True

    return [(LeaderFetches, "_complete_with_records", complete)]


@mutant(breaks="the leader recognizes a batch that is sent again", found_by=(21,), run=RETRIES, seeds=8)
def repeated_batches_are_appended_again() -> Iterable[Change]:
    return [(ProducerStates, "check", lambda self, *_: Accept())]


@mutant(breaks="a repeated batch is acknowledged when it is committed", found_by=(21,), run=WAITS_ALONE)
def a_repeated_batch_is_acknowledged_at_once() -> Iterable[Change]:
    real = PendingAppends.await_commit

    def wait(self: Any, message: Any, base_offset: int, next_offset: int, now_s: float, *repeated: int) -> None:
        appended = vars(self).setdefault("appended", set())
        if base_offset in appended:
            message.reply.answer(
                ProducePartitionResponse(error=ErrorCode.none, base_offset=base_offset, log_start_offset=0)
            )
        else:
            appended.add(base_offset)
            real(self, message, base_offset, next_offset, now_s, *repeated)

    return [(PendingAppends, "await_commit", wait)]


@mutant(breaks="a truncation restores the earlier producer states", found_by=(21,), run=OFFERED_AGAIN)
def producers_are_remembered_over_a_truncation() -> Iterable[Change]:
    """The leader would also compare the batch with its log."""
    return [(LogState, "_truncate_producers_to", lambda *_: None), (repeated_batches, "_holds", lambda *_: True)]


@mutant(breaks="the leader appends a batch as its client sent it", found_by=(0, 23), run=GARBLED)
def the_crc_of_a_client_is_not_checked() -> Iterable[Change]:
    return [(client_requests, "check_client_batch", lambda *_: None)]


@mutant(breaks="a leader that reaches no majority resigns", found_by=(0,), run=CUT_OFF)
def a_leader_cut_off_leads_on() -> Iterable[Change]:
    return [(leader_replication, "has_majority_contact", lambda *_: True)]


# Old copies of directories

OLD_COPY = script(
    "an old copy of a voter's directory comes back",
    """
    elect 1
    stop 2
    keep-disk 2
    start 2
    append "a"
    append "b"
    settle
    stale-disk 2
    start 2
    settle
    """,
)
LATE_FETCHES = storm("requests delivered twice", "duplicates", gap_s=0.2, seconds=6, operations_per_s=6)


@mutant(breaks="a leader notices that a voter lacks what it acknowledged", found_by=(28,), run=OLD_COPY)
def an_old_copy_passes_for_the_voter() -> Iterable[Change]:
    return [(AcknowledgedEnd, "fetches", lambda _self, _offset, _connection: None)]


@mutant(breaks="a Fetch that comes late is no old copy", found_by=(28,), run=LATE_FETCHES, seeds=3)
def a_late_fetch_passes_for_an_old_copy() -> Iterable[Change]:
    def fetches(self: AcknowledgedEnd, offset: int, _connection: object) -> CameBack | None:
        before, self.offset = self.offset, max(self.offset, offset)
        return CameBack(offset, before) if offset < before else None

    return [(AcknowledgedEnd, "fetches", fetches)]
