"""Checks whether a partition's directory is sound.  Reads everything and changes nothing; the node must be stopped.

This is stricter than opening a log, which checks every header, but CRCs only since the last known good point.  Here
every record of every batch and snapshot is checked, and each file is compared with those that it must agree with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import attrs

from kraft_trio.errors import CorruptSnapshotError, ProtocolError, StorageError
from kraft_trio.protocol.epoch_cache import EpochCache
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.snapshot_alignment import Alignment, align
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batches.batch import (
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    BatchHeader,
    check_crc,
    decode_control_batch,
    peek_header,
)
from kraft_trio.storage.batches.control_records import KRaftVersion, VotersRecord
from kraft_trio.storage.batches.record_check import check_records
from kraft_trio.storage.directory.quorum_state import decode_quorum_state, stored_voters
from kraft_trio.storage.disk import partition_files
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.segments.leader_epoch_checkpoint import decode_leader_epochs
from kraft_trio.storage.segments.preallocation import is_preallocated
from kraft_trio.storage.segments.producer_snapshot import decode_producer_snapshot
from kraft_trio.storage.segments.recovery_point import RecoveryRecord, decode_recovery_point
from kraft_trio.storage.segments.torn_tail import find_promised_batch
from kraft_trio.storage.snapshots.snapshot_reader import SnapshotBatch, SnapshotSummary, open_snapshot, summarize

OnProgress = Callable[[int], None]
"""Called with the number of bytes read since the last call."""


@attrs.define
class PartitionReport:
    """What is in a partition's directory, and what is wrong with it."""

    directory: str
    log_start_offset: int = 0
    """Inclusive."""
    log_end_offset: int = 0
    """The end (exclusive) of the sound part."""
    segment_count: int = 0
    log_bytes: int = 0
    batch_count: int = 0
    is_damaged: bool = False
    """Whether the log's end is missing, or a segment has bytes that are no batch.  The rest of such a segment is not
    checked."""
    epochs: EpochCache = attrs.field(factory=EpochCache)
    kraft_version: int = 0
    formatted_voters: VoterSet | None = None
    """Those that the bootstrap checkpoint names, until the log names others; None if it names none."""
    static_voters: tuple[int, ...] = ()
    """The ids that `quorum-state` names, ascending; empty at kraft.version 1."""
    snapshots: list[SnapshotSummary] = attrs.field(factory=list)
    """The whole snapshots, oldest first, including the bootstrap checkpoint."""
    election_state: ElectionState | None = None
    problems: list[str] = attrs.field(factory=list)
    """The faults.  Each text names the file."""
    notes: list[str] = attrs.field(factory=list)
    """The findings that are no faults: most are repaired by the next start."""

    @property
    def log_end(self) -> OffsetAndEpoch:
        """The log's end (exclusive), and the epoch of the last record before it."""
        epoch = self.epochs.latest_epoch
        if not len(self.epochs) and self.snapshots:
            epoch = self.snapshots[-1].snapshot_id.epoch
        return OffsetAndEpoch(self.log_end_offset, epoch)


def bytes_to_read(disk: Disk, directory: str) -> int:
    """Return roughly how many bytes `check_partition` reads.  Raises OSError."""
    total = 0
    for name in disk.list_directory(directory):
        if name.endswith((partition_files.LOG, partition_files.CHECKPOINT)):
            with closing(disk.open_to_read(join(directory, name))) as file:
                total += file.size()
    return total


def check_partition(disk: Disk, directory: str, on_progress: OnProgress = lambda _: None) -> PartitionReport:
    """Check a partition's directory.  The report lists the faults.  Raises OSError if a file cannot be read."""
    report = PartitionReport(directory)
    names = disk.list_directory(directory)
    boundaries = _Boundaries()
    _check_snapshots(disk, report, names, on_progress)
    _check_segments(disk, report, names, boundaries, on_progress)
    _check_synced(disk, report, names)
    _check_alignment(report, names, boundaries, _recovery_point(disk, directory, names).high_watermark)
    _check_epoch_checkpoint(disk, report, names)
    _check_quorum_state(disk, report, names)
    report.notes += [
        f"{join(directory, name)}: left over; the next start removes it"
        for name in names
        if partition_files.is_leftover(name)
    ]
    return report


