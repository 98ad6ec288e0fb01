"""Opens a log: reads its directory, repairs what a crash left, or refuses it.

After an unclean stop the log may end inside a write, or lack some writes before others that the device kept.  Opening
cuts such a torn tail at the first batch that is not whole.  Anything else that is wrong is damage to synced records.
Then opening refuses the log, because a node that forgot records it acknowledged must not vote (scenario S13).  It is
damage if it lies

* in any segment but the last: a segment is synced before the next one is created;
* before the last known good point, the offset of the newest producer snapshot;
* before the recovery point;
* behind the recovery point, if a batch with a correct CRC follows and no write is missing between the two.  The
  recovery point may lag, so flipped bits in synced records must not pass for a torn tail.  Batches inside the records
  of a torn batch do not count: see `torn_tail`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from uuid import UUID

import attrs

from kraft_trio.errors import CorruptLogError, CorruptSnapshotError, ProtocolError, StorageError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.epoch_cache import EpochCache
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.protocol.snapshot_alignment import Alignment, align
from kraft_trio.protocol.types import OffsetAndEpoch, directory_id_to_text
from kraft_trio.protocol.voter_history import VoterHistory
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batches.batch import BatchHeader, check_crc, decode_control_batch, peek_header
from kraft_trio.storage.batches.batch_header import HEADER_BYTES
from kraft_trio.storage.batches.control_records import ControlRecord, VotersRecord
from kraft_trio.storage.directory.quorum_state import REPLACE_IT
from kraft_trio.storage.disk import partition_files
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.disk.partition_files import decode_partition_metadata, encode_partition_metadata
from kraft_trio.storage.log.log_appender import LogConfig
from kraft_trio.storage.log.log_state import LogState, fold_control_record, load_producers
from kraft_trio.storage.segments.leader_epoch_checkpoint import encode_leader_epochs
from kraft_trio.storage.segments.log_scan import LogScan, ScanEnd, scan_segment
from kraft_trio.storage.segments.preallocation import is_preallocated
from kraft_trio.storage.segments.producer_snapshot import load_known_good_point
from kraft_trio.storage.segments.recovery_point import RecoveryPoint, RecoveryRecord, read_recovery_point
from kraft_trio.storage.segments.segment import Segment
from kraft_trio.storage.segments.segments import Segments
from kraft_trio.storage.segments.torn_tail import find_promised_batch
from kraft_trio.storage.snapshots.checkpoint import read_checkpoint_voters
from kraft_trio.storage.snapshots.snapshots import Snapshots

log = get_logger(__name__)


@attrs.define
class LoadedLog:
    """What opening found.  The log owns it from then on."""

    segments: Segments
    """Everything in them is durable."""
    state: LogState
    recovery_point: RecoveryPoint
    snapshots: Snapshots


def load_log(disk: Disk, directory: str, topic_id: UUID, static_voters: VoterSet, config: LogConfig) -> LoadedLog:
    """Open the log in a directory, or create it.  Blocks for reads and fsyncs.

    Reads the log as it is, compares it with the newest snapshot, and then derives voters, producers, epochs and indexes
    from both.

    Raises CorruptLogError, naming file, position and reason, if damage is not a torn tail, or if a committed record
    is neither in the log nor in a whole snapshot.  Raises StorageError if another file cannot be used or belongs to
    another topic.  Raises OSError.
    """
    disk.make_directory(directory)
    _check_topic(disk, directory, topic_id)
    names = _remove_leftovers(disk, directory)
    snapshots = Snapshots.find(disk, directory, names)
    files = _open_segments(disk, directory, names, snapshots)
    try:
        return _load(
            disk,
            directory,
            names,
            files,
            snapshots,
            VoterHistory(static_voters),
            ProducerStates(config.max_producers),
            preallocates=config.preallocate_bytes > 0,
        )
    except BaseException:
        _close(files)
        raise


def _load(
    disk: Disk,
    directory: str,
    names: list[str],
    files: list[Segment],
    snapshots: Snapshots,
    voters: VoterHistory,
    producers: ProducerStates,
    *,
    preallocates: bool,
) -> LoadedLog:
    log_start_offset = files[0].base_offset
    check_log_start(directory, log_start_offset, snapshots)
    scan = LogScan(log_start_offset, producers, load_producers(snapshots, log_start_offset, producers))
    known_good_offset = load_known_good_point(disk, directory, log_start_offset)
    recorded = read_recovery_point(disk, directory)
    _scan_segments(files, scan, known_good_offset, recorded, preallocates=preallocates)
    segments = Segments(disk, directory, files, scan.next_offset)
    state = LogState(EpochCache(scan.epochs), voters, producers, scan.producer_history)
    if is_replaced(directory, log_start_offset, scan.next_offset, state.epochs, snapshots, recorded.high_watermark):
        _finish_replacing(segments, snapshots)
        files.append(segments.active)
        state.install_snapshot(snapshots)
    else:
        _load_voters(disk, directory, names, snapshots, scan, log_start_offset, state)
    _write_derived(disk, directory, segments, state.epochs)
    segments.retired += snapshots.retire_below(segments.start_offset)
    # A snapshot that has just replaced the log may end below it.
    committed = None if recorded.high_watermark is None else min(recorded.high_watermark, segments.end_offset)
    # A failed fsync may have lost the size that a cut gave the file.
    segments.active.file.truncate(segments.active.size)
    segments.active.file.sync_now()
    recovery_point = RecoveryPoint(disk, directory, segments.end_offset, committed)
    return LoadedLog(segments, state, recovery_point, snapshots)


def check_log_start(directory: str, log_start_offset: int, snapshots: Snapshots) -> None:
    """Raise CorruptLogError unless the log starts at 0, or a snapshot reaches up to its start."""
    newest = snapshots.newest
    if log_start_offset > 0 and (newest is None or newest.offset < log_start_offset):
        raise CorruptLogError(
            f"{directory}: the log starts at offset {log_start_offset}; expected a whole snapshot that ends there "
            f"or later; {_what_there_is(snapshots)}"
        )


def is_replaced(
    directory: str,
    log_start_offset: int,
    log_end_offset: int,
    epochs: EpochCache,
    snapshots: Snapshots,
    committed: int | None,
) -> bool:
    """Whether the newest snapshot was about to replace the log when the node stopped.

    Raises CorruptLogError if the two contradict each other, or if the log ends before a damaged snapshot does: the
    records in between were committed, and this replica has lost them.
    """
    newest, damaged = snapshots.newest, snapshots.newest_damaged
    reached = max(log_end_offset, newest.offset if newest is not None else 0)
    if damaged is not None and damaged.offset > reached:
        raise CorruptLogError(
            f"{directory}: the log and the whole snapshots end at offset {reached}, expected at least "
            f"{damaged.offset}, where a damaged snapshot ends; {_what_there_is(snapshots)}"
        )
    if newest is None:
        return False
    alignment = align(newest, log_start_offset, log_end_offset, epochs, committed)
    if alignment is Alignment.CONTRADICTS:
        raise CorruptLogError(
            f"{snapshots.path(newest)}: {alignment.value}: the log has offsets {log_start_offset} to {log_end_offset} "
            f"and its epochs begin at offsets {', '.join(f'{at} (epoch {epoch})' for epoch, at in epochs)}"
        )
    return alignment is Alignment.REPLACED


def _what_there_is(snapshots: Snapshots) -> str:
    whole = ", ".join(map(str, snapshots.ids)) or "none"
    damaged = "; ".join(snapshots.damaged.values())
    return f"whole snapshots: {whole}" + (f"; damaged: {damaged}" if damaged else "")


def _finish_replacing(segments: Segments, snapshots: Snapshots) -> None:
    newest = snapshots.newest
    assert newest is not None
    log.warning(
        "log replaced by snapshot",
        directory=segments.directory,
        log_start_offset=segments.start_offset,
        log_end_offset=segments.end_offset,
        snapshot_id=str(newest),
        reason="the node had stopped before it was done",
    )
    RecoveryPoint(segments.disk, segments.directory, segments.start_offset, None).close()
    segments.replace_all(newest.offset)


def _check_topic(disk: Disk, directory: str, topic_id: UUID) -> None:
    path = join(directory, partition_files.PARTITION_METADATA)
    if not disk.exists(path):
        disk.replace_now(path, encode_partition_metadata(topic_id))
        return
    found = decode_partition_metadata(path, disk.read_bytes(path))
    if found != topic_id:
        raise StorageError(
            f"{path}: topic_id {directory_id_to_text(found)}, expected {directory_id_to_text(topic_id)} as configured"
        )


def _remove_leftovers(disk: Disk, directory: str) -> list[str]:
    names = disk.list_directory(directory)
    segments = partition_files.offsets_of(names, partition_files.LOG)
    orphans = [
        partition_files.offset_file_name(offset, suffix)
        for suffix in (partition_files.OFFSET_INDEX, partition_files.TIME_INDEX)
        for offset in partition_files.offsets_of(names, suffix)
        if offset not in segments
    ]
    leftovers = [name for name in names if partition_files.is_leftover(name) or name in orphans]
    for name in leftovers:
        disk.remove(join(directory, name))
    return [name for name in names if name not in leftovers]


def _open_segments(disk: Disk, directory: str, names: list[str], snapshots: Snapshots) -> list[Segment]:
    offsets = partition_files.offsets_of(names, partition_files.LOG)
    if not offsets:
        newest = snapshots.newest
        offsets = [newest.offset if newest is not None else 0]
    segments: list[Segment] = []
    try:
        for offset in offsets:
            path = join(directory, partition_files.offset_file_name(offset, partition_files.LOG))
            segments.append(Segment(offset, disk.open(path, create=True)))
        # The names that were found may not be durable yet.
        disk.sync_directory(directory)
    except BaseException:
        _close(segments)
        raise
    return segments


def _close(segments: Iterable[Segment]) -> None:
    for segment in segments:
        segment.file.close()


def _scan_segments(
    segments: list[Segment], scan: LogScan, known_good_offset: int, recorded: RecoveryRecord, *, preallocates: bool
) -> None:
    last = segments[-1]
    # Everything before it (exclusive) has been synced: each segment is, before the next one is created.
    promised = max(recorded.synced_end_offset or 0, recorded.high_watermark or 0)
    synced_offset = max(known_good_offset, promised, last.base_offset)
    # A killed process may have left unsynced bytes here.
    last.file.sync_now()
    for segment in segments:
        if segment.base_offset != scan.next_offset:
            _refuse_damaged_last_batch(scan)
            raise CorruptLogError(
                f"{segment.file.path}: its first offset is {segment.base_offset}, expected "
                f"{scan.next_offset}, where the segment before it ends"
            )
        end = _scan_segment(segment, scan, known_good_offset)
        if end.damage is not None:
            _refuse_damaged_last_batch(scan)
            where = f"{segment.file.path}: position {end.position}: {end.damage}"
            if segment is not last:
                raise CorruptLogError(f"{where}; later segments follow, so this is not a torn tail")
            if scan.next_offset < synced_offset:
                raise CorruptLogError(
                    f"{where}; the log was synced up to offset {synced_offset}, so this is not a torn tail"
                )
            is_known = recorded.synced_end_offset is not None
            _cut(segment, scan, end, knows_synced_offset=is_known, preallocates=preallocates)
    if scan.next_offset < synced_offset:
        raise CorruptLogError(
            f"{last.file.path}: the log ends at offset {scan.next_offset}, position {last.size}, but was synced up to "
            f"offset {synced_offset}: its end is missing"
        )


def _refuse_damaged_last_batch(scan: LogScan) -> None:
    """Raise CorruptLogError if the last batch has a wrong CRC; call this if what follows it does not fit.

    The scan trusts the headers before the known good point.  A wrong length or offset delta shows at the next batch.
    """
    if scan.last_batch is None:
        return
    segment, position = scan.last_batch
    try:
        _read_checked_batch(segment, position)
    except ProtocolError as error:
        raise CorruptLogError(
            f"{segment.file.path}: position {position}: {error}; what follows does not fit, so this is not a torn tail"
        ) from error


def _scan_segment(segment: Segment, scan: LogScan, known_good_offset: int) -> ScanEnd:
    """Scan all batches up to the end, or to the first damage."""
    with segment.file.view() as view:
        end = scan_segment(segment, view, scan, 0, known_good_offset)
    if end.damage is None and end.position < segment.size:
        # Read the rest from the device: see `DiskFile.forget_cached`.
        segment.file.forget_cached()
        with segment.file.view() as view:
            end = scan_segment(segment, view, scan, end.position, None)
    return end


def _cut(segment: Segment, scan: LogScan, end: ScanEnd, *, knows_synced_offset: bool, preallocates: bool) -> None:
    """Cut the last segment after its last whole batch; raise CorruptLogError if the rest may have been synced."""
    segment.file.ensure_readable(end.position, segment.size - end.position)
    with segment.file.view() as view:
        is_expected = preallocates and is_preallocated(view, end.position)
        found = find_promised_batch(
            view, end.position, scan.next_offset, scan.latest_epoch, knows_synced_offset=knows_synced_offset
        )
    if found is not None:
        raise CorruptLogError(
            f"{segment.file.path}: position {end.position}: {end.damage}; a batch with a correct CRC is at position "
            f"{found}, so this is not a torn tail"
        )
    found_there = {
        "file": segment.file.path,
        "position": end.position,
        "size_in_bytes": segment.size - end.position,
        "end_offset": scan.next_offset,
    }
    if is_expected:
        log.info("preallocated zeros cut", **found_there)
    else:
        log.warning("torn tail cut", **found_there, reason=end.damage)
    segment.file.truncate(end.position)
    segment.file.sync_now()


def _load_voters(
    disk: Disk,
    directory: str,
    names: list[str],
    snapshots: Snapshots,
    scan: LogScan,
    log_start_offset: int,
    state: LogState,
) -> None:
    """Load the voters: the log's last VotersRecord, else the snapshot's, else the static voters."""
    from_offset = 0
    if log_start_offset > 0:
        from_offset = state.install_voters(snapshots)
    elif partition_files.BOOTSTRAP_CHECKPOINT in names:
        try:
            found = read_checkpoint_voters(disk, directory, OffsetAndEpoch(0, 0))
        except CorruptSnapshotError as error:
            raise CorruptSnapshotError(f"{error}; {_instead_of_the_bootstrap(scan)}") from error
        state.voters.install_snapshot(0, found.voters, found.kraft_version)
    for segment, position, base_offset in scan.control_batches:
        if base_offset < from_offset:
            continue
        try:
            for offset, record in read_control_batch(segment, position):
                fold_control_record(state.voters, offset, record)
        except ProtocolError as error:
            raise CorruptLogError(f"{segment.file.path}: position {position}: {error}") from error


def _instead_of_the_bootstrap(scan: LogScan) -> str:
    """What to do if the bootstrap checkpoint is damaged.  A leader writes its voters into the log at once."""
    for segment, position, _ in scan.control_batches:
        with suppress(ProtocolError):
            for offset, record in read_control_batch(segment, position):
                if isinstance(record, VotersRecord):
                    return f"the log names the voters since offset {offset}: remove this file if the rest is sound"
    return f"no record names the voters: {REPLACE_IT}"


def read_control_batch(segment: Segment, position: int) -> list[tuple[int, ControlRecord]]:
    """Read the control records of the batch at a position.  Raises ProtocolError if they are damaged."""
    batch, header = _read_checked_batch(segment, position)
    return list(decode_control_batch(batch, 0, header))


def _read_checked_batch(segment: Segment, position: int) -> tuple[bytes, BatchHeader]:
    """Raises ProtocolError if the CRC is wrong."""
    header = peek_header(segment.file.read_at(position, HEADER_BYTES))
    batch = segment.file.read_at(position, header.size_in_bytes)
    check_crc(batch, 0, header)
    return batch, header


def _write_derived(disk: Disk, directory: str, segments: Segments, epochs: EpochCache) -> None:
    """Write the derived files of sealed segments, unless they are right already.  Closing writes the last one's."""
    for segment in segments:
        if segment is not segments.active:
            segment.write_indexes(disk, directory)
            segment.thin_indexes()
    path = join(directory, partition_files.LEADER_EPOCH_CHECKPOINT)
    content = encode_leader_epochs(epochs)
    if not disk.exists(path) or disk.read_bytes(path) != content:
        disk.replace_now(path, content, durable=False)
