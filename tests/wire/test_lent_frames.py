"""Large responses are sent in parts and received in memory that is lent: the bytes are those of any other frame."""

from __future__ import annotations

import socket
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.wire.api import FETCH_SNAPSHOT, advertised_ranges
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kraft_trio.wire.codec import decode_request, decode_response, encode_response, encode_response_parts
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.framing import FrameReader
from kraft_trio.wire.tcp_stream import TcpStream
from tests.wire.test_connection import Peer
from tests.wire.values import ALL_VERSIONS, VALUES

RESPONSES = [(api, version) for api, version, kind in ALL_VERSIONS if kind == "response"]
PIECE = bytes(range(256)) * 1000
REQUEST = FetchSnapshotRequest("cluster", 4, 2**20, "topic", 0, 1, OffsetAndEpoch(10, 1), 0)


@pytest.mark.parametrize(("api", "version"), RESPONSES, ids=[f"{api.name}-v{version}" for api, version in RESPONSES])
@settings(max_examples=5)
@given(data=st.data())
def test_the_parts_are_the_frame_and_a_lent_frame_says_the_same(
    api: Api[Any, Any], version: int, data: st.DataObject
) -> None:
    value = data.draw(VALUES[api.name, "response"])
    frame = encode_response(api, version, 5, value)
    assert b"".join(encode_response_parts(api, version, 5, value)) == frame
    assert decode_response(api, version, bytearray(frame[4:])) == decode_response(api, version, frame[4:])


def test_large_byte_strings_are_not_copied() -> None:
    response = FetchSnapshotResponse(topic="topic", size=10**6, unaligned_records=PIECE)
    parts = encode_response_parts(FETCH_SNAPSHOT, 1, 7, response)
    assert [part is PIECE for part in parts] == [False, True, False]
    frame = bytearray(b"".join(parts)[4:])
    _, decoded = decode_response(FETCH_SNAPSHOT, 1, frame)
    assert decoded == response
    frame[:] = bytes(len(frame))
    assert decoded.unaligned_records == bytes(len(PIECE)), "it is the frame's memory"


def test_malformed_text_in_a_lent_frame_is_named() -> None:
    frame = bytearray(encode_response(FETCH_SNAPSHOT, 1, 7, FetchSnapshotResponse(topic="topic"))[4:])
    at = frame.index(b"topic")
    frame[at] = 0xFF
    with pytest.raises(ProtocolError, match=r"name: b'\\xffopic' is not UTF-8"):
        decode_response(FETCH_SNAPSHOT, 1, frame)


async def test_a_lent_response_is_valid_until_the_next_request() -> None:
    pieces = [PIECE, PIECE[::-1], PIECE]

    def respond(header: Any, request: FetchSnapshotRequest) -> bytes:
        piece = pieces[request.position]
        return encode_response(
            FETCH_SNAPSHOT,
            header.version,
            header.correlation_id,
            FetchSnapshotResponse(topic="topic", size=10**6, unaligned_records=piece),
        )

    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    async with TcpStream(far) as theirs, trio.open_nursery() as nursery:
        nursery.start_soon(Peer(respond=respond).serve, theirs)
        connection = await Connection.negotiated(TcpStream(near), "c", 2**20)
        for position in range(3):
            await connection.begin(FETCH_SNAPSHOT, attrs.evolve(REQUEST, position=position))
        first = (await connection.finish_lent(FETCH_SNAPSHOT)).unaligned_records
        assert first == PIECE
        second = (await connection.finish_lent(FETCH_SNAPSHOT)).unaligned_records
        assert second == PIECE[::-1]
        assert first == second, "the memory of the first is that of the second"
        third = (await connection.finish(FETCH_SNAPSHOT)).unaligned_records
        assert type(third) is bytes
        assert third == PIECE
        await connection.aclose()


async def test_cancelling_a_lent_response_closes_the_connection(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    connection = Connection(ours, "c", 2**20, advertised_ranges())
    await connection.begin(FETCH_SNAPSHOT, REQUEST)
    with trio.move_on_after(1) as scope:
        await connection.finish_lent(FETCH_SNAPSHOT)
    assert scope.cancelled_caught
    assert not connection.usable
    reader = FrameReader(theirs, 1000)
    frame = await reader.read()
    assert frame is not None
    assert decode_request(frame)[1] == REQUEST
    assert await reader.read() is None, "the stream was closed"