@attrs.define
class _Boundaries:
    """The offsets at which snapshots end, and at which batches were found to end."""

    wanted: set[int] = attrs.field(factory=set)
    """The end offsets of snapshots."""
    found: set[int] = attrs.field(factory=set)
    """Those of them at which a batch ends."""


def _check_snapshots(disk: Disk, report: PartitionReport, names: list[str], on_progress: OnProgress) -> None:
    for snapshot_id in partition_files.checkpoint_ids(names):
        path = join(report.directory, partition_files.checkpoint_name(snapshot_id))
        try:
            report.snapshots.append(
                summarize(snapshot_id, read_records(open_snapshot(disk, path, snapshot_id), on_progress, path))
            )
        except CorruptSnapshotError as error:
            report.problems.append(str(error))


def read_records(batches: Iterator[SnapshotBatch], on_progress: OnProgress, path: str) -> Iterator[SnapshotBatch]:
    """Yield the batches of the snapshot at `path`, after checking their records.  Raises CorruptSnapshotError."""
    for batch in batches:
        try:
            check_records(batch.data, 0, batch.header, DEFAULT_MAX_DECOMPRESSED_BYTES)
        except ProtocolError as error:
            raise CorruptSnapshotError(f"{path}: position {batch.position}: {error}") from error
        on_progress(len(batch.data))
        yield batch


def _check_segments(
    disk: Disk, report: PartitionReport, names: list[str], boundaries: _Boundaries, on_progress: OnProgress
) -> None:
    boundaries.wanted = {summary.snapshot_id.offset for summary in report.snapshots}
    bootstrap = next((s for s in report.snapshots if s.snapshot_id.offset == 0), None)
    if bootstrap is not None:
        report.kraft_version = bootstrap.control_state.kraft_version
        report.formatted_voters = bootstrap.control_state.voters
    if any(s.snapshot_id.offset > 0 and s.control_state.voters is not None for s in report.snapshots):
        report.formatted_voters = None
    offsets = partition_files.offsets_of(names, partition_files.LOG)
    report.segment_count = len(offsets)
    if not offsets:
        newest = report.snapshots[-1].snapshot_id.offset if report.snapshots else 0
        report.log_start_offset = report.log_end_offset = newest
        boundaries.found.add(newest)
        return
    report.log_start_offset = report.log_end_offset = offsets[0]
    if offsets[0] > 0 and report.snapshots:
        report.kraft_version = report.snapshots[-1].control_state.kraft_version
    boundaries.found.add(offsets[0])
    for offset in offsets:
        path = join(report.directory, partition_files.offset_file_name(offset, partition_files.LOG))
        if offset != report.log_end_offset:
            report.problems.append(
                f"{path}: first offset {offset}, expected {report.log_end_offset}, where the segment before it ends"
            )
            report.log_end_offset = offset
        with closing(disk.open_to_read(path)) as file, file.view() as view:
            report.log_bytes += len(view)
            file.ensure_readable(0, len(view))
            position, damage = _check_batches(report, view, boundaries, on_progress)
            if damage is None:
                continue
            where, left = f"{path}: position {position}", len(view) - position
            if offset != offsets[-1] or not _is_torn_tail(disk, report, names, view, position):
                report.problems.append(f"{where}: {damage}")
                report.is_damaged = True
            elif is_preallocated(view, position):
                on_progress(left)
                report.notes.append(f"{where}: {left} preallocated bytes of zeros, which the next start cuts")
            else:
                report.notes.append(f"{where}: {damage}; a torn tail of {left} bytes, which the next start cuts")


