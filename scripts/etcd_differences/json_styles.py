"""Writes messages as JSON in one of the many ways that clients might, and sometimes as they must not."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

WRONG_NUMBERS = (
    *('"1_0"', '"+5"', '" 5"', '"5 "', '""', '"x"', '"0x5"', '"05"', '"NaN"', "NaN", "Infinity", "1.5", "1e400", "05"),
    *("+5", "true", "[]", "{}", "9223372036854775808", "-9223372036854775809", "1e-1", "1e99999999999", ".5", "5."),
)
WRONG_BYTES = (
    *(
        "5",
        "true",
        "[]",
        '"Y"',
        '"YQ="',
        '"YWI=="',
        '"Y=Q="',
        '"="',
        '"YW I="',
        '"YW.I"',
        '"+-8="',
        '"\\ud800"',
        '"Y\u00e4=="',
    ),
    *('"YWJj\\nYQ=="', '"YWJj\\r\\nYQ="'),
)
WRONG_TRUTHS = ('"true"', "1", "0", "[]", '""')
WRONG_NAMES = ("true", "[]", '""', "1.5", "{}", "3000000000")
UNKNOWN = (
    *('"unknown":1', '"x":{"y":[1,{"z":null}]}', '"UNKNOWN":"a"', '"n":1e999', '"pair":"\\ud83d\\ude00"'),
    *('"u":[[[[]]]]', '"":0'),
)
WRONG_UNKNOWN = (
    '"u":NaN',
    '"u":-Infinity',
    '"u":01',
    '"u":"\\ud800"',
    '"u":[1,]',
    "'u':1",
    '"u":+1',
    '"u"',
    '"u":"\t"',
)


class Enum(str):
    """The name of an enum, which has the numbers of `order`."""

    order: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, order: tuple[str, ...]) -> Enum:
        made = cls(name)
        made.order = order
        return made


class JsonStyle:
    """Writes one message."""

    def __init__(self, chance: random.Random, *, is_damaged: bool) -> None:
        self._chance = chance
        self._damage_at = chance.randrange(6) if is_damaged else -1
        """The number of the value that is written wrongly."""
        self._written = 0

    def text(self, message: dict[str, Any]) -> str:
        text = self._object(message)
        if self._written <= self._damage_at:
            text = self._broken(text)
        space = self._chance.choice(("", "", " ", "\n\t"))
        return space + text + self._chance.choice(("", "", "", " ", "\r\n"))

    def _object(self, message: dict[str, Any]) -> str:
        fields = [f'"{self._name(name)}":{self._value(value)}' for name, value in message.items()]
        if self._chance.random() < 0.05:
            self._chance.shuffle(fields)
        if self._chance.random() < 0.03:
            fields.insert(self._chance.randint(0, len(fields)), self._chance.choice(UNKNOWN))
        if self._chance.random() < 0.02:
            fields.append(f'"{self._name("key")}":null' if "key" not in message else '"z":null')
        return "{" + self._chance.choice((",", ",", ", ", " ,\n")).join(fields) + "}"

    def _name(self, name: str) -> str:
        if self._chance.random() < 0.2:
            first, *others = name.split("_")
            return first + "".join(map(str.capitalize, others))
        return name

    def _value(self, value: Any) -> str:
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            return "[" + ",".join(map(self._value, value)) + "]"
        self._written += 1
        if self._written - 1 == self._damage_at:
            return self._wrong(value)
        return self._right(value)

    def _wrong(self, value: Any) -> str:
        if isinstance(value, bool):
            return self._chance.choice(WRONG_TRUTHS)
        if isinstance(value, int):
            return self._chance.choice(WRONG_NUMBERS)
        return self._chance.choice(WRONG_NAMES if isinstance(value, Enum) else WRONG_BYTES)

    def _right(self, value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return self._number(value)
        if isinstance(value, Enum):
            is_number = value in value.order and self._chance.random() < 0.2
            return str(value.order.index(value)) if is_number else f'"{value}"'
        return self._bytes(value.encode() if isinstance(value, str) else value)

    def _number(self, value: int) -> str:
        styles = [str(value), f'"{value}"', f'"{value}"', f"{value}.0", f'"{value}.00"', f"{value}e0", f'"{value}.0e0"']
        return self._chance.choice(styles[:3] if self._chance.random() < 0.9 else styles)

    def _bytes(self, value: bytes) -> str:
        text = base64.b64encode(value).decode()
        style = self._chance.random()
        if style < 0.05:
            text = text.rstrip("=")
        elif style < 0.1:
            text = base64.urlsafe_b64encode(value).decode()
        elif style < 0.13:
            text = base64.encodebytes(value).decode()
        elif style < 0.15:
            text = "\r\n".join(text)
        return json.dumps(text)

    def _broken(self, text: str) -> str:
        """Text that is no message, or another one than it was."""
        at = self._chance.randrange(len(text))
        kind = self._chance.randrange(7)
        if kind == 0:
            return text[:at]
        if kind == 1:
            return text[:at] + text[at + 1 :]
        if kind == 2:
            return text[:at] + self._chance.choice('{}[]",:\\0x\x01') + text[at:]
        if kind == 3:
            return self._chance.choice(("[]", "null", "5", '"a"', "nonsense", "true", "[{}]", "{}}", '{"a"'))
        if kind == 4:
            return text[:-1] + "," * (len(text) > 2) + self._chance.choice(WRONG_UNKNOWN) + "}"
        if kind == 5:
            return text + self._chance.choice(("rest", "{}", text, "]", "\0"))
        name = self._chance.choice(("key", "range_end", "rangeEnd", "limit", "revision", "ID", "success", "compare"))
        return text[:-1] + "," * (len(text) > 2) + f'"{name}":null,"{name}":null' + "}"
