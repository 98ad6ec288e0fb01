"""A moment of a recorded run is explained by the rules that explain the live quorum; bad input is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kraft_trio.dashboard.board import explained_fields
from kraft_trio.dashboard.told_situation import MAX_NODES, BadSituation, situation_of_json


def claim(node_id: int, **more: Any) -> dict[str, Any]:
    return {
        "endpoint": f"node {node_id}",
        "problem": None,
        "nodeId": node_id,
        "epoch": 3,
        "leaderId": None,
        "voters": [1, 2, 3],
        "logEnd": {"offset": 9, "epoch": 3},
        "highWatermark": 9,
        **more,
    }


def body(*claims: Any, report: Any = None) -> bytes:
    return json.dumps({"claims": claims, "report": report}).encode()


def report(*health: str, **more: Any) -> dict[str, Any]:
    voters = [{"id": node_id, "health": one, "reason": "why"} for node_id, one in enumerate(health, start=1)]
    return {"leaderId": 1, "epoch": 3, "highWatermark": 9, "voters": voters, "before": [], "target": [], **more}


def test_without_a_leader() -> None:
    fields = explained_fields(situation_of_json(body(claim(1), claim(2, problem="killed"), claim(3, problem="killed"))))
    assert (fields["epoch"], fields["leaderId"]) == (3, None)
    assert [finding["code"] for finding in fields["findings"]] == ["no-majority"]
    assert fields["survival"] == [{"voters": (1, 2, 3), "up": (1,), "majority": 2, "spare": -1}]


def test_with_a_leader_and_a_change() -> None:
    claims = [claim(node_id, leaderId=1) for node_id in (1, 2, 3)]
    fields = explained_fields(situation_of_json(body(*claims, report=report("up", "up", "offline", before=[1, 2]))))
    assert [one["spare"] for one in fields["survival"]] == [0, 0]
    assert fields["change"] == {"before": [1, 2], "now": (1, 2, 3), "target": None, "status": None}
    codes = [finding["code"] for finding in fields["findings"]]
    assert {"pending-change", "voter-behind", "survival-before"} <= set(codes)
    [pending] = [finding for finding in fields["findings"] if finding["code"] == "pending-change"]
    assert pending["command"] == "kraft metadata-quorum --bootstrap-controller node 1,node 2,node 3 describe --status"


BAD = {
    "the body: expected JSON": b"{",
    "the body: [], expected an object": b"[]",
    "claims: None, expected a list of at most 64 members": b"{}",
    "claims[0]: 1, expected an object": body(1),
    "claims[0].nodeId: 'x', expected a whole number": body(claim(1, nodeId="x")),
    "claims[0].epoch: True, expected a whole number": body(claim(1, epoch=True)),
    "claims[1].voters[0]: None, expected a whole number": body(claim(1), claim(2, voters=[None])),
    "claims[0].logEnd.offset: None, expected a whole number": body(claim(1, logEnd={})),
    "claims[0].endpoint: None, expected a text of at most 500 characters": body(claim(1, endpoint=None)),
    "report.voters[0].health: 'well', expected one of up, lagging, offline": body(claim(1), report=report("well")),
    "report.leaderId: 1e+99, expected a whole number": body(report=report("up", leaderId=1e99)),
}


@pytest.mark.parametrize(("message", "value"), BAD.items(), ids=BAD)
def test_bad_input_is_named(message: str, value: bytes) -> None:
    with pytest.raises(BadSituation) as caught:
        situation_of_json(value)
    assert str(caught.value) == message


def test_too_much_is_refused() -> None:
    with pytest.raises(BadSituation, match="expected a list of at most 64 members"):
        situation_of_json(body(*(claim(node_id) for node_id in range(MAX_NODES + 1))))
    with pytest.raises(BadSituation, match="expected JSON"):
        situation_of_json(b"[" * 60_000)
