"""Checks the arguments of the clients' calls: each error names the argument, its value and what was expected."""

from __future__ import annotations

from types import UnionType
from typing import Final

from kraft_trio.protocol.types import ReplicaKey

MAX_INT16: Final = 2**15 - 1
MAX_INT32: Final = 2**31 - 1


def check_number(name: str, value: object, at_most: int, *, at_least: int = 1) -> None:
    """Raises TypeError for what is no number, and ValueError for one that does not fit its field of the request."""
    if not isinstance(value, int):
        raise TypeError(f"{name}: {value!r}, expected a number from {at_least} to {at_most}")
    if not at_least <= value <= at_most:
        raise ValueError(f"{name}: {value}, expected {at_least} to {at_most}")


def check_replica(name: str, value: object) -> None:
    """Raises TypeError for what is no ReplicaKey, and ValueError for an id that does not fit a request."""
    if not isinstance(value, ReplicaKey):
        raise TypeError(f"{name}: {value!r}, expected a ReplicaKey")
    check_number(name, value.id, MAX_INT32, at_least=0)


def check_type(name: str, value: object, expected: type | UnionType, described: str) -> None:
    """Raises TypeError."""
    if not isinstance(value, expected):
        raise TypeError(f"{name}: {value!r}, expected {described}")