def _check_batches(
    report: PartitionReport, view: memoryview, boundaries: _Boundaries, on_progress: OnProgress
) -> tuple[int, str | None]:
    """Check a segment's batches.  Returns the position where the sound ones end, and the fault there, if any."""
    position = 0
    while position < len(view):
        try:
            header = peek_header(view, position)
            check_crc(view, position, header)
            _check_place(report, header)
            check_records(view, position, header, DEFAULT_MAX_DECOMPRESSED_BYTES)
            if header.is_control:
                for _, record in decode_control_batch(view, position, header):
                    if isinstance(record, KRaftVersion):
                        report.kraft_version = record.version
                    elif isinstance(record, VotersRecord):
                        report.formatted_voters = None
        except ProtocolError as error:
            return position, str(error)
        report.epochs.append(header.leader_epoch, header.base_offset)
        report.batch_count += 1
        report.log_end_offset = header.next_offset
        if header.next_offset in boundaries.wanted:
            boundaries.found.add(header.next_offset)
        position += header.size_in_bytes
        on_progress(header.size_in_bytes)
    return position, None


def _check_place(report: PartitionReport, header: BatchHeader) -> None:
    if header.base_offset != report.log_end_offset:
        raise ProtocolError(f"base offset {header.base_offset}, expected {report.log_end_offset}")
    if header.leader_epoch < report.epochs.latest_epoch:
        raise ProtocolError(
            f"leader epoch {header.leader_epoch} at offset {header.base_offset}, after epoch "
            f"{report.epochs.latest_epoch}: this batch or the one before it is damaged"
        )


def _is_torn_tail(disk: Disk, report: PartitionReport, names: list[str], view: memoryview, position: int) -> bool:
    """Whether opening the log would cut a torn tail at `position`; see `log_recovery`."""
    recorded = _recovery_point(disk, report.directory, names)
    promised = max(recorded.synced_end_offset or 0, recorded.high_watermark or 0)
    if report.log_end_offset < max(promised, _known_good_offset(disk, report.directory, names)):
        return False
    found = find_promised_batch(
        view,
        position,
        report.log_end_offset,
        report.epochs.latest_epoch,
        knows_synced_offset=recorded.synced_end_offset is not None,
    )
    return found is None


def _recovery_point(disk: Disk, directory: str, names: list[str]) -> RecoveryRecord:
    if partition_files.RECOVERY_POINT not in names:
        return RecoveryRecord()
    path = join(directory, partition_files.RECOVERY_POINT)
    return decode_recovery_point(disk.read_bytes(path)) or RecoveryRecord()


def _known_good_offset(disk: Disk, directory: str, names: list[str]) -> int:
    newest = 0
    for offset in partition_files.offsets_of(names, partition_files.PRODUCER_SNAPSHOT):
        path = join(directory, partition_files.offset_file_name(offset, partition_files.PRODUCER_SNAPSHOT))
        try:
            decode_producer_snapshot(path, disk.read_bytes(path))
            newest = max(newest, offset)
        except StorageError:
            pass
    return newest


