"""JSON as etcd's gateway reads it: decoded to texts, numbers as they are written, and objects with all their fields.

What a text or a number means, depends on the field.  The rules are those of protobuf's JSON mapping in Go (protojson).
"""

from __future__ import annotations

import binascii
import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Never

WHITESPACE: Final = " \t\r\n"
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_SHORT: Final = re.compile(r"0|[1-9][0-9]{0,14}")
"""Numbers that fit without a further look."""
_HALF_OF_A_PAIR: Final = re.compile(r"\\u[dD][89a-fA-F]")
_URL_SAFE: Final = str.maketrans("-_", "+/")


class JsonNumber(str):
    """A number as it is written."""

    __slots__ = ()


class JsonObject(list[tuple[str, Any]]):
    """The fields of an object, in order.  A name may occur twice."""

    __slots__ = ()


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is no JSON")


_decoder = json.JSONDecoder(
    object_pairs_hook=JsonObject, parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=_no_constant
)
_encoder = json.JSONEncoder(ensure_ascii=False)


def decode_first(text: str) -> tuple[Any, int]:
    """The first value of a text that begins with it, and where it ends.  Raises ValueError and RecursionError."""
    value, end = _decoder.raw_decode(text)
    if _HALF_OF_A_PAIR.search(text, 0, end):
        try:
            _encoder.encode(value).encode()
        except UnicodeEncodeError:
            raise ValueError("half of a surrogate pair in a text") from None
    return value, end


def integer(written: str, low: int, high: int) -> int | None:
    """The number from `low` (inclusive) to `high` (exclusive) that is written; None if there is none.

    1e2 and 3.0 are whole numbers, too.
    """
    if _SHORT.fullmatch(written) is not None:
        return int(written)
    if _NUMBER.fullmatch(written) is None:
        return None
    try:
        number = Decimal(written)
    except InvalidOperation:
        return None
    if not low <= number < high or number != number.to_integral_value():
        return None
    return int(number)


def decode_base64(text: str) -> bytes | None:
    """The bytes; None if it is not base64.

    Both alphabets are accepted, and line breaks.  A text whose length is no multiple of four has no padding.
    """
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        pass
    if "-" in text or "_" in text:
        if "+" in text or "/" in text:
            return None
        text = text.translate(_URL_SAFE)
    is_padded = not len(text) % 4
    text = text.replace("\n", "").replace("\r", "")
    if not is_padded:
        if "=" in text:
            return None
        text += "=" * (-len(text) % 4)
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return None
