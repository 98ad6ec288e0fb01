"""Mutants of snapshots: how they are written, fetched and put in the log's place, and what a log lets go for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from kraft_trio.actors.application.state_machine_driver import StateMachineDriver
from kraft_trio.actors.snapshots.pieces_ahead import PiecesAhead
from kraft_trio.actors.snapshots.snapshot_taker import SnapshotTaker
from kraft_trio.errors import StorageFailure
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.facts.snapshot_files import path_of, snapshots_of
from kraft_trio.simulation.network.message import Message
from kraft_trio.simulation.script.catalog import parse_step
from kraft_trio.simulation.script.header import Header
from kraft_trio.simulation.script.run import setup_of
from kraft_trio.storage.batches.batch import iter_headers
from kraft_trio.storage.disk.part_file import PartFile
from kraft_trio.storage.log import log_state, log_trimmer
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.log.log_state import LogState
from kraft_trio.storage.log.log_trimmer import LogTrimmer
from kraft_trio.storage.segments.retention import RetentionLimits, SealedSegment, SnapshotFile
from kraft_trio.storage.segments.segments import Segments
from kraft_trio.storage.snapshots import snapshot_reader
from kraft_trio.storage.snapshots.snapshot_download import SnapshotDownload
from kraft_trio.storage.snapshots.snapshot_reader import SnapshotCount
from kraft_trio.wire.apis.fetch_snapshot import FETCH_SNAPSHOT
from kraft_trio.wire.apis.produce import PRODUCE

from .mutant import Change, mutant, without_assertions
from .runs import FAST, Run, custom, scenario, script

SETTINGS = {
    **FAST,
    "metadata.log.segment.bytes": "1024",
    "metadata.log.max.record.bytes.between.snapshots": "1000000",
    "metadata.max.retention.bytes": "0",
    "controller.quorum.fetch.snapshot.max.bytes": "300",
}
"""Snapshots are taken when a step says so, and everything that one covers goes."""

_SET = "".join(f"set {key} {value}\n" for key, value in SETTINGS.items())


def appends(first: str, count: int = 8) -> str:
    """So much that segments are closed."""
    return "".join(f'append "{first}{number}{"." * 200}"\n' for number in range(count))


TAKEN = script(
    "snapshots are taken",
    f"{_SET}\nelect 1\n{appends('a')}take-snapshot 1 2 3\nwait 100ms\nrestart 2\nwait 1s\n{appends('b', 1)}",
)
TRIMMED = script(
    "logs grow behind a snapshot, and a minute passes",
    f"{_SET}\nelect 1\n{appends('a')}take-snapshot 1 2 3\n{appends('b')}wait 61s\n",
)
TAKEN_IN_TURN = script(
    "snapshots are taken one after the other",
    f"{_SET}\nelect 1\n{appends('a')}take-snapshot 1\nwait 100ms\ntake-snapshot 2\n{appends('b', 1)}",
)
LAGGING = script(
    "an observer is given a snapshot and then the log",
    f"observers 4\n{_SET}\nelect 1\nkill 4\n{appends('a')}take-snapshot 1 2 3\n{appends('b', 2)}start 4\nwait 2s\n"
    f"{appends('c', 2)}restart 4\nwait 1s\nexpect alike\n",
    expects=True,
)
INTERRUPTED = script(
    "an observer is given a snapshot, and loses its connections",
    f"observers 4\n{_SET}\nelect 1\nkill 4\n{appends('a')}take-snapshot 1 2 3\nstart 4\n"
    "strike-fetcher isolate\nheal\nwait 3s\nexpect alike\n",
    expects=True,
)
OF_WHAT_MAY_BE_UNDONE = script(
    "a leader that is cut off is asked for a snapshot",
    f'{_SET}\nelect 1\n{appends("a")}isolate 1 silent\nappend "b" via 1\ntake-snapshot 1\nwait 100ms\nkill 1\n',
)
OF_VOTERS_THAT_MAY_BE_UNDONE = script(
    "a leader that is cut off removes a voter, and is asked for a snapshot",
    f"{_SET}\nelect 1\n{appends('a')}wait 500ms\nisolate 1 silent\nremove-voter 3 at 1 nowait\nwait 100ms\n"
    "take-snapshot 1 2\nwait 100ms\nkill 1 2\n",
)
ROTTEN_AT_THE_LEADER = script(
    "an observer is given a snapshot that has rotted",
    f"observers 4\n{_SET}\nelect 1\nkill 4\n{appends('a')}take-snapshot 1 2 3\nrot 1 snapshot\nstart 4\nwait 2s\n"
    "kill 4\n",
)
ROTTEN = script(
    "a node restarts with a snapshot that has rotted",
    f"{_SET}\nelect 1\n{appends('a')}take-snapshot 2\nrot 2 snapshot\nrestart 2\nwait 1s\n",
)
UNWRITABLE = script(
    "a snapshot cannot be written",
    f"{_SET}\nelect 1\n{appends('a')}fail-sync 2 of snapshot\ntake-snapshot 2\nwait 100ms\nexpect running 1 3\n",
    expects=True,
)


async def _lose_the_end(cluster: Cluster) -> None:
    """A snapshot that lacks its last batch, as an interrupted copy of the directory leaves it."""
    for line in ("elect 1", *appends("a").splitlines(), "take-snapshot 2", "kill 2"):
        await parse_step(line).take(cluster)
    machine = cluster.machines[2]
    replica = machine.replica
    assert replica is not None
    path = path_of(replica, snapshots_of(replica)[-1])
    content = machine.disk.peek(path) or b""
    position, _ = list(iter_headers(content))[-1]
    machine.disk.is_attached = True
    machine.disk.replace_now(path, content[:position])
    machine.device.damaged_files[path] = content[:position]
    await parse_step("start 2").take(cluster)


_REMEMBERING = setup_of(Header(settings=tuple(SETTINGS.items()))).state_machine
CUT: Run = custom("a snapshot has lost its last batch", _lose_the_end, settings=SETTINGS, state_machine=_REMEMBERING)


async def _repeat_an_append(cluster: Cluster) -> None:
    """What an idempotent producer sent to one leader comes again to the next, which has its log from a snapshot."""
    sent: list[Message] = []

    def look(message: Message) -> None:
        if message.is_request and message.delivered and message.api_key == PRODUCE.key:
            sent.append(message)

    cluster.history.is_complete = True
    cluster.message_listeners.append(look)
    for line in ("elect 1", "kill 3", 'append "once"'):
        await parse_step(line).take(cluster)
    once = sent[0]
    for line in (*appends("a").splitlines(), "take-snapshot 1 2", "start 3", "settle", "elect 3"):
        await parse_step(line).take(cluster)
    assert cluster.nodes[3].log.log_start_offset > 3, "it has the value from the snapshot alone"
    stream = await cluster.network.seen_from("client-again").connect(cluster.endpoint_of(3))
    await stream.send_all(once.raw)
    await parse_step("wait 1s").take(cluster)


REPEATED: Run = custom("an append is repeated", _repeat_an_append, settings=SETTINGS, state_machine=_REMEMBERING)


# Writing


@mutant(breaks="a snapshot is durable before it gets its name", found_by=(18,), run=TAKEN)
def a_snapshot_is_named_before_it_is_synced() -> Iterable[Change]:
    async def finish(self: Any) -> None:
        self._file.close()
        await self._disk.move(self.part_path, self.path)

    return [(PartFile, "finish", finish)]


@mutant(breaks="a snapshot holds only committed records", found_by=(18,), run=OF_WHAT_MAY_BE_UNDONE)
def a_snapshot_goes_up_to_the_end_of_the_log() -> Iterable[Change]:
    return [(SnapshotTaker, "_next_id", lambda self: OffsetAndEpoch(self._log.end_offset, self._log.end.epoch))]


@mutant(breaks="a snapshot has the voters at its end", found_by=(15, 19), run=OF_VOTERS_THAT_MAY_BE_UNDONE)
def a_snapshot_has_the_newest_voters() -> Iterable[Change]:
    real = SnapshotTaker._state

    def state(self: Any) -> Any:
        return attrs.evolve(real(self), voters=self._log.voters.voters)

    return [(SnapshotTaker, "_state", state)]


@mutant(breaks="a snapshot is the same file on every replica", found_by=(19,), run=TAKEN_IN_TURN)
def a_snapshot_has_the_time_it_was_taken_at() -> Iterable[Change]:
    real = SnapshotTaker._state

    def state(self: Any) -> Any:
        return attrs.evolve(real(self), last_contained_log_timestamp_ms=self._log._trimmer._now_ms())

    return [(SnapshotTaker, "_state", state)]


@mutant(breaks="a node whose snapshot cannot be written ends", found_by=(0,), run=UNWRITABLE)
def a_snapshot_that_cannot_be_written_is_passed_over() -> Iterable[Change]:
    real = SnapshotTaker.take

    async def take(self: Any) -> Any:
        try:
            return await real(self)
        except StorageFailure:
            self._failure = None
            return None

    return [(SnapshotTaker, "take", take)]


@mutant(breaks="a snapshot includes the producers", found_by=(21,), run=REPEATED)
def a_snapshot_has_no_producers() -> Iterable[Change]:
    real = SnapshotTaker._state
    return [(SnapshotTaker, "_state", lambda self: attrs.evolve(real(self), producers=b""))]


# Reading


@mutant(breaks="a snapshot ends with its footer", found_by=(15, 18), run=CUT)
def a_snapshot_needs_no_footer() -> Iterable[Change]:
    class Satisfied(snapshot_reader._Layout):
        is_complete = property(lambda self: True, lambda self, value: None)  # type: ignore[assignment]

        def check(self, batch: Any) -> None:
            pass

    return [(snapshot_reader, "_Layout", Satisfied)]


@mutant(breaks="the checksums of a snapshot are verified", found_by=(15, 18, 19), run=ROTTEN)
def the_checksums_of_a_snapshot_are_not_looked_at() -> Iterable[Change]:
    return [(snapshot_reader, "check_crc", lambda *_: None)]


@mutant(breaks="a fetched snapshot is checked before it gets its name", found_by=(18, 19), run=ROTTEN_AT_THE_LEADER)
def a_fetched_snapshot_is_not_checked() -> Iterable[Change]:
    async def check(*_: Any) -> None:
        pass

    async def finish(self: Any) -> Any:
        count = SnapshotCount()
        count.add(next(snapshot_reader.read_batches(self._part, self.snapshot_id.epoch)))
        await self._part.finish()
        self._ended = True
        return count.summary(self.snapshot_id)

    return [(SnapshotDownload, "_check", check), (SnapshotDownload, "finish", finish)]


@mutant(breaks="a state machine starts from the newest snapshot", found_by=(8,), run=TAKEN)
def the_state_machine_is_not_given_the_snapshot() -> Iterable[Change]:
    async def load(self: Any, _snapshots: Any) -> None:
        snapshot_id = self._log.snapshots.newest
        self.applied_offset = snapshot_id.offset
        self._taker.loaded(snapshot_id.offset, self._log.snapshots.control_state(snapshot_id))

    return [(StateMachineDriver, "_load", load)]


# In the log's place


@mutant(
    breaks="a log replaced by a snapshot leaves no voters in force",
    found_by=(15,),
    run=scenario("s11_snapshot_over_uncommitted_voters"),
)
def the_voters_of_before_the_snapshot_stay() -> Iterable[Change]:
    return [(LogState, "install_voters", lambda self, snapshots: snapshots.newest.offset)]


@mutant(breaks="a fetched snapshot replaces the whole log", found_by=(0, 5, 15, 18, 20), run=LAGGING)
def the_log_does_not_give_way() -> Iterable[Change]:
    return [(Segments, "replace_all", lambda *_: None)]


@mutant(breaks="records that a snapshot covers are committed", found_by=(8,), run=LAGGING)
def the_high_watermark_is_not_that_of_the_snapshot() -> Iterable[Change]:
    real = Log.truncate_fully_to

    def truncate(self: Any, snapshot_id: OffsetAndEpoch) -> None:
        self.advance_high_watermark = lambda _: None
        try:
            real(self, snapshot_id)
        finally:
            del self.advance_high_watermark

    return [(Log, "truncate_fully_to", truncate)]


@mutant(breaks="a loaded snapshot sets the producers", found_by=(21,), run=REPEATED)
def the_producers_are_forgotten_with_the_log() -> Iterable[Change]:
    return [(log_state, "load_producers", lambda *_: None)]


@mutant(breaks="a download continues at its position", found_by=(0,), run=INTERRUPTED)
def a_download_goes_on_at_another_place() -> Iterable[Change]:
    real_append = SnapshotDownload.append

    async def append(self: Any, _position: int, data: Any, size_in_bytes: int) -> None:
        await real_append(self, self.position, data[: size_in_bytes - self.position], size_in_bytes)

    async def ask_for(self: Any, position: int) -> None:
        self._positions.append(position)
        await self._connection.begin(FETCH_SNAPSHOT, attrs.evolve(self._request, position=max(0, position - 1)))

    return [(SnapshotDownload, "append", append), (PiecesAhead, "_ask_for", ask_for)]


# What goes


@mutant(breaks="only records that a snapshot covers are dropped", found_by=(18,), run=TRIMMED)
def the_log_is_trimmed_past_the_snapshot() -> Iterable[Change]:
    def plan(
        _snapshots: Any,
        sealed: list[SealedSegment],
        _active: int,
        _limits: RetentionLimits,
        _now: int,
        _spared: Any = (),
    ) -> list[SealedSegment | SnapshotFile]:
        return list(sealed)

    return [(log_trimmer, "plan_retention", plan), (LogTrimmer, "_drop", without_assertions(LogTrimmer._drop))]


@mutant(breaks="the newest snapshot is kept", found_by=(18, 0), run=TAKEN)
def the_last_snapshot_goes_too() -> Iterable[Change]:
    def plan(
        snapshots: list[SnapshotFile], sealed: Any, _active: int, _limits: RetentionLimits, _now: int, _spared: Any = ()
    ) -> list[SealedSegment | SnapshotFile]:
        covered = [part for part in sealed if snapshots and part.next_offset <= snapshots[0].snapshot_id.offset]
        return [*covered, *snapshots]

    return [(log_trimmer, "plan_retention", plan)]
