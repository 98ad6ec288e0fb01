"""A situation as a browser describes it: a moment of a recorded run, which the same rules then explain."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from kraft_trio.diagnosis.quorum_situation import Claim, LeaderReport, Situation, VoterReport
from kraft_trio.protocol.replica_health import Health, ReplicaHealth
from kraft_trio.protocol.types import OffsetAndEpoch

MAX_NODES: Final = 64
MAX_TEXT: Final = 500

T = TypeVar("T")


class BadSituation(Exception):
    """The message names the field, its value, and what was expected."""


def situation_of_json(body: bytes) -> Situation:
    """Read `{"claims": […], "report": …}`, whose fields docs/reference/status.md lists.  Raises BadSituation."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise BadSituation("the body: expected JSON") from None
    fields = _map("the body", value)
    claims = tuple(_claim(f"claims[{index}]", one) for index, one in enumerate(_list("claims", fields.get("claims"))))
    report = fields.get("report")
    return Situation(claims, None if report is None else _report(_map("report", report)))


def _claim(where: str, value: object) -> Claim:
    fields = _map(where, value)
    end = fields.get("logEnd")
    return Claim(
        endpoint=_text(f"{where}.endpoint", fields.get("endpoint")),
        problem=_or_none(_text, f"{where}.problem", fields.get("problem")),
        node_id=_or_none(_whole, f"{where}.nodeId", fields.get("nodeId")),
        epoch=_or_none(_whole, f"{where}.epoch", fields.get("epoch")),
        leader_id=_or_none(_whole, f"{where}.leaderId", fields.get("leaderId")),
        voter_ids=_or_none(_ids, f"{where}.voters", fields.get("voters")),
        log_end=None if end is None else _end(f"{where}.logEnd", end),
        high_watermark=_or_none(_whole, f"{where}.highWatermark", fields.get("highWatermark")),
    )


def _end(where: str, value: object) -> OffsetAndEpoch:
    fields = _map(where, value)
    return OffsetAndEpoch(
        _whole(f"{where}.offset", fields.get("offset")), _whole(f"{where}.epoch", fields.get("epoch"))
    )


def _report(fields: Mapping[str, Any]) -> LeaderReport:
    voters = []
    for index, one in enumerate(_list("report.voters", fields.get("voters"))):
        where = f"report.voters[{index}]"
        voter = _map(where, one)
        status, allowed = voter.get("health"), [health.value for health in Health]
        if status not in allowed:
            raise BadSituation(f"{where}.health: {status!r:.80}, expected one of {', '.join(allowed)}")
        reason = _text(f"{where}.reason", voter.get("reason", ""))
        voters.append(VoterReport(_whole(f"{where}.id", voter.get("id")), ReplicaHealth(Health(status), reason)))
    return LeaderReport(
        leader_id=_whole("report.leaderId", fields.get("leaderId")),
        epoch=_whole("report.epoch", fields.get("epoch")),
        high_watermark=_whole("report.highWatermark", fields.get("highWatermark")),
        voters=tuple(voters),
        committed_voter_ids=_ids("report.before", fields.get("before", [])),
        target_voter_ids=_ids("report.target", fields.get("target", [])),
    )


def _or_none(read: Callable[[str, object], T], where: str, value: object) -> T | None:
    return None if value is None else read(where, value)


def _map(where: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadSituation(f"{where}: {value!r:.80}, expected an object")
    return value


def _list(where: str, value: object) -> list[Any]:
    if not isinstance(value, list) or len(value) > MAX_NODES:
        raise BadSituation(f"{where}: {value!r:.80}, expected a list of at most {MAX_NODES} members")
    return value


def _ids(where: str, value: object) -> tuple[int, ...]:
    return tuple(_whole(f"{where}[{index}]", one) for index, one in enumerate(_list(where, value)))


def _whole(where: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise BadSituation(f"{where}: {value!r:.80}, expected a whole number")
    return value


def _text(where: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise BadSituation(f"{where}: {value!r:.80}, expected a text of at most {MAX_TEXT} characters")
    return value
