"""Changes sound inputs at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

MAX_BYTES: Final = 64 * 1024
_NUMBERS: Final = (
    b"\x00\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 9 + b"\x01",
    b"\x00\x10\x00\x00",
    b"\x7f" + b"\xff" * 7,
    b"\x80\x01",
)
"""Lengths and counts at the limits of their types, varints among them."""
_TEXTS: Final = (
    b"\r\n", b"\n", b"\0", b"\x1b[2J", b"\xc3\x28", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"=", b"\\", b'"', b"%00",
    b"-1", b"99999999999999999999", b"1e999", b"NaN", b"null", b"[" * 2000, b'{"a":' * 1200, b"\\u0000", b"\\ud800",
    b"\x81" * 600, b"\x91" * 1200, b"\xc1", b"\xc7\x01\xff", b",", b";", b":", b"/", b"#", b"$9", b"()", b"(?",
    b"Infinity",
)  # fmt: skip
"""What texts of the formats here must not be surprised by; the deepest nests in JSON and msgpack."""


def mutated(random: Random, seeds: Sequence[bytes]) -> bytearray:
    """One of the seeds, or parts of two, with up to five changes."""
    data = bytearray(random.choice(seeds))
    if random.random() < 0.15:
        other = random.choice(seeds)
        data = data[: random.randint(0, len(data))] + other[random.randint(0, len(other)) :]
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5))):
        _change(random, data)
    del data[MAX_BYTES:]
    return data


def _change(random: Random, data: bytearray) -> None:
    at = random.randint(0, len(data))
    match random.randrange(9):
        case 0:
            del data[at:]
        case 1:
            del data[at : at + random.randint(1, 16)]
        case 2:
            data[at:at] = random.randbytes(random.randint(1, 16))
        case 3:
            data[at:at] = random.choice(_TEXTS)
        case 4:
            number = random.choice(_NUMBERS)
            data[at : at + len(number)] = number
        case 5:
            end = at + random.randint(1, 32)
            data[at:at] = data[at:end] * random.choice((1, 1, 2, 50))
        case 6 if at < len(data):
            data[at] ^= 1 << random.randrange(8)
        case 7 if at < len(data):
            data[at] = (data[at] + random.choice((-1, 1, 2, 16))) % 256
        case _:
            data[at : at + 1] = random.randbytes(1)


def smallest(data: bytes, fails: Callable[[bytes], bool], tries: int = 2000) -> bytes:
    """Leave out parts of an input for as long as it still fails."""
    size = max(1, len(data) // 2)
    while tries > 0:
        for at in range(0, len(data), size):
            tries -= 1
            shorter = data[:at] + data[at + size :]
            if fails(shorter):
                data = shorter
                break
            if tries <= 0:
                break
        else:
            if size == 1:
                break
            size //= 2
    return data
