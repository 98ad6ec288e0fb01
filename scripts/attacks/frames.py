"""Anything but requests: other protocols, false lengths, thousands of tagged fields."""

from __future__ import annotations

import struct
from contextlib import ExitStack

from kraft_trio.wire.api import API_VERSIONS, DESCRIBE_QUORUM
from scripts.attacks.arena import LISTENERS, Arena, framed, refusable
from scripts.attacks.requests import header_of, versions_frame

TRICKLES = 50


def play(arena: Arena) -> None:
    """On every listener of every node; meanwhile some connections send a byte at a time."""
    with ExitStack() as open_connections:
        slow = [open_connections.enter_context(arena.connect(LISTENERS[n % 2])) for n in range(TRICKLES)]
        for byte in versions_frame()[:-1]:
            for connection in slow:
                with refusable():
                    connection.send_bytes(bytes([byte]))
        for _ in range(arena.count(20, 2)):
            for data in garbage(arena):
                for listener in LISTENERS:
                    for node in arena.nodes:
                        with refusable(), arena.connect(listener, node, seconds=2) as connection:
                            connection.send_bytes(data)
                            connection.end_sending()
                            connection.drain()


def garbage(arena: Arena) -> list[bytes]:
    start = header_of(DESCRIBE_QUORUM, 2)
    return [
        b"GET / HTTP/1.1\r\nHost: quorum\r\n\r\n",
        bytes.fromhex("16030100f8010000f40303") + arena.random.randbytes(240),
        b"*1\r\n$4\r\nPING\r\n",
        b"\x00" * 4096,
        b"\xff" * 4096,
        arena.random.randbytes(4096),
        struct.pack(">i", 2**31 - 1) + b"a" * 100,
        struct.pack(">i", -1),
        struct.pack(">I", 2**31),
        versions_frame() + struct.pack(">i", 100 * 1024**2) + b"a" * 1000,
        framed(start + b"\xff\xff\xff\xff\x0f"),
        framed(start[:8] + struct.pack(">h", -2) + start[10:]),
        framed(start[:8] + struct.pack(">h", 2**15 - 1) + start[10:]),
        framed(header_of(DESCRIBE_QUORUM, 2, tagged_fields(5_000))),
        framed(header_of(API_VERSIONS, 4) + b"\x02a\x02b" + tagged_fields(5_000)),
        framed(header_of(API_VERSIONS, 4) + b"\x02a\x02b" + b"\xff\xff\xff\xff\x0f"),
    ]


def tagged_fields(count: int) -> bytes:
    """Unknown ones, empty, with ascending tags."""
    return varint(count) + b"".join(varint(10_000 + tag) + b"\0" for tag in range(count))


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
