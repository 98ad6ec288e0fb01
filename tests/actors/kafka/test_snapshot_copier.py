"""A witness copies the snapshots of Apache Kafka's controllers, so that its log can be trimmed."""

from __future__ import annotations

import attrs
import pytest
import trio

from kraft_trio.actors.kafka.snapshot_copier import INTERVAL_S, SnapshotCopier
from kraft_trio.messages import Stamp
from kraft_trio.protocol.roles import Follower
from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import LISTENER
from kraft_trio.storage.batches.batch import NewRecord
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.log.log_appender import LogConfig
from kraft_trio.storage.segments.retention import RetentionLimits
from kraft_trio.storage.snapshots.snapshot_writer import SnapshotWriter
from kraft_trio.wire.api import API_VERSIONS, FETCH, FETCH_SNAPSHOT, READ_INDEX, advertised_ranges
from kraft_trio.wire.apis.api_versions import ApiRange, ApiVersionsResponse
from kraft_trio.wire.apis.controller_registration import CONTROLLER_REGISTRATION
from kraft_trio.wire.apis.fetch import FetchPartitionResponse, FetchRequest, FetchResponse
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kraft_trio.wire.codec import decode_request, encode_response
from kraft_trio.wire.framing import FrameReader
from tests.storage.support import snapshot_state
from tests.support.epoch_context import LoneEpoch, lone_epoch
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import TOPIC, TOPIC_ID, batch_of
from tests.support.voter_change_requests import listening

KAFKA = Endpoint("kafka", 9093)
VERSIONS = ApiVersionsResponse(
    apis=(*advertised_ranges(besides=frozenset({READ_INDEX.key})), ApiRange(CONTROLLER_REGISTRATION.key, 0, 0))
)
EPOCH = 2
BATCHES = 20
PIECE_BYTES = 100
SMALL = {"metadata.log.max.record.bytes.between.snapshots": "1"}


