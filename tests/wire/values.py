"""Random values of every message, cut down to what each version of it carries."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import strategies as st

from kraft_trio.wire.api import APIS
from tests.wire import client_values, quorum_values
from tests.wire.strategies import FOREVER

VALUES: dict[tuple[str, str], st.SearchStrategy[Any]] = quorum_values.VALUES | client_values.VALUES

ABSENT: dict[tuple[str, type], dict[str, tuple[int, int, Any]]] = quorum_values.ABSENT | client_values.ABSENT
"""Of each value: the fields that are not in all versions, with the first and last version that has them (inclusive)
and what they are read as elsewhere."""


def cut_down(value: Any, api_name: str, version: int) -> Any:
    """`value` as a peer that reads `version` sees it."""
    if isinstance(value, tuple):
        return tuple(cut_down(item, api_name, version) for item in value)
    if not attrs.has(type(value)):
        return value
    absent = ABSENT.get((api_name, type(value)), {})
    changes = {}
    for field in attrs.fields(type(value)):
        first, last, otherwise = absent.get(field.name, (0, FOREVER, None))
        present = first <= version <= last
        changes[field.name] = cut_down(getattr(value, field.name), api_name, version) if present else otherwise
    return type(value)(**changes)


ALL_VERSIONS = [
    (api, version, kind)
    for api in APIS.values()
    for version in range(api.min_version, api.max_version + 1)
    for kind in ("request", "response")
]
