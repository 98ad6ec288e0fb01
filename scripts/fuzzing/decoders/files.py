"""Files of a node: its state, and traces."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from uuid import UUID

import trio
from crc32c import crc32c

from kraft_trio.cli.directory.recovery import RECORD, past_recoveries
from kraft_trio.errors import StorageError
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.directory.boot_counter import BOOT_COUNTER, BootCounter
from kraft_trio.storage.directory.meta_properties import MetaProperties, decode_meta_properties, encode_meta_properties
from kraft_trio.storage.directory.quorum_state import decode_quorum_state, encode_quorum_state, with_crc
from kraft_trio.storage.directory.removal_marker import RemovalMarker
from kraft_trio.storage.disk.partition_files import REMOVED_VOTER
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.segments.leader_epoch_checkpoint import decode_leader_epochs, encode_leader_epochs
from kraft_trio.storage.segments.producer_snapshot import encode_producer_snapshot, load_producer_snapshot
from kraft_trio.tracing.events import TraceEvent
from kraft_trio.tracing.files import TraceFileError, TraceHeader, TraceWriter, open_trace
from scripts.fuzzing.decoder import MSGPACK_AT_LEAST, Decoder

KEY = ReplicaKey(2, UUID(int=7))
RECOVERY = b'{"time":"now","recovery":"r","logEndOffset":1,"logEndEpoch":1,"newEpoch":2,"step":"done"}\n'
EVENT = TraceEvent(0, 5, 1, "role", 1, "Leader", 1, 9, 9, 8, (1, 2, 3), "elected", {"a": 1, "b": ["x", None]})


def quorum_states() -> list[bytes]:
    state = ElectionState(5, 1, KEY)
    lines = [encode_quorum_state(state, version, VoterSet([])) for version in (0, 1)]
    return [*lines, *map(with_crc, lines)]


def repair_second_line(data: bytearray) -> None:
    """Make the CRC in the second line that of the first."""
    data[:] = with_crc(bytes(data).partition(b"\n")[0])


def producers() -> list[bytes]:
    known = ProducerStates()
    for number in range(3):
        known.record(number, 0, 0, number * 5, number * 5 + 4, 1000)
    return [encode_producer_snapshot(ProducerStates()), encode_producer_snapshot(known)]


def repair_producers(data: bytearray) -> None:
    data[2:6] = crc32c(bytes(data[6:])).to_bytes(4, "big")


@cache
def home() -> Path:
    """A directory that this process removes when it ends."""
    directory = tempfile.mkdtemp(prefix="kraft-fuzz-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


@cache
def disk() -> RealDisk:
    return RealDisk()


def put(name: str, data: bytes) -> Path:
    path = home() / name
    path.write_bytes(data)
    return path


def read_removal(data: bytes) -> object:
    return RemovalMarker(disk(), str(put(REMOVED_VOTER, data).parent), KEY).is_set


def removals() -> list[bytes]:
    directory = home()
    (directory / REMOVED_VOTER).unlink(missing_ok=True)
    trio.run(RemovalMarker(disk(), str(directory), KEY).set)
    return [(directory / REMOVED_VOTER).read_bytes()]


def read_boots(data: bytes) -> object:
    return BootCounter(disk(), str(put(BOOT_COUNTER, data).parent)).value


def read_recoveries(data: bytes) -> object:
    return list(past_recoveries(disk(), str(put(RECORD, data).parent)))


def traces(*, ndjson: bool) -> Sequence[bytes]:
    found = []
    for header in (TraceHeader(seed=1, command="c", script="s"), TraceHeader(cluster_id="c", node=1, directory_id="d")):
        path = home() / "trace"
        with TraceWriter(path, header, ndjson=ndjson) as writer:
            writer.write(EVENT)
            writer.write(EVENT)
        found.append(path.read_bytes())
    return found


def read_trace(data: bytes) -> None:
    with open_trace(put("trace", data)) as (_, events):
        for event in events:
            str(event)


def meta() -> list[bytes]:
    return [
        encode_meta_properties(MetaProperties("cluster", 1, UUID(int=1))),
        b"version=0\nbroker.id=1\ncluster.id=x\n",
    ]


def _named(decode: Callable[[str, bytes], object]) -> Callable[[bytes], object]:
    return partial(decode, "file")


REFUSED = (StorageError,)
DECODERS = (
    Decoder("quorum-state", quorum_states, _named(decode_quorum_state), REFUSED, repair=repair_second_line),
    Decoder("meta-properties", meta, _named(decode_meta_properties), REFUSED),
    Decoder("leader-epochs", lambda: [encode_leader_epochs([(1, 0), (4, 17)])], _named(decode_leader_epochs), REFUSED),
    Decoder("producers", producers, lambda data: load_producer_snapshot("file", data, ProducerStates()), REFUSED,
            repair=repair_producers),
    Decoder("removal", removals, read_removal, (), repair=repair_second_line),
    Decoder("boots", lambda: [with_crc(b'{"boot":3,"data_version":0}')], read_boots, (), repair=repair_second_line),
    Decoder("recoveries", lambda: [RECOVERY * 2], read_recoveries, REFUSED),
    Decoder("trace-msgpack", partial(traces, ndjson=False), read_trace, (TraceFileError,), memory_per_byte=2000,
            memory_at_least=MSGPACK_AT_LEAST),
    Decoder("trace-ndjson", partial(traces, ndjson=True), read_trace, (TraceFileError,), memory_per_byte=2000,
            memory_at_least=MSGPACK_AT_LEAST),
)  # fmt: skip
