"""What has happened: each event once, and what was seen from outside."""

from __future__ import annotations

from typing import Any

import attrs

from kraft_trio.client.claims import Told
from kraft_trio.dashboard.history import KEPT, MAX_TEXT, History
from kraft_trio.diagnosis.quorum_situation import Claim


def told(
    node_id: int = 1, epoch: int = 5, leader: int | None = 1, events: Any = (), problem: str | None = None
) -> Told:
    claim = Claim("a:1", problem, node_id, "c", None if problem else epoch, None if problem else leader)
    return Told(claim, status={"events": list(events)} if isinstance(events, tuple | list) else {"events": events})


def event(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": number, "atMs": 100 + number, "what": "role", **fields}


def kinds(history: History) -> list[str]:
    return [one["what"] for one in history.since(0)]


def test_each_event_comes_once_and_names_its_node() -> None:
    history = History(lambda: 1)
    history.heard(told(events=(event(1), event(2))))
    history.heard(told(events=(event(1), event(2), event(3, reason="log behind"))))
    history.heard(told(node_id=2, events=(event(1),)))
    own = [one for one in history.since(0) if one["isTold"]]
    assert [(one["node"], one["id"]) for one in own] == [(1, 1), (1, 2), (1, 3), (2, 1)]
    assert own[2]["reason"] == "log behind"
    assert history.since(history.since(0)[-1]["number"] + 1) == []


def test_what_a_node_does_not_tell_is_seen_from_outside() -> None:
    history = History(lambda: 77)
    history.heard(told())
    history.heard(told())
    history.heard(told(problem="Connection refused"))
    history.heard(told(problem="Connection refused"))
    history.heard(told(epoch=6, leader=2))
    history.heard(told(epoch=7, leader=None))
    assert kinds(history) == ["first seen", "unreachable", "reachable", "claim"]
    lost = history.since(0)[1]
    assert "free_bytes" not in lost
    assert (lost["problem"], lost["epoch"], lost["leader_id"], lost["atMs"]) == ("Connection refused", 5, 1, 77)


def test_what_a_node_tells_is_bounded() -> None:
    history = History(lambda: 1)
    for value in ("x", {"a": 1}, 5, None):
        history.heard(told(events=value))
    long = event(1, reason="x" * 9999, more=[1], **{f"f{n}": n for n in range(99)})
    history.heard(told(events=[1, {"what": "role"}, long]))
    [own] = [one for one in history.since(0) if one["isTold"]]
    assert len(own["reason"]) == MAX_TEXT
    assert "more" not in own
    assert len(own) < 25
    for number in range(3 * KEPT):
        history.heard(told(events=[event(number)]))
    assert len(history.since(0)) == KEPT


def test_the_last_word_on_a_disk_is_told_with_the_loss_of_its_node() -> None:
    history = History(lambda: 1)
    history.heard(told())
    lost = told(problem="Connection refused")
    history.heard(attrs.evolve(lost, claim=attrs.evolve(lost.claim, free_bytes=9000)))
    assert history.since(0)[-1]["free_bytes"] == 9000
