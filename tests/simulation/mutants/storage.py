"""Mutants of the log on disk: fsync and recovery."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batches.batch import iter_headers
from kraft_trio.storage.disk.disk_reserve import DiskReserve
from kraft_trio.storage.log import log_recovery
from kraft_trio.storage.log.durability import Durability
from kraft_trio.storage.log.log_appender import LogAppender
from kraft_trio.storage.segments.log_scan import scan_segment
from kraft_trio.storage.segments.recovery_point import RecoveryPoint

from .elections import CRASHES
from .following import COMES_BACK_AND_CRASHES, UNASSERTED_FETCH
from .mutant import Change, mutant
from .runs import scenario, script, storm

FULL = script(
    "the disk of the leader is full",
    """
    elect 1
    append "a"
    full-disk 1 20
    append "b"
    wait 1s
    expect running 2 3
    """,
    expects=True,
)
FAILING = storm("failing fsyncs", "fail_sync", gap_s=0.3, clients=4)
RESTARTS = storm("observers restart", "restart", gap_s=0.3, observers=2)

TORN = script(
    "followers with slow disks lose their power",
    """
    elect 1
    slow-disk 2 500ms
    slow-disk 3 500ms
    """
    + """
    wait 600ms
    crash 2 some
    start 2
    wait 600ms
    crash 3 some
    start 3
    """
    * 4,
    clients=4,
)
EVERYBODY = script(
    "everybody loses power",
    """
    set controller.quorum.election.timeout.ms 200
    elect 1
    wait 500ms
    crash 1 2 3
    start 1 2 3
    wait 1s
    """,
    clients=3,
)
SLOW_AND_CRASHES = script(
    "a follower with a slow disk crashes",
    """
    elect 1
    slow-disk 2 500ms
    wait 700ms
    crash 2 reordered
    start 2
    """,
    clients=4,
)
ROTTEN = script(
    "a follower whose disk rots, while the other one is away",
    """
    set controller.quorum.election.timeout.ms 200
    set controller.quorum.fetch.timeout.ms 400
    elect 1
    isolate 3
    wait 1s
    rot 2
    crash 2
    start 2
    kill 1
    heal
    wait 2s
    """,
    clients=4,
)


@mutant(breaks="bytes of a failed fsync do not count as durable", found_by=(11, 20), run=FAILING, seeds=3)
def a_failed_fsync_is_passed_over() -> Iterable[Change]:
    async def sync(self: Any, *, may_block: bool = False) -> int:
        end = self._segments.end_offset
        try:
            await self._segments.active.file.sync()
        except OSError:
            pass
        self.synced_truncations = self.truncations
        self._advance_synced_end(min(end, self._segments.end_offset))
        return end

    return [(Durability, "sync", sync)]


@mutant(breaks="a log that failed once accepts nothing more", found_by=(20,), run=scenario("s12_fsync_fails_once"))
def a_failed_fsync_does_not_poison() -> Iterable[Change]:
    return [(Durability, "poison", lambda self, error: self._failure(error))]


@mutant(breaks="a node whose disk is full hands over and ends", found_by=(0,), run=FULL)
def a_full_disk_is_tried_again() -> Iterable[Change]:
    return [(DiskReserve, "release", lambda self, shortage: True)]


@mutant(breaks="a sync of the log calls fsync", found_by=(11, 20), run=CRASHES)
def sync_does_not_sync() -> Iterable[Change]:
    async def sync(self: Any, *, may_block: bool = False) -> int:
        import trio

        await trio.sleep(0.001)
        self.synced_truncations = self.truncations
        self._advance_synced_end(self._segments.end_offset)
        return self.synced_end_offset

    return [(Durability, "sync", sync), *UNASSERTED_FETCH]


@mutant(breaks="a torn batch is not read as a whole one", found_by=(5, 6), run=TORN, seeds=32)
def a_torn_tail_is_trusted() -> Iterable[Change]:
    def scan(segment: Any, view: Any, scan: Any, position: int, known_good_offset: int | None) -> Any:
        return scan_segment(segment, view, scan, position, 1 << 62 if known_good_offset is None else known_good_offset)

    # Zeros behind it do not fit, so that the last batch would be looked at once more.
    return [(log_recovery, "scan_segment", scan), (log_recovery, "_refuse_damaged_last_batch", lambda _: None)]


@mutant(breaks="recovery cuts only unsynced bytes", found_by=(7, 20, 11), run=EVERYBODY)
def recovery_cuts_the_last_batch() -> Iterable[Change]:
    def scan_segments(segments: Any, scan: Any, *_: object, **__: object) -> None:
        for segment in segments:
            with segment.file.view() as view:
                last = 0
                with suppress(ProtocolError):  # A killed process leaves preallocated zeros.
                    for _, header in iter_headers(bytes(view)):
                        last = header.base_offset
                end = scan_segment(segment, view, scan, 0, last)
            segment.file.truncate(end.position)
            segment.file.sync_now()

    return [(log_recovery, "_scan_segments", scan_segments)]


@mutant(breaks="damage to synced bytes is not a torn tail", found_by=(7, 11, 20), run=ROTTEN, seeds=3)
def damage_is_cut_like_a_torn_tail() -> Iterable[Change]:
    def scan_segments(segments: Any, scan: Any, *_: object, **__: object) -> None:
        for segment in segments:
            with segment.file.view() as view:
                end = scan_segment(segment, view, scan, 0, None)
            segment.file.truncate(end.position)
            segment.file.sync_now()

    return [(log_recovery, "_scan_segments", scan_segments)]


@mutant(breaks="the recovery point never passes the synced end", found_by=(0,), run=SLOW_AND_CRASHES, seeds=8)
def the_recovery_point_moves_with_the_appends() -> Iterable[Change]:
    real = LogAppender.append

    def append(self: Any, buffer: Any, plan: Any, high_watermark: int | None) -> Any:
        appended = real(self, buffer, plan, high_watermark)
        self._durability.recovery_point.advance(appended.next_offset)
        self._durability.recovery_point.write()
        return appended

    return [(LogAppender, "append", append)]


@mutant(breaks="a truncation lowers the recovery point first", found_by=(0,), run=COMES_BACK_AND_CRASHES, seeds=20)
def the_recovery_point_stays_at_a_truncation() -> Iterable[Change]:
    return [(RecoveryPoint, "go_back", lambda self, offset: None)]


@mutant(breaks="the voters in force come from the log", found_by=(15,), run=RESTARTS, seeds=2)
def the_voters_in_the_log_are_not_read_at_a_restart() -> Iterable[Change]:
    def fold(voters: Any, offset: int, record: Any) -> None:
        pass

    return [(log_recovery, "fold_control_record", fold)]
