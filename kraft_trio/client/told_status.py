"""Reads the status that a node reports (docs/reference/status.md#what-a-node-tells), and ignores what is malformed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, TypeGuard

from kraft_trio.config.key import MAX_INT32
from kraft_trio.diagnosis.quorum_situation import Restored
from kraft_trio.protocol.types import ReplicaKey, directory_id_from_text
from kraft_trio.tracing.event_feed import SHARED_ID

MAX_STATUS: Final = 256 * 1024
"""Characters of a status; a longer one is ignored."""
MAX_LINE: Final = 300
LATELY_MS: Final = 90_000
"""A node that shares its id says so once a minute."""
RESTORED_TOLD_MS: Final = 24 * 3600 * 1000
"""For how long a node reports that an old copy of a directory was started.  It may have caught up within a moment."""
MAX_NODES: Final = 64
"""Nodes that are asked; what they name beyond that is ignored."""


def status_of(text: str | None) -> dict[str, Any]:
    """Read the status that a node tells.

    Empty if it is too long, or not a JSON object, or has a number that is not finite or has more than 64 bits.
    """
    if text is None or len(text) > MAX_STATUS:
        return {}
    try:
        status = json.loads(text, parse_int=_int_of, parse_float=_float_of, parse_constant=_float_of)
    except (ValueError, RecursionError):
        return {}
    return status if isinstance(status, dict) else {}


def _int_of(text: str) -> int:
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError("more than 64 bits")
    return value


def _float_of(text: str) -> float:
    """Python reads and writes Infinity and NaN; no browser does."""
    value = float(text)
    if not isfinite(value):
        raise ValueError("not finite")
    return value


def vital_number(status: Mapping[str, Any], name: str) -> int | None:
    """A vital sign that is a whole number from 0 on; None if the status has no such number."""
    vitals = status.get("vitals")
    value = vitals.get(name) if isinstance(vitals, dict) else None
    return value if _is_whole(value) and value >= 0 else None


def voters_of(status: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The ids of the voters that a node knows; None if the status has no such list."""
    voters = status.get("voters")
    ids = [one.get("id") if isinstance(one, dict) else None for one in voters] if isinstance(voters, list) else []
    known = tuple(sorted(id for id in ids if _is_whole(id) and 0 <= id <= MAX_INT32))
    return known if isinstance(voters, list) and len(known) == len(ids) <= MAX_NODES else None


def voter_keys_of(status: Mapping[str, Any]) -> tuple[ReplicaKey, ...]:
    """The voters that a node knows, with their directory ids; empty if the status has no such list."""
    voters = status.get("voters")
    if voters_of(status) is None or not isinstance(voters, list):
        return ()
    try:
        return tuple(ReplicaKey(one["id"], directory_id_from_text(one["directoryId"])) for one in voters)
    except (KeyError, ValueError, TypeError, AttributeError):
        return ()


def initial_voter_of(status: Mapping[str, Any]) -> str | None:
    """The node itself as `--initial-controllers` names it: `id@host:port:directory-id`; None if it is no voter."""
    voters = status.get("voters")
    for voter in voters if voters_of(status) and isinstance(voters, list) else ():
        if voter["id"] == status.get("nodeId") and voter.get("directoryId") == status.get("directoryId"):
            endpoints = voter.get("endpoints")
            first = line_of(endpoints[0]) if isinstance(endpoints, list) and endpoints else None
            _, _, endpoint = (first or "").partition("://")
            return f"{voter['id']}@{endpoint}:{voter['directoryId']}" if endpoint else None
    return None


def shared_id_of(status: Mapping[str, Any]) -> tuple[int, str] | None:
    """The node id that two processes have, and how the node knows, if one of its events of late says so."""
    at_ms, events = status.get("atMs"), status.get("events")
    for event in reversed(events) if isinstance(events, list) else ():
        if not isinstance(event, dict) or event.get("what") != SHARED_ID:
            continue
        node_id, reason, said_ms = event.get("node_id"), line_of(event.get("reason")), event.get("atMs")
        if _is_whole(at_ms) and _is_whole(said_ms) and at_ms - said_ms < LATELY_MS and _is_whole(node_id) and reason:
            return node_id, reason
    return None


def restored_of(status: Mapping[str, Any]) -> tuple[Restored, ...]:
    """The voters that came back to the node, lately, without records that they had acknowledged."""
    at_ms, told = status.get("atMs"), status.get("restoredVoters")
    if not _is_whole(at_ms) or not isinstance(told, list):
        return ()
    found = []
    for one in told[-MAX_NODES:]:
        fields = one if isinstance(one, dict) else {}
        numbers = [fields.get(name) for name in ("atMs", "id", "acknowledged", "cameBackAt")]
        known = [number for number in numbers if _is_whole(number) and number >= 0]
        if len(known) == len(numbers) and at_ms - known[0] < RESTORED_TOLD_MS:
            found.append(Restored(known[1], known[2], known[3], fields.get("hasCaughtUp") is True))
    return tuple(found)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def whole_of(value: object) -> int | None:
    return value if _is_whole(value) else None


def texts_of(value: object) -> tuple[str, ...] | None:
    """Texts that a node tells, such as addresses; None if it is no list of them, or too long a one."""
    lines = [line_of(one) for one in value] if isinstance(value, list) and len(value) <= MAX_NODES else [None]
    told = tuple(line for line in lines if line is not None)
    return told if len(told) == len(lines) else None


def line_of(value: object) -> str | None:
    """A text that a node tells, as one line that is not too long; None if it is no text, or empty."""
    return " ".join(value.split())[:MAX_LINE] or None if isinstance(value, str) else None
