"""Frames out of a byte stream, however the stream cuts them up."""

from __future__ import annotations

import struct

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_trio.errors import NetworkError, ProtocolError
from kraft_trio.wire.framing import FrameReader, FrameTooLargeError
from tests.support import sizes


class Pieces(trio.abc.ReceiveStream):
    """A stream that gives the pieces one by one, then ends; it remembers how much was asked for at most."""

    def __init__(self, pieces):
        self._pieces = list(pieces)
        self.received = 0

    async def receive_some(self, max_bytes=None):
        await trio.lowlevel.checkpoint()
        if not self._pieces:
            return b""
        piece = self._pieces.pop(0)
        if max_bytes is not None and len(piece) > max_bytes:
            self._pieces.insert(0, piece[max_bytes:])
            piece = piece[:max_bytes]
        self.received += len(piece)
        return piece

    async def aclose(self):
        await trio.lowlevel.checkpoint()


def framed(payload):
    return struct.pack(">i", len(payload)) + payload


async def read_all(reader):
    frames = []
    while (frame := await reader.read()) is not None:
        frames.append(frame)
    return frames


@settings(max_examples=sizes.examples(200))
@given(
    payloads=st.lists(st.binary(max_size=60), max_size=6), cuts=st.lists(st.integers(1, 30), min_size=1, max_size=40)
)
def test_frames_are_the_same_however_the_stream_is_cut(payloads, cuts):
    stream = b"".join(map(framed, payloads))
    pieces = []
    while stream:
        size = cuts[len(pieces) % len(cuts)]
        pieces.append(stream[:size])
        stream = stream[size:]
    assert trio.run(read_all, FrameReader(Pieces(pieces), 60)) == payloads


async def test_a_frame_larger_than_one_receive_is_put_together():
    payload = bytes(range(256)) * 10_000
    assert await FrameReader(Pieces([framed(payload)]), len(payload)).read() == payload


@pytest.mark.parametrize("in_one_piece", [True, False])
async def test_a_frame_above_the_limit_is_refused_before_it_is_read(in_one_piece):
    payload = b"x" * 500_000
    frame = framed(payload)
    stream = Pieces([frame] if in_one_piece else [frame[:2], frame[2:]])
    with pytest.raises(FrameTooLargeError, match="frame length 500000: at most 1000 is allowed"):
        await FrameReader(stream, 1000).read()
    assert stream.received <= 64 * 1024 + 2


async def test_the_limit_is_inclusive_and_may_be_raised_between_frames():
    reader = FrameReader(Pieces([framed(b"12345") + framed(b"123456") + framed(b"1234567")]), 5)
    assert await reader.read() == b"12345"
    reader.limit = 6
    assert await reader.read() == b"123456"
    with pytest.raises(FrameTooLargeError):
        await reader.read()


@pytest.mark.parametrize("length", [-1, -(2**31)])
async def test_a_negative_length_is_refused(length):
    with pytest.raises(ProtocolError, match=f"frame length {length}: 0 to 100 was expected"):
        await FrameReader(Pieces([struct.pack(">i", length) + b"rest"]), 100).read()


@pytest.mark.parametrize(("sent", "reason"), [(b"\0\0", "2 of 4 bytes"), (framed(b"abcdef")[:-2], "8 of 10 bytes")])
async def test_a_stream_that_ends_within_a_frame_is_an_error(sent, reason):
    with pytest.raises(ProtocolError, match=reason):
        await FrameReader(Pieces([sent]), 100).read()


async def test_a_stream_that_ends_between_frames_is_at_its_end():
    reader = FrameReader(Pieces([framed(b"a")]), 100)
    assert await reader.read() == b"a"
    assert await reader.read() is None


async def test_a_cancelled_read_loses_nothing(autojump_clock):
    ours, theirs = trio.testing.memory_stream_pair()
    reader = FrameReader(ours, 100)
    await theirs.send_all(framed(b"abcdef")[:7])
    with trio.move_on_after(1) as scope:
        await reader.read()
    assert scope.cancelled_caught
    await theirs.send_all(framed(b"abcdef")[7:])
    assert await reader.read() == b"abcdef"


async def test_a_broken_connection_is_a_network_error():
    class Broken(Pieces):
        async def receive_some(self, max_bytes=None):
            await trio.lowlevel.checkpoint()
            raise trio.BrokenResourceError("reset by peer")

    with pytest.raises(NetworkError, match="reset by peer"):
        await FrameReader(Broken([]), 100).read()


class InPlace(Pieces):
    """A stream that can also receive into a buffer, as a socket can."""

    def __init__(self, pieces):
        super().__init__(pieces)
        self.in_place = 0

    async def receive_into(self, buffer):
        piece = await self.receive_some(len(buffer))
        buffer[: len(piece)] = piece
        self.in_place += len(piece)
        return len(piece)


LARGE = bytes(range(256)) * 2000


@pytest.mark.parametrize("cut", [1000, 65_536, 200_000, 10**6])
async def test_large_frames_are_received_in_place(cut):
    payloads = [LARGE, b"small", LARGE[1:], LARGE[2:]]
    sent = b"".join(map(framed, payloads))
    stream = InPlace([sent[start : start + cut] for start in range(0, len(sent), cut)])
    assert await read_all(FrameReader(stream, 2**20)) == payloads
    assert stream.in_place > len(LARGE)


async def test_a_cancelled_read_in_place_loses_nothing():
    sent = framed(LARGE) + framed(b"next")
    stream = InPlace([sent[start : start + 70_000] for start in range(0, len(sent), 70_000)])
    reader = FrameReader(stream, 2**20)
    frames = []
    for _ in range(100):
        with trio.CancelScope() as scope:
            received = stream.received
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cancel_once_received, stream, received, scope)
                frames.append(await reader.read())
                nursery.cancel_scope.cancel()
        if len(frames) == 2:
            break
    assert frames == [LARGE, b"next"]


async def cancel_once_received(stream, received, scope):
    while stream.received == received:
        await trio.lowlevel.checkpoint()
    scope.cancel()


async def test_large_frames_of_one_size_are_lent_the_same_memory():
    payloads = [LARGE, b"small", LARGE[::-1], LARGE[1:]]
    sent = b"".join(map(framed, payloads))
    reader = FrameReader(InPlace([sent[start : start + 65_536] for start in range(0, len(sent), 65_536)]), 2**20)
    first = await reader.read_lent()
    assert first == LARGE
    assert await reader.read_lent() == b"small"
    assert await reader.read_lent() is first
    assert first == LARGE[::-1]
    other = await reader.read_lent()
    assert other == LARGE[1:]
    assert other is not first
    assert await reader.read_lent() is None


async def test_what_is_not_lent_is_the_callers():
    sent = framed(LARGE) + framed(LARGE[::-1])
    reader = FrameReader(InPlace([sent[start : start + 65_536] for start in range(0, len(sent), 65_536)]), 2**20)
    first = await reader.read()
    assert type(first) is bytes
    assert await reader.read_lent() == LARGE[::-1]
    assert first == LARGE


async def test_a_stream_that_ends_within_a_large_frame():
    stream = InPlace([framed(LARGE)[:300_000]])
    with pytest.raises(ProtocolError, match=f"ended within a frame: 300000 of {len(LARGE) + 4} bytes came"):
        await FrameReader(stream, 2**20).read()


async def test_memory_grows_with_received_bytes_only():
    stream = InPlace([struct.pack(">i", 2**30) + b"x" * 1000])
    with pytest.raises(ProtocolError, match="ended within a frame"):
        await FrameReader(stream, 2**30).read()
    assert stream.in_place == 0
