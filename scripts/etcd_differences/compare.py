"""What two answers have in common, whatever depends on the cluster or on time; and the differences that are known."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import attrs

from scripts.etcd_differences.peers import Answer
from scripts.etcd_differences.requests import Ask

RANDOM_ID: Final = 10**9
"""Leases with a higher id were given one at random."""
NOT_A_MESSAGE: Final = "No message on a stream"
"""A row of the table in docs/reference/key-value-store.md, and so are those of KNOWN."""


def comparable(ask: Ask, answer: Answer) -> Answer:
    """An answer without what depends on the cluster, on time, or on the order of a set."""
    if not isinstance(answer.content, list):
        return answer
    return Answer(answer.status, [_comparable(ask.path, one) for one in answer.content])


def _comparable(path: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_comparable(path, one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {name: _comparable(path, one) for name, one in value.items()}
    if "header" in found:
        found["header"] = {"revision": found["header"].get("revision", "0")}
    if "message" in found:
        found = {"code": found.get("code"), "message": found["message"]}
    if path.endswith("/timetolive") and int(found.get("TTL", 0)) > 0:
        found["TTL"] = "some"
    if int(found.get("ID", 0)) > RANDOM_ID:
        found["ID"] = "some"
    if path == "/version":
        found = dict.fromkeys(found, "some")
    for name in ("keys", "leases"):
        if name in found:
            found[name] = sorted(found[name], key=str)
    return found


def _error(answer: Answer) -> dict[str, Any]:
    [error] = answer.content if isinstance(answer.content, list) and len(answer.content) == 1 else [{}]
    return error if isinstance(error, dict) else {}


def _is_about_json(ask: Ask, ours: Answer, theirs: Answer) -> bool:
    codes = {ours.status, theirs.status, _error(ours).get("code"), _error(theirs).get("code")}
    return codes == {400, 3} and not str(_error(theirs).get("message")).startswith("etcdserver: ")


def _is_first_compaction(ask: Ask, ours: Answer, theirs: Answer) -> bool:
    return (
        ask.path.endswith("/compaction")
        and (_error(ours).get("code"), theirs.status) == (11, 200)
        and re.search(rb'"revision"\s*:\s*"?[1-9]', ask.body) is None
    )


def _is_redirected(ask: Ask, ours: Answer, theirs: Answer) -> bool:
    return theirs.status in (301, 307, 308) and ours.status == 404


def _has_leases_of_keys_only(ask: Ask, ours: Answer, theirs: Answer) -> bool:
    names = (b"keys_only", b"keysOnly")
    return any(name in ask.body for name in names) and _without_leases(ours) == _without_leases(theirs)


def _is_a_number_with_more(ask: Ask, ours: Answer, theirs: Answer) -> bool:
    return (
        (ours.status, _error(ours).get("code")) == (400, 3)
        and " of 64 bits expected" in str(_error(ours).get("message"))
        and re.search(rb'"-?[0-9]+[^-+._0-9A-Za-z"][^"]*"', ask.body) is not None
    )


def _is_negative_in_transaction(ask: Ask, ours: Answer, theirs: Answer) -> bool:
    return (
        ask.path.endswith("/txn")
        and (ours.status, _error(theirs).get("code")) == (200, 11)
        and re.search(rb'"revision":"?-', ask.body) is not None
    )


def _without_leases(answer: Answer) -> Answer:
    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without(one) for name, one in value.items() if name != "lease"}
        return [without(one) for one in value] if isinstance(value, list) else value

    return Answer(answer.status, without(answer.content))


@attrs.frozen
class Known:
    """A difference that docs/reference/key-value-store.md names."""

    row: str
    """What its row begins with."""
    holds: Callable[[Ask, Answer, Answer], bool]


def _is_no_message_on_a_stream(ask: Ask, ours: Answer, theirs: Answer) -> bool:
    return ask.path.endswith("/keepalive") and _error(ours).get("code") == 3 and theirs.status == 200


KNOWN: Final = (
    Known(NOT_A_MESSAGE, _is_no_message_on_a_stream),
    Known("Errors about JSON", _is_about_json),
    Known("The first compaction", _is_first_compaction),
    Known("Other paths", _is_redirected),
    Known("`keys_only`", _has_leases_of_keys_only),
    Known("A number as text", _is_a_number_with_more),
    Known("A range in a transaction", _is_negative_in_transaction),
)


def known_difference(ask: Ask, ours: Answer, theirs: Answer) -> str | None:
    """The row of docs/reference/key-value-store.md that two different answers belong to."""
    for known in KNOWN:
        if known.holds(ask, ours, theirs):
            return known.row
    return None


_TOLD: Final = ("created", "canceled", "cancel_reason", "compact_revision")


def watched(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """What a stream has reported about each watch, without its progress: its begin and end, and all events in one list.

    It is chance how many events come before a watch is cancelled.
    """
    found: dict[str, Any] = {}
    for message in messages:
        result = message.get("result")
        if result is None:
            found.setdefault("errors", []).append(message)
            continue
        watch_id = result.get("watch_id", "0")
        told = {
            name: result[name]
            for name in ("created", "canceled", "cancel_reason", "compact_revision")
            if name in result
        }
        if told or "events" in result:
            watch = found.setdefault(watch_id, {"told": [], "events": []})
            watch["told"] += [told] if told else []
            watch["events"] += result.get("events", ())
    for watch in found.values():
        if isinstance(watch, dict) and any("canceled" in told for told in watch["told"]):
            watch["events"] = []
    return found


def wrong_progress(messages: list[dict[str, Any]]) -> str | None:
    """How a stream has reported progress before all events up to it; None if it has not."""
    progress: dict[str, int] = {}
    for message in messages:
        result = message.get("result", {})
        watch_id = result.get("watch_id", "0")
        revision = int(result.get("header", {}).get("revision", 0))
        if not result.keys() - {"header", "watch_id"}:
            progress[watch_id] = revision
        for event in result.get("events", ()):
            at = int(event["kv"]["mod_revision"])
            if at <= max(progress.get(watch_id, 0), progress.get("-1", 0)):
                return f"watch {watch_id}: an event of revision {at} after progress {progress}"
    return None
