"""A decoder as the fuzzer sees it, and one run of it with its bounds."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Final

import attrs

LINES_AT_LEAST: Final = 50_000
MEMORY_AT_LEAST: Final = 3 * 1024 * 1024
MSGPACK_AT_LEAST: Final = MEMORY_AT_LEAST + 1024 * 80 * 1024
"""msgpack makes room for up to 10,240 elements of a list before it reads them, and nests up to 1,024 lists."""
_MEMORY_EVERY: Final = 16
_STEPS_EVERY: Final = 64


@attrs.frozen
class Decoder:
    """Reads foreign bytes; whatever they are, it accepts or refuses them."""

    name: str
    seeds: Callable[[], Sequence[bytes]]
    """Makes sound inputs, which are then changed."""
    decode: Callable[[bytes], object]
    """Decodes the whole input."""
    refusals: tuple[type[Exception], ...]
    """The errors with which it is documented to refuse bytes."""
    memory_per_byte: int = 400
    """Bytes of Python objects that a byte of input may need at the peak."""
    memory_at_least: int = MEMORY_AT_LEAST
    """Bytes of Python objects that any input may need."""
    lines_per_byte: int = 400
    """Lines of Python that a byte of input may need."""
    repair: Callable[[bytearray], object] | None = None
    """Makes the checksums of a changed input right, so that the bytes behind them are looked at."""


class Excess(AssertionError):
    """The decoder needs more steps or memory than the size of its input allows."""


def accepts(decoder: Decoder, data: bytes) -> bool:
    """Decode once.  Returns False for a documented refusal, and raises whatever else the decoder raises."""
    try:
        decoder.decode(data)
    except decoder.refusals:
        return False
    return True


def try_out(decoder: Decoder, number: int, data: bytes) -> bool:
    """Decode the input of this number, now and then with one of the checks below.

    Returns whether it was accepted; False after a check, which tells nothing of that.
    """
    if number % _STEPS_EVERY == 1:
        check_steps(decoder, data)
    elif number % _MEMORY_EVERY == 2:
        check_memory(decoder, data)
    else:
        return accepts(decoder, data)
    return False


def check_memory(decoder: Decoder, data: bytes) -> None:
    """Decode, and raise Excess if the peak of the Python objects is out of proportion to the input."""
    bound = decoder.memory_at_least + decoder.memory_per_byte * len(data)
    tracemalloc.start()
    try:
        accepts(decoder, data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if peak > bound:
        raise Excess(f"{peak} bytes of memory for an input of {len(data)} bytes; at most {bound} expected")


def check_steps(decoder: Decoder, data: bytes) -> None:
    """Decode, and raise Excess if more lines of Python run than the input's size allows.

    A step inside a library written in C does not count: the processor time of the process bounds those.
    """
    bound = LINES_AT_LEAST + decoder.lines_per_byte * len(data)
    lines = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        if lines > bound:
            raise Excess(f"more than {bound} lines of Python for an input of {len(data)} bytes")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        accepts(decoder, data)
    finally:
        sys.settrace(before)
