"""What the storage tests share: small batches, logs on simulated disks, and the files that Kafka wrote."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey, VersionRange, directory_id_from_text
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.storage.batch import NewRecord, decode_records, encode_batch
from kraft_trio.storage.disk import Disk
from kraft_trio.storage.log import Log, LogConfig

TOPIC_ID = UUID(int=1)
DIRECTORY = "/data/__cluster_metadata-0"
FIRST_SEGMENT = f"{DIRECTORY}/{0:020d}.log"
DIRECTORY_ID = directory_id_from_text("b8tRS7h4TJ2Vt43Dp85v2A")
STATIC_VOTERS = VoterSet([Voter(ReplicaKey(id)) for id in (1, 2, 3)])
KAFKAS_VOTERS = VoterSet(
    [
        Voter(
            ReplicaKey(1, DIRECTORY_ID),
            Endpoints({"CONTROLLER": Endpoint("localhost", 9093)}),
            VersionRange(0, 1),
        )
    ]
)

_DATA = Path(__file__).parent.parent / "data" / "partition-directories.txt"


def kafkas_files(directory: str) -> dict[str, bytes]:
    """The files of "dynamic" (kraft.version 1) or "static" (0), by name."""
    lines = [line.split() for line in _DATA.read_text().splitlines() if not line.startswith("#")]
    return {
        path.partition("/")[2]: b"" if content == "-" else bytes.fromhex(content)
        for path, content in lines
        if path.startswith(f"{directory}/")
    }


def batch(*values: bytes, timestamp_ms: int = 1000, **fields: int) -> bytes:
    return encode_batch([NewRecord(value) for value in values], timestamp_ms=timestamp_ms, **fields)  # type: ignore[arg-type]


def open_log(
    disk: Disk,
    directory: str = DIRECTORY,
    *,
    segment_bytes: int = 1 << 30,
    max_batch_bytes: int = 1 << 20,
    static_voters: VoterSet = STATIC_VOTERS,
) -> Log:
    return Log.open(
        disk,
        directory,
        topic_id=TOPIC_ID,
        static_voters=static_voters,
        config=LogConfig(segment_bytes=segment_bytes, segment_ms=10**9, max_batch_bytes=max_batch_bytes),
        now_ms=lambda: 0,
    )


def values_in(log: Log) -> list[bytes | None]:
    """The values of all data records, in order."""
    return [
        record.value
        for header, data in log.iter_batches(log.log_start_offset, log.end_offset)
        if not header.is_control
        for record in decode_records(data, 0, header)
    ]