def _check_alignment(report: PartitionReport, names: list[str], boundaries: _Boundaries, committed: int | None) -> None:
    """Check that a snapshot covers what is missing before the log's start, and that all snapshots match the log."""
    snapshots = [summary.snapshot_id for summary in report.snapshots if summary.snapshot_id.offset > 0]
    start, end = report.log_start_offset, report.log_end_offset
    if start > 0 and not any(snapshot_id.offset >= start for snapshot_id in snapshots):
        report.problems.append(
            f"{report.directory}: the log starts at offset {start}; expected a whole snapshot that ends there or later"
        )

    def alignment_of(snapshot_id: OffsetAndEpoch) -> Alignment | None:
        """None if damage hides the epoch of the record before the snapshot's end."""
        last = snapshot_id.offset - 1
        if report.is_damaged and start <= last < end and report.epochs.epoch_for_offset(last) is None:
            return None
        return align(snapshot_id, start, end, report.epochs, committed)

    gives_way = bool(snapshots) and snapshots[-1].offset >= start and alignment_of(snapshots[-1]) is Alignment.REPLACED
    for snapshot_id in snapshots:
        path = join(report.directory, partition_files.checkpoint_name(snapshot_id))
        if snapshot_id.offset < start:
            report.notes.append(f"{path}: ends below the log's start, {start}; the next start removes it")
            continue
        alignment = alignment_of(snapshot_id)
        if alignment is Alignment.CONTRADICTS:
            report.problems.append(f"{path}: {alignment.value}")
        elif alignment is None or report.is_damaged:
            # The end and the epochs of the damaged part are unknown.
            continue
        elif alignment is Alignment.REPLACED and snapshot_id == snapshots[-1]:
            report.notes.append(f"{path}: {alignment.value}; the next start replaces the log by it")
        elif alignment is Alignment.REPLACED and gives_way:
            # The newest segments are removed first, including the batch at the end of an older snapshot.
            report.notes.append(f"{path}: {alignment.value}; the next start removes it with the log")
        elif alignment is Alignment.REPLACED:
            report.problems.append(f"{path}: {alignment.value}, although a newer snapshot exists")
        elif snapshot_id.offset not in boundaries.found:
            report.problems.append(f"{path}: ends inside a batch of the log, expected the end of a batch")
    for snapshot_id in partition_files.checkpoint_ids(names):
        if snapshot_id.offset > end and snapshot_id not in [s.snapshot_id for s in report.snapshots]:
            report.problems.append(
                f"{report.directory}: the log ends at offset {end}, before the end of the damaged snapshot "
                f"{snapshot_id}: the committed records between the two are lost on this replica"
            )


def _check_synced(disk: Disk, report: PartitionReport, names: list[str]) -> None:
    if report.is_damaged:
        # The offsets after the damage are unknown.
        return
    end = report.log_end_offset
    recorded = _recovery_point(disk, report.directory, names)
    promised = max(recorded.synced_end_offset or 0, recorded.high_watermark or 0)
    known_good = _known_good_offset(disk, report.directory, names)
    if end < max(promised, known_good):
        name = partition_files.RECOVERY_POINT if promised > known_good else "the newest producer snapshot"
        report.problems.append(
            f"{report.directory}: the log ends at offset {end}, but was synced up to {max(promised, known_good)} "
            f"according to {name}: its end is missing"
        )
        report.is_damaged = True


def _check_epoch_checkpoint(disk: Disk, report: PartitionReport, names: list[str]) -> None:
    path = join(report.directory, partition_files.LEADER_EPOCH_CHECKPOINT)
    try:
        found = tuple(decode_leader_epochs(path, disk.read_bytes(path))) if disk.exists(path) else None
    except StorageError as error:
        report.notes.append(f"{error}; the next start rewrites it")
        return
    # After a power failure the file may be an older one, with epochs that never committed.
    if found != report.epochs.entries and names and not report.is_damaged:
        stands = "missing" if found is None else f"says {_epochs_text(found)}"
        report.notes.append(
            f"{path}: {stands}, the log says {_epochs_text(report.epochs.entries)}; the next start rewrites it"
        )


def _epochs_text(entries: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(f"epoch {epoch} from {start_offset}" for epoch, start_offset in entries) or "no epoch"


def _check_quorum_state(disk: Disk, report: PartitionReport, names: list[str]) -> None:
    path = join(report.directory, partition_files.QUORUM_STATE)
    log_epoch = report.log_end.epoch
    if partition_files.QUORUM_STATE not in names:
        if log_epoch > 0:
            report.problems.append(
                f"{path}: missing, though the log is of epoch {log_epoch}: a vote of that epoch would be forgotten"
            )
        return
    try:
        state = decode_quorum_state(path, disk.read_bytes(path))
    except StorageError as error:
        report.problems.append(str(error))
        return
    report.election_state = state
    report.static_voters = stored_voters(path, disk.read_bytes(path)).ids
    if state.epoch < log_epoch:
        report.problems.append(
            f"{path}: leaderEpoch {state.epoch}, the log has records of epoch {log_epoch}: an epoch is stored before "
            "anything is appended in it"
        )
