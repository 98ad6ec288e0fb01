"""A leader of a later epoch at the attacker's own address, who offers a snapshot of rubbish."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator

from harness.quorum import TOPIC
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, Endpoints, OffsetAndEpoch
from kraft_trio.wire.api import API_VERSIONS, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH, advertised_ranges
from kraft_trio.wire.apis.api_versions import ApiVersionsResponse
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest
from kraft_trio.wire.apis.fetch import FetchPartitionResponse, FetchResponse
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kraft_trio.wire.codec import decode_request, encode_response
from scripts.attacks.arena import Arena, frame_of
from scripts.attacks.epochs import TOPIC_ID

SIZE = 2**62
PIECE_BYTES = 1024 * 1024
LASTS_S = 5.0
"""How long the offer lasts, which is two fetch timeouts."""


def play(arena: Arena) -> None:
    """Tell every node, in the name of the leader and of each follower, in this epoch and in later ones."""
    served: list[int] = []
    with _listening(served) as endpoint:
        there = Endpoints({"CONTROLLER": endpoint})
        ends_at = time.monotonic() + (LASTS_S if arena.is_short else 4 * LASTS_S)
        while time.monotonic() < ends_at:
            for node in arena.nodes:
                for frame in _frames(arena, node.id, there):
                    arena.send(frame, "CONTROLLER", node)
    assert not served, f"a node has asked the stranger {len(served)} times"


def _frames(arena: Arena, asked: int, there: Endpoints) -> Iterator[bytes]:
    cluster_id = arena.quorum.cluster_id
    for leader_id in (node.id for node in arena.nodes if node.id != asked):
        for ahead in (0, 1, 2, 100):
            if ahead == 0 and leader_id != arena.leader.id:
                continue
            epoch = arena.epoch + ahead
            begin = BeginQuorumEpochRequest(cluster_id, -1, TOPIC, 0, NO_DIRECTORY_ID, leader_id, epoch, there)
            yield frame_of(BEGIN_QUORUM_EPOCH, begin)
            if ahead:
                end = EndQuorumEpochRequest(cluster_id, TOPIC, 0, leader_id, epoch, leader_endpoints=there)
                yield frame_of(END_QUORUM_EPOCH, end)


@contextlib.contextmanager
def _listening(served: list[int]) -> Iterator[Endpoint]:
    """A server that leads every epoch in which it is asked.  It notes the API of each request."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=_serve, args=(connection, served), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield Endpoint("127.0.0.1", listener.getsockname()[1])


def _serve(connection: socket.socket, served: list[int]) -> None:
    with contextlib.suppress(OSError, ValueError), connection, connection.makefile("rb") as stream:
        while length := stream.read(4):
            header, request = decode_request(stream.read(*struct.unpack(">i", length)))
            served.append(header.api.key)
            answer = _answer(header.api.key, request)
            connection.sendall(encode_response(header.api, header.version, header.correlation_id, answer))


def _answer(api_key: int, request: object) -> object:
    if api_key == API_VERSIONS.key:
        return ApiVersionsResponse(apis=advertised_ranges())
    if api_key == FETCH.key:
        [asked] = request.partitions  # type: ignore[attr-defined]
        epoch = asked.current_leader_epoch
        offered = FetchPartitionResponse(
            TOPIC, TOPIC_ID, 0, leader_id=1, leader_epoch=epoch, snapshot_id=OffsetAndEpoch(2**40, epoch)
        )
        return FetchResponse(partitions=(offered,))
    if not isinstance(request, FetchSnapshotRequest):
        raise ValueError("another request")
    return FetchSnapshotResponse(
        topic=TOPIC,
        leader_id=1,
        leader_epoch=request.current_leader_epoch,
        snapshot_id=request.snapshot_id,
        size=SIZE,
        position=request.position,
        unaligned_records=b"\x55" * min(request.max_bytes, PIECE_BYTES),
    )