@attrs.define
class Controller:
    """It offers one snapshot, in pieces."""

    snapshot_id: OffsetAndEpoch | None
    content: bytes = b""
    fetches: list[FetchRequest] = attrs.field(factory=list)
    pieces: list[int] = attrs.field(factory=list)
    """The positions that were asked for."""
    partitions: int = 1
    """The number of partitions that its answer to a Fetch has."""

    async def serve(self, stream: trio.abc.Stream) -> None:
        reader = FrameReader(stream, 2**20)
        while (frame := await reader.read()) is not None:
            header, request = decode_request(frame)
            response = {API_VERSIONS.key: lambda _: VERSIONS, FETCH.key: self._fetch, FETCH_SNAPSHOT.key: self._piece}[
                header.api.key
            ](request)
            await stream.send_all(encode_response(header.api, header.version, header.correlation_id, response))

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        self.fetches.append(request)
        partition = FetchPartitionResponse(
            TOPIC, TOPIC_ID, 0, leader_id=1, leader_epoch=EPOCH, snapshot_id=self.snapshot_id
        )
        return FetchResponse(partitions=(partition,) * self.partitions)

    def _piece(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        assert request.snapshot_id == self.snapshot_id
        self.pieces.append(request.position)
        piece = self.content[request.position : request.position + PIECE_BYTES]
        return FetchSnapshotResponse(
            topic=TOPIC,
            snapshot_id=request.snapshot_id,
            size=len(self.content),
            position=request.position,
            unaligned_records=piece,
        )


async def filled(cluster: Cluster) -> LoneEpoch:
    """A follower with a log, of which all but the last batch is committed."""
    lone = lone_epoch(cluster, 3, Stamp(EPOCH, 1), LogConfig(segment_bytes=1024))
    log = lone.context.log
    for number in range(BATCHES):
        log.append_as_leader(bytearray(batch_of(b"%090d" % number)), EPOCH)
    await log.sync()
    log.advance_high_watermark(log.end_offset - 1)
    lone.context.controllers.negotiated(KAFKA, VERSIONS)
    return lone


async def snapshot_of(cluster: Cluster, log: Log, snapshot_id: OffsetAndEpoch) -> bytes:
    """Another replica's snapshot of that log."""
    disk = cluster.machines[1].disk
    state = snapshot_state(log, snapshot_id.offset)
    directory = cluster.machines[1].partition_path
    async with SnapshotWriter(disk, directory, snapshot_id, state, log_end_offset=lambda: log.end_offset) as writer:
        await writer.append([NewRecord(b"state")])
        await writer.finish()
    [name] = [name for name in disk.list_directory(directory) if name.startswith(f"{snapshot_id.offset:020}-")]
    return disk.read_bytes(f"{directory}/{name}")


async def copy_for(lone: LoneEpoch, cluster: Cluster, controller: Controller, seconds: float) -> None:
    copier = SnapshotCopier(lone.context, Follower(EPOCH, 1, Endpoints({LISTENER: KAFKA})))
    async with listening(cluster, KAFKA, controller.serve):
        with trio.move_on_after(seconds):
            await copier.run()


@on_cluster(started=(), settings=SMALL)
async def test_a_snapshot_is_copied_once_and_lets_the_log_be_trimmed(cluster: Cluster) -> None:
    lone = await filled(cluster)
    log, snapshot_id = lone.context.log, OffsetAndEpoch(BATCHES - 5, EPOCH)
    controller = Controller(snapshot_id, await snapshot_of(cluster, log, snapshot_id))
    end = log.end_offset
    await copy_for(lone, cluster, controller, 3.5 * INTERVAL_S)
    assert log.snapshots.ids == (snapshot_id,)
    assert cluster.machines[3].disk.read_bytes(log.snapshots.path(snapshot_id)) == controller.content
    assert controller.pieces == list(range(0, len(controller.content), PIECE_BYTES))
    assert len(controller.fetches) == 3
    assert {fetch.replica_id for fetch in controller.fetches} == {-1}, "the leader must not take it for a lost log"
    assert (log.log_start_offset, log.end_offset) == (0, end)
    await log.trim(RetentionLimits(0, None), frozenset)
    assert 0 < log.log_start_offset <= snapshot_id.offset
    await log.close()


@pytest.mark.parametrize(
    "snapshot_id",
    [None, OffsetAndEpoch(BATCHES, EPOCH), OffsetAndEpoch(BATCHES - 5, EPOCH - 1)],
    ids=["there is none", "not committed here", "of another epoch"],
)
def test_no_other_snapshot_is_copied(snapshot_id: OffsetAndEpoch | None) -> None:
    @on_cluster(started=(), settings=SMALL)
    async def test(cluster: Cluster) -> None:
        lone, controller = await filled(cluster), Controller(snapshot_id)
        await copy_for(lone, cluster, controller, 2.5 * INTERVAL_S)
        assert len(controller.fetches) == 2
        assert not controller.pieces
        assert not lone.context.log.snapshots.ids
        await lone.context.log.close()

    test()


@pytest.mark.parametrize("partitions", [0, 2])
@on_cluster(started=(), settings=SMALL)
async def test_a_controller_that_answers_something_else_is_asked_again(cluster: Cluster, partitions: int) -> None:
    lone, controller = await filled(cluster), Controller(OffsetAndEpoch(BATCHES - 5, EPOCH), partitions=partitions)
    await copy_for(lone, cluster, controller, 2.5 * INTERVAL_S)
    assert len(controller.fetches) == 2
    assert not controller.pieces
    await lone.context.log.close()


@on_cluster(started=(), settings=SMALL)
async def test_a_damaged_snapshot_is_not_kept(cluster: Cluster) -> None:
    lone = await filled(cluster)
    log, snapshot_id = lone.context.log, OffsetAndEpoch(BATCHES - 5, EPOCH)
    content = bytearray(await snapshot_of(cluster, log, snapshot_id))
    content[-1] ^= 1
    before = cluster.machines[3].disk.list_directory(log.directory)
    await copy_for(lone, cluster, Controller(snapshot_id, bytes(content)), 1.5 * INTERVAL_S)
    assert not log.snapshots.ids
    assert cluster.machines[3].disk.list_directory(log.directory) == before
    await log.close()


@on_cluster(started=(), settings={"metadata.log.max.record.bytes.between.snapshots": "1000000"})
async def test_a_small_log_needs_none(cluster: Cluster) -> None:
    lone, controller = await filled(cluster), Controller(None)
    await copy_for(lone, cluster, controller, 2.5 * INTERVAL_S)
    assert not controller.fetches
    await lone.context.log.close()
