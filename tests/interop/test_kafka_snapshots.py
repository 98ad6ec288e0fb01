"""Apache Kafka's own code reads our snapshots and writes them again; we read what it wrote."""

from __future__ import annotations

import subprocess
from pathlib import Path
from uuid import UUID

import pytest
import trio

from harness.kafka import adapted, java, kafka_version
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey, directory_id_to_text
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.storage.batches.batch import decode_records, iter_headers
from kraft_trio.storage.disk.partition_files import checkpoint_name
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.segments.producer_snapshot import encode_producer_snapshot
from kraft_trio.storage.snapshots.snapshot_reader import ControlState, check_snapshot, open_snapshot
from kraft_trio.storage.snapshots.snapshot_writer import SnapshotWriter

JVM_SECONDS = 120
"""A JVM starts, perhaps on a busy machine."""

COPIER = """
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.memory.MemoryPool;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.VoterSet;
import org.apache.kafka.raft.internals.StringSerde;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.FileRawSnapshotReader;
import org.apache.kafka.snapshot.FileRawSnapshotWriter;
import org.apache.kafka.snapshot.RecordsSnapshotReader;
import org.apache.kafka.snapshot.RecordsSnapshotWriter;

public class Copier {
    static final int MAX_BATCH = 8 * 1024 * 1024;

    public static void main(String[] args) throws Exception {
        OffsetAndEpoch id = new OffsetAndEpoch(Long.parseLong(args[2]), Integer.parseInt(args[3]));
        RecordsSnapshotReader<String> reader = RecordsSnapshotReader.of(
            FileRawSnapshotReader.open(Path.of(args[0]), id), new StringSerde(), BufferSupplier.create(), MAX_BATCH,
            true, new LogContext());
        System.out.println("timestamp " + reader.lastContainedLogTimestamp());
        short version = 0;
        Optional<VoterSet> voters = Optional.empty();
        RecordsSnapshotWriter<String> writer = null;
        while (reader.hasNext()) {
            Batch<String> batch = reader.next();
            for (org.apache.kafka.raft.ControlRecord control : batch.controlRecords()) {
                System.out.println("control " + control.type());
                if (control.message() instanceof SnapshotHeaderRecord header)
                    header.unknownTaggedFields().forEach(
                        field -> System.out.println("tag " + field.tag() + " of " + field.size() + " bytes"));
                if (control.message() instanceof KRaftVersionRecord found) version = found.kRaftVersion();
                if (control.message() instanceof VotersRecord found) {
                    voters = Optional.of(VoterSet.fromVotersRecord(found));
                    voters.get().voterKeys().forEach(key -> System.out.println("voter " + key.id() + " "
                        + key.directoryId().get()));
                }
            }
            if (writer == null)
                writer = new RecordsSnapshotWriter.Builder()
                    .setTime(Time.SYSTEM).SET_MAX_BATCH_SIZE(MAX_BATCH).setMemoryPool(MemoryPool.NONE)
                    .setCompression(Compression.NONE).setKraftVersion(KRaftVersion.fromFeatureLevel(version))
                    .setVoterSet(voters).setLastContainedLogTimestamp(reader.lastContainedLogTimestamp())
                    .setRawSnapshotWriter(FileRawSnapshotWriter.create(Path.of(args[1]), id))
                    .build(new StringSerde());
            List<String> values = batch.records();
            for (String value : values)
                System.out.println("value " + value);
            if (!values.isEmpty()) writer.append(values);
        }
        writer.freeze();
        writer.close();
        reader.close();
    }
}
"""

ID = OffsetAndEpoch(1234, 7)
VOTERS = VoterSet(
    Voter(ReplicaKey(id, UUID(int=id << 100)), Endpoints((("CONTROLLER", Endpoint("localhost", 9090 + id)),)))
    for id in (1, 2, 3)
)
VALUES = [f"value {number:05d} {'x' * (number % 300)}" for number in range(2000)]


def producers() -> bytes:
    states = ProducerStates()
    states.record(4711, 2, 0, 900, 909, 1_700_000_000_000)
    return encode_producer_snapshot(states)


STATES = {
    "dynamic voters": ControlState(1_700_000_000_000, VOTERS, 1),
    "dynamic voters and producers": ControlState(1_700_000_000_000, VOTERS, 1, producers()),
    "static voters and producers": ControlState(1_700_000_000_000, None, 0, producers()),
}


def write(directory: Path, state: ControlState) -> Path:
    async def written() -> None:
        async with SnapshotWriter(RealDisk(), str(directory), ID, state) as writer:
            await writer.append(value.encode() for value in VALUES)
            await writer.finish()

    directory.mkdir()
    trio.run(written)
    return directory / checkpoint_name(ID)


def printed(*arguments: str) -> str:
    done = subprocess.run(java(*arguments), capture_output=True, text=True, timeout=JVM_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_kafka_reads_ours_and_we_read_what_it_writes_of_them(state: ControlState, tmp_path: Path) -> None:
    ours, copies = write(tmp_path / "ours", state).parent, tmp_path / "kafkas"
    copies.mkdir()
    # It was renamed in 4.2.
    setter = "setMaxBatchSizeBytes" if kafka_version() >= (4, 2) else "setMaxBatchSize"
    copier = COPIER.replace("SET_MAX_BATCH_SIZE", setter)
    (tmp_path / "Copier.java").write_text(adapted(copier))
    said = printed(str(tmp_path / "Copier.java"), str(ours), str(copies), str(ID.offset), str(ID.epoch)).splitlines()

    assert said[0] == f"timestamp {state.last_contained_log_timestamp_ms}"
    controls = [line for line in said if line.startswith("control ")]
    of_voters = ["control KRAFT_VERSION", "control KRAFT_VOTERS"] if state.voters else []
    assert controls == ["control SNAPSHOT_HEADER", *of_voters, "control SNAPSHOT_FOOTER"]
    tags = [line for line in said if line.startswith("tag ")]
    assert tags == ([f"tag 10000 of {len(state.producers)} bytes"] if state.producers else [])
    voters = {line for line in said if line.startswith("voter ")}
    assert voters == {f"voter {v.id} {directory_id_to_text(v.key.directory_id)}" for v in state.voters or ()}
    assert [line.removeprefix("value ") for line in said if line.startswith("value ")] == VALUES

    disk = RealDisk()
    path = str(copies / checkpoint_name(ID))
    summary = check_snapshot(disk, path, ID)
    assert summary.record_count == len(VALUES)
    # What Kafka does not know it does not keep.
    expected = ControlState(state.last_contained_log_timestamp_ms, state.voters, state.kraft_version)
    assert summary.control_state == expected
    data = [batch for batch in open_snapshot(disk, path, ID) if not batch.header.is_control]
    found = [record.value for batch in data for record in decode_records(batch.data, 0, batch.header)]
    assert found == [value.encode() for value in VALUES]


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_kafkas_dump_reads_ours(state: ControlState, tmp_path: Path) -> None:
    path = write(tmp_path / "ours", state)
    said = printed("kafka.tools.DumpLogSegments", "--print-data-log", "--files", str(path)).splitlines()
    assert f"Snapshot end offset: {ID.offset}, epoch: {ID.epoch}" in said
    batches = [line for line in said if line.startswith("baseOffset: ")]
    headers = [header for _, header in iter_headers(path.read_bytes())]
    assert len(batches) == len(headers)
    assert all(" isvalid: true" in line for line in batches)
    payloads = [line.partition(" payload: ")[2] for line in said if " payload: " in line]
    assert payloads == VALUES
    assert sum(" SnapshotFooter " in line for line in said) == 1
