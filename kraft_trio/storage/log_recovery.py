"""Opening a log: what is in its directory, made ready to be appended to, or refused.

After an unclean stop the log may end in the middle of a write, or in writes of which the device has some and not those
before.  Such a tail is cut where it first makes no sense.  Anything wrong before it is damage, which an fsync had
promised against: the log is then refused, as a node that has forgotten records it acknowledged must not vote (scenario
S13).  Damage it is

* in any segment but the last: a segment is synced before the next one is made;
* before the last known good point, the offset of the newest producer snapshot;
* before the recovery point;
* from there on, where a batch with a right CRC lies at or beyond it, unless a write is missing between the two.  The
  recovery point may be behind, so that bits flipped in what was promised must not pass for a torn tail.
"""

from __future__ import annotations

from uuid import UUID

import attrs
import structlog

from kraft_trio.errors import CorruptLogError, ProtocolError, StorageError
from kraft_trio.protocol.control_records import ControlRecord, KRaftVersion, VotersRecord
from kraft_trio.protocol.epoch_cache import EpochCache
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.protocol.types import OffsetAndEpoch, directory_id_to_text
from kraft_trio.protocol.voter_history import VoterHistory
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage import partition_files
from kraft_trio.storage.batch import check_crc, decode_control_batch, peek_header
from kraft_trio.storage.batch_header import HEADER_BYTES
from kraft_trio.storage.checkpoint import read_checkpoint_voters
from kraft_trio.storage.disk import Disk, join
from kraft_trio.storage.known_good_point import load_known_good_point
from kraft_trio.storage.leader_epoch_checkpoint import encode_leader_epochs
from kraft_trio.storage.log_scan import LogScan, ScanEnd, find_batch_after, is_write_missing, scan_segment
from kraft_trio.storage.partition_metadata import decode_partition_metadata, encode_partition_metadata
from kraft_trio.storage.recovery_point import RecoveryPoint, read_recovery_point
from kraft_trio.storage.segment import Segment

log = structlog.get_logger(__name__)


@attrs.define
class LoadedLog:
    """What opening found; handed to the log, which owns it from then on."""

    segments: list[Segment]
    """Oldest first, at least one."""
    end_offset: int
    """Exclusive; everything before it is durable."""
    epochs: EpochCache
    voters: VoterHistory
    producers: ProducerStates
    recovery_point: RecoveryPoint
    start_snapshot_id: OffsetAndEpoch | None
    """The snapshot that ends where the log starts, or later; None for a log that starts at 0."""


def load_log(disk: Disk, directory: str, topic_id: UUID, static_voters: VoterSet) -> LoadedLog:
    """Open the log in a directory, making what is not there.  Blocks for reads and fsyncs.

    Raises CorruptLogError, naming file, position and reason, for damage that is no torn tail; StorageError for other
    files that cannot be used or belong to another topic; OSError.
    """
    disk.make_directory(directory)
    _check_topic(disk, directory, topic_id)
    names = _remove_leftovers(disk, directory)
    snapshot_id = _start_snapshot_id(directory, names)
    segments = _open_segments(disk, directory, names, snapshot_id)
    try:
        return _load(disk, directory, names, segments, snapshot_id, VoterHistory(static_voters))
    except BaseException:
        for segment in segments:
            segment.file.close()
        raise


def _load(
    disk: Disk,
    directory: str,
    names: list[str],
    segments: list[Segment],
    snapshot_id: OffsetAndEpoch | None,
    voters: VoterHistory,
) -> LoadedLog:
    producers = ProducerStates()
    known_good_offset = load_known_good_point(disk, directory, segments[0].base_offset, producers)
    scan = LogScan(segments[0].base_offset, producers)
    _scan_segments(segments, scan, known_good_offset, read_recovery_point(disk, directory))
    _load_voters(disk, directory, names, snapshot_id, scan, voters)
    epochs = EpochCache(scan.epochs)
    _write_derived(disk, directory, segments, epochs)
    recovery_point = RecoveryPoint(disk, directory, scan.next_offset)
    return LoadedLog(segments, scan.next_offset, epochs, voters, producers, recovery_point, snapshot_id)


def _check_topic(disk: Disk, directory: str, topic_id: UUID) -> None:
    path = join(directory, partition_files.PARTITION_METADATA)
    if not disk.exists(path):
        disk.replace_now(path, encode_partition_metadata(topic_id))
        return
    found = decode_partition_metadata(path, disk.read_bytes(path))
    if found != topic_id:
        raise StorageError(
            f"{path}: topic_id {directory_id_to_text(found)}, the configuration says {directory_id_to_text(topic_id)}"
        )


def _remove_leftovers(disk: Disk, directory: str) -> list[str]:
    names = disk.list_directory(directory)
    leftovers = [name for name in names if partition_files.is_leftover(name)]
    for name in leftovers:
        disk.remove(join(directory, name))
    return [name for name in names if name not in leftovers]


def _start_snapshot_id(directory: str, names: list[str]) -> OffsetAndEpoch | None:
    """The oldest snapshot that reaches to the log's first offset; without one the records before it are lost."""
    segment_offsets = partition_files.offsets_of(names, partition_files.LOG)
    snapshots = [id for id in partition_files.checkpoint_ids(names) if id.offset > 0]
    if not segment_offsets:
        return snapshots[-1] if snapshots else None
    log_start_offset = segment_offsets[0]
    if log_start_offset == 0:
        return None
    reaching = [id for id in snapshots if id.offset >= log_start_offset]
    if not reaching:
        raise CorruptLogError(
            f"{directory}: the log starts at offset {log_start_offset}, and no snapshot reaches up to it"
        )
    return reaching[0]


