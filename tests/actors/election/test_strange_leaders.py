"""A stranger announces himself as the leader of a later epoch, at an address of his own, and offers rubbish."""

from __future__ import annotations

import attrs
import pytest
import trio

from kraft_trio.channels import Reply
from kraft_trio.messages import BeginQuorumEpochReceived, EndQuorumEpochReceived
from kraft_trio.node import Node
from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import LISTENER
from kraft_trio.storage.disk.part_file import PART_SUFFIX
from kraft_trio.wire.api import API_VERSIONS, FETCH, FETCH_SNAPSHOT, advertised_ranges
from kraft_trio.wire.apis.api_versions import ApiVersionsResponse
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest
from kraft_trio.wire.apis.fetch import FetchPartitionResponse, FetchRequest, FetchResponse
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kraft_trio.wire.codec import decode_request, encode_response
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.framing import FrameReader
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import TOPIC, TOPIC_ID
from tests.support.voter_change_requests import listening

PLACE = Endpoint("stranger", 9093)
THERE = Endpoints({LISTENER: PLACE})
PIECE = 1024 * 1024


@attrs.define
class Stranger:
    """Leads an epoch, as he says, and offers a snapshot of that size."""

    leader_id: int
    epoch: int
    size: int = 2**62
    requests: int = 0
    pieces: int = 0

    async def serve(self, stream: trio.abc.Stream) -> None:
        reader = FrameReader(stream, 2**20)
        while (frame := await reader.read()) is not None:
            header, request = decode_request(frame)
            self.requests += 1
            if header.api.key not in (API_VERSIONS.key, FETCH.key, FETCH_SNAPSHOT.key):
                return
            answer = self._answer(header.api.key, request)
            await stream.send_all(encode_response(header.api, header.version, header.correlation_id, answer))

    def _answer(self, api_key: int, request: object) -> object:
        if api_key == API_VERSIONS.key:
            return ApiVersionsResponse(apis=advertised_ranges())
        if api_key == FETCH.key:
            assert isinstance(request, FetchRequest)
            offered = FetchPartitionResponse(
                TOPIC,
                TOPIC_ID,
                0,
                leader_id=self.leader_id,
                leader_epoch=self.epoch,
                snapshot_id=OffsetAndEpoch(2**40, self.epoch),
            )
            return FetchResponse(partitions=(offered,))
        assert isinstance(request, FetchSnapshotRequest)
        self.pieces += request.max_bytes > 1
        return FetchSnapshotResponse(
            topic=TOPIC,
            leader_id=self.leader_id,
            leader_epoch=self.epoch,
            snapshot_id=request.snapshot_id,
            size=self.size,
            position=request.position,
            unaligned_records=b"\x55" * min(request.max_bytes, PIECE),
        )


async def begins(cluster: Cluster, node: Node, leader_id: int, epoch: int, endpoints: Endpoints = THERE) -> ErrorCode:
    reply: Reply[object] = Reply()
    request = BeginQuorumEpochRequest(
        cluster.cluster_id, -1, TOPIC, 0, node.key.directory_id, leader_id, epoch, endpoints
    )
    await node.election.tell(BeginQuorumEpochReceived(request, reply))  # type: ignore[arg-type]
    error: ErrorCode = (await reply.receive()).partition_error  # type: ignore[attr-defined]
    return error


async def ends(cluster: Cluster, node: Node, leader_id: int, epoch: int) -> ErrorCode:
    reply: Reply[object] = Reply()
    request = EndQuorumEpochRequest(cluster.cluster_id, TOPIC, 0, leader_id, epoch, leader_endpoints=THERE)
    await node.election.tell(EndQuorumEpochReceived(request, reply))  # type: ignore[arg-type]
    error: ErrorCode = (await reply.receive()).partition_error  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(("tell", "ahead"), [(begins, 0), (begins, 1), (begins, 2), (ends, 1), (ends, 2)])
@on_cluster(voters=3, observers=1)
async def test_who_hears_a_leader_follows_no_stranger(cluster: Cluster, tell: object, ahead: int) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    await trio.sleep(5)
    stranger = Stranger(leader.key.id, leader.view.epoch + ahead)
    async with listening(cluster, PLACE, stranger.serve):
        for node in cluster.nodes.values():
            for leader_id in (1, 2, 3, 99):
                if leader_id not in (leader.key.id, node.key.id) and ahead == 0:
                    continue  # Two leaders in one epoch: INVALID_REQUEST, as before.
                if leader_id == node.key.id:
                    continue
                error = await tell(cluster, node, leader_id, stranger.epoch)  # type: ignore[operator]
                assert error == ErrorCode.unknown_leader_epoch
        await trio.sleep(10)
        assert stranger.requests == 0
    assert {node.view.epoch for node in cluster.nodes.values()} == {1}
    assert cluster.leader() is leader
    assert leader.tree.metrics.values()["number-of-refused-addresses"] == (0 if ahead == 0 else 3)
    [follower, *_] = cluster.others(leader)
    assert follower.tree.metrics.values()["number-of-refused-addresses"] == (1 if ahead == 0 else 3)


# The invariants know of no leader outside the cluster.
@on_cluster(voters=3, invariants=())
async def test_known_address_is_no_stranger(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await trio.sleep(5)
    follower, other = cluster.others(leader)
    known = Endpoints({LISTENER: cluster.endpoint_of(other.key.id)})
    assert await begins(cluster, follower, other.key.id, 2, known) == ErrorCode.none
    assert follower.view.epoch == 2


@pytest.mark.parametrize(("size", "reason"), [(2**62, "no room"), (2**30, "position 0")])
@on_cluster(voters=3, invariants=())
async def test_who_hears_no_leader_follows_to_a_new_address(cluster: Cluster, size: int, reason: str) -> None:
    """A leader may have moved, and nobody else can know that.  If it is a stranger, his rubbish ends with its first
    piece, or before it if he claims more than the disk can hold."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    follower, other = cluster.others(leader)
    end = follower.log.end
    for node in (leader, other):
        cluster.machines[node.key.id].kill()
    await trio.sleep(5)
    stranger = Stranger(leader.key.id, follower.view.epoch + 1, size)
    cluster.machines[follower.key.id].disk.capacity = 2**40
    async with listening(cluster, PLACE, stranger.serve):
        assert await begins(cluster, follower, leader.key.id, stranger.epoch) == ErrorCode.none
        await cluster.wait_until(lambda: stranger.pieces > 0)
        await cluster.wait_until(lambda: follower.tree.fetch_problem.reason is not None)
        machine = cluster.machines[follower.key.id]
        names = machine.disk.peek_names(machine.partition_path)
        assert [name for name in names if name.endswith(PART_SUFFIX)] == []
        assert reason in str(follower.tree.fetch_problem.reason)
        assert stranger.pieces <= 2
    assert follower.log.end == end
