"""Messages of one HTTP request: each is read as soon as it is whole, however it arrives, and is looked at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kraft_trio.kv import KvError
from kraft_trio.kv.gateway import request_stream
from kraft_trio.kv.gateway.request_stream import MAX_STREAMED_BYTES, MOST_PIECES, messages_of
from kraft_trio.kv.requests import PutRequest
from scripts.fuzzing.streams import run

A = b'{"key":"YQ=="}'


class Parts:
    """As much of an Exchange as is needed."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts

    async def next_part(self) -> bytes:
        return next(self._parts, b"")


def read(parts: list[bytes]) -> list[tuple[int, bytes]]:
    """The keys of the messages, each with the number of parts that had come."""
    found: list[tuple[int, bytes]] = []
    came = 0

    def coming() -> Iterator[bytes]:
        nonlocal came
        for part in parts:
            came += 1
            yield part

    async def take() -> None:
        async for message in messages_of(PutRequest, Parts(coming())):  # type: ignore[arg-type]
            found.append((came, message.key))

    run(take())
    return found


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_a_message_is_read_with_its_last_byte(size: int) -> None:
    data = A + b" \n" + A + A + b" "
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    ends = [len(A), 2 * len(A) + 2, 3 * len(A) + 2]
    assert read(parts) == [(-(-end // size), b"a") for end in ends]


def test_a_message_in_tiny_pieces_takes_no_more_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever has come of it is kept in few pieces."""
    most = 0

    def joined(pieces: list[str]) -> str:
        nonlocal most
        most = max(most, len(pieces))
        return "".join(pieces)

    monkeypatch.setattr(request_stream, "_joined", joined)
    long = b'{"key":"' + b"YWFh" * 5000 + b'"}'
    assert read([long[at : at + 1] for at in range(len(long))]) == [(len(long), b"aaa" * 5000)]
    assert most == MOST_PIECES


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([b"[", b"1]"], "an object expected|no JSON"),
        ([b'"', b"a" * 100], "no JSON"),
        ([b" ", b"7"], "7 given, an object expected"),
        ([A, b"x"], "no JSON"),
        ([b'{"key" 1}', A], "no JSON"),
        ([b'{"key":'], "no JSON"),
    ],
)
def test_what_can_be_no_message_is_refused_at_once(parts: list[bytes], reason: str) -> None:
    with pytest.raises(KvError, match=reason):
        read([*parts, *[b"never read"] * (parts != [b'{"key":'])])


def test_message_of_a_stream_has_a_limit() -> None:
    begin, part, end = b'{"key":"', b"YWFh" * 1024, b'"}'
    fitting = (MAX_STREAMED_BYTES - len(begin) - len(end)) // len(part)
    assert [len(key) for _, key in read([begin, *[part] * fitting, end, A])] == [fitting * 3 * 1024, 1]
    with pytest.raises(KvError, match="request is too large"):
        read([begin, *[part] * (fitting + 1), end])


def test_a_message_that_comes_byte_by_byte_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def counting(cls: type[Any], text: str) -> tuple[Any, str]:
        parsed.append(text)
        return original(cls, text)

    original = request_stream.parse_first
    monkeypatch.setattr(request_stream, "parse_first", counting)
    long = b'{"key":"' + b"YWFh" * 500 + b'"}'
    assert read([bytes([byte]) for byte in long]) == [(len(long), b"aaa" * 500)]
    assert parsed == [long.decode()]