def _open_segments(disk: Disk, directory: str, names: list[str], snapshot_id: OffsetAndEpoch | None) -> list[Segment]:
    offsets = partition_files.offsets_of(names, partition_files.LOG)
    if not offsets:
        offsets = [snapshot_id.offset if snapshot_id is not None else 0]
    segments = []
    for offset in offsets:
        path = join(directory, partition_files.offset_file_name(offset, partition_files.LOG))
        segments.append(Segment(offset, disk.open(path, create=True)))
    # Also when nothing was made: the names that were found may not be durable yet.
    disk.sync_directory(directory)
    return segments


def _scan_segments(segments: list[Segment], scan: LogScan, known_good_offset: int, recovery_point: int | None) -> None:
    last = segments[-1]
    # All before it (exclusive) has been synced; a segment is, before the next one is made.
    synced_offset = max(known_good_offset, recovery_point or 0, last.base_offset)
    # A killed process may have left bytes here that it had not synced.
    last.file.sync_now()
    for segment in segments:
        if segment.base_offset != scan.next_offset:
            raise CorruptLogError(
                f"{segment.file.path}: its first offset is {segment.base_offset}, the segment before it ends at "
                f"{scan.next_offset}"
            )
        end = _scan_segment(segment, scan, known_good_offset)
        if end.damage is not None:
            where = f"{segment.file.path}: position {end.position}: {end.damage}"
            if segment is not last:
                raise CorruptLogError(f"{where}; later segments follow, so this is no torn tail")
            if scan.next_offset < synced_offset:
                raise CorruptLogError(
                    f"{where}; the log was synced up to offset {synced_offset}, so this is no torn tail"
                )
            _cut(segment, scan, end, knows_synced_offset=recovery_point is not None)
    if scan.next_offset < synced_offset:
        raise CorruptLogError(
            f"{last.file.path}: the log ends at offset {scan.next_offset}, position {last.size}, but was synced up to "
            f"offset {synced_offset}: its end is missing"
        )


def _scan_segment(segment: Segment, scan: LogScan, known_good_offset: int) -> ScanEnd:
    """Take in all batches up to the end, or to the first damage."""
    with segment.file.view() as view:
        end = scan_segment(segment, view, scan, 0, known_good_offset)
    if end.damage is None and end.position < segment.size:
        # From here on what counts is what the device holds: see `DiskFile.forget_cached`.
        segment.file.forget_cached(end.position)
        with segment.file.view() as view:
            end = scan_segment(segment, view, scan, end.position, None)
    return end


def _cut(segment: Segment, scan: LogScan, end: ScanEnd, *, knows_synced_offset: bool) -> None:
    """Drop what follows the last sound batch of the last segment; refuse where that may have been synced."""
    with segment.file.view() as view:
        found = find_batch_after(view, end.position, scan.next_offset, scan.latest_epoch)
        is_hole = (
            knows_synced_offset and found is not None and is_write_missing(view, end.position, found, scan.next_offset)
        )
    if found is not None and not is_hole:
        raise CorruptLogError(
            f"{segment.file.path}: position {end.position}: {end.damage}; a batch with a right CRC is at position "
            f"{found}, so this is no torn tail"
        )
    log.warning(
        "torn tail cut",
        file=segment.file.path,
        position=end.position,
        size_in_bytes=segment.size - end.position,
        end_offset=scan.next_offset,
        reason=end.damage,
    )
    segment.file.truncate(end.position)
    segment.file.sync_now()


def _load_voters(
    disk: Disk,
    directory: str,
    names: list[str],
    snapshot_id: OffsetAndEpoch | None,
    scan: LogScan,
    voters: VoterHistory,
) -> None:
    """Invariant 15: the last VotersRecord of the log, else the snapshot's, else the static voters."""
    snapshot_end = 0
    if snapshot_id is None and partition_files.BOOTSTRAP_CHECKPOINT in names:
        snapshot_id = OffsetAndEpoch(0, 0)
    if snapshot_id is not None:
        found = read_checkpoint_voters(disk, directory, snapshot_id)
        snapshot_end = snapshot_id.offset
        voters.install_snapshot(snapshot_end, found.voters, found.kraft_version)
    for segment, position, base_offset in scan.control_batches:
        if base_offset < snapshot_end:
            continue
        try:
            for offset, record in read_control_batch(segment, position):
                fold_control_record(voters, offset, record)
        except ProtocolError as error:
            raise CorruptLogError(f"{segment.file.path}: position {position}: {error}") from error


def read_control_batch(segment: Segment, position: int) -> list[tuple[int, ControlRecord]]:
    """The control records of the batch at a position.  Raises ProtocolError where they are damaged."""
    header = peek_header(segment.file.read_at(position, HEADER_BYTES))
    batch = segment.file.read_at(position, header.size_in_bytes)
    check_crc(batch, 0, header)
    return list(decode_control_batch(batch, 0, header))


def fold_control_record(voters: VoterHistory, offset: int, record: ControlRecord) -> None:
    """A control record is in the log at `offset`: what it says is in force from now on (KIP-853)."""
    match record:
        case VotersRecord():
            voters.add_voters(offset, record.voters)
        case KRaftVersion():
            voters.add_kraft_version(offset, record.version)


def _write_derived(disk: Disk, directory: str, segments: list[Segment], epochs: EpochCache) -> None:
    """Make the derived files of what is sealed say what the batches say; the last segment's are written at close."""
    for segment in segments[:-1]:
        segment.write_indexes(disk, directory)
    path = join(directory, partition_files.LEADER_EPOCH_CHECKPOINT)
    content = encode_leader_epochs(epochs)
    if not disk.exists(path) or disk.read_bytes(path) != content:
        disk.replace_now(path, content, durable=False)
