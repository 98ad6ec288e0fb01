"""Each array of each API, with 100,000 elements and with the maximum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from harness.plain_messages import Plain, write_plain
from harness.quorum import TOPIC
from kraft_trio.wire.api import APIS, FETCH, PRODUCE, Api
from kraft_trio.wire.schema import STRUCTURE, Field, Structure
from kraft_trio.wire.schema_reader import REQUEST_ELEMENTS
from scripts.attacks.arena import LISTENERS, Arena, framed
from scripts.attacks.requests import header_of

MOST = 100_000
AS_ALLOWED = REQUEST_ELEMENTS - 10
"""The other arrays have elements too."""
BY_NAME = {FETCH.key: 12, PRODUCE.key: 12}
"""Versions in which a topic goes by its name."""


def play(arena: Arena) -> None:
    """Ask the leader, one request after the other."""
    listeners = LISTENERS[: arena.count(2, 1)]
    for api in APIS.values():
        for version in sorted({api.max_version, BY_NAME.get(api.key, api.max_version)}):
            for count in (MOST, AS_ALLOWED):
                for frame in frames(api, version, arena.quorum.cluster_id, count):
                    for listener in listeners:
                        arena.send(frame, listener)


def frames(api: Api[Any, Any], version: int, cluster_id: str, count: int) -> Iterator[bytes]:
    """One for each array in the request, in which all the other arrays have one element."""
    structure = api.structure("request", version)
    for path in array_paths(structure):
        yield framed(header_of(api, version) + write_plain(structure, filled(structure, cluster_id, path, count)))


def array_paths(structure: Structure) -> Iterator[tuple[str, ...]]:
    """The arrays of a structure and of the structures in it, each by the names that lead to it."""
    for field in structure.all_fields:
        if field.is_array:
            yield (field.name,)
        if field.structure is not None:
            for rest in array_paths(field.structure):
                yield (field.name, *rest)


def filled(structure: Structure, cluster_id: str, path: tuple[str, ...], count: int) -> Plain:
    """Plausible values; `count` equal elements in the array at `path`, one in the others."""
    fields: Plain = {}
    for field in structure.all_fields:
        rest = path[1:] if path[:1] == (field.name,) else ()
        inner = field.structure
        one = _value(field, cluster_id) if inner is None else filled(inner, cluster_id, rest, count)
        fields[field.name] = [one] * (count if path == (field.name,) else 1) if field.is_array else one
    return fields


def _value(field: Field, cluster_id: str) -> Any:
    assert field.kind != STRUCTURE
    if field.name == "cluster_id":
        return cluster_id
    if field.name == "acks":
        return -1
    match field.kind:
        case "uuid":
            return UUID(int=1)
        case "string":
            return TOPIC if "name" in field.name or "topic" in field.name else "x"
        case "bytes" | "records":
            return b""
        case "bool":
            return False
        case _:
            return 0
