"""What nodes and browsers tell the dashboard in JSON."""

from __future__ import annotations

import json

import attrs

from kraft_trio.client.claims import Told, status_of, vital_number
from kraft_trio.client.explanation import explanation_fields
from kraft_trio.dashboard.board import explained_fields
from kraft_trio.dashboard.history import History
from kraft_trio.dashboard.told_situation import BadSituation, situation_of_json
from kraft_trio.diagnosis.quorum_situation import Claim, Situation
from scripts.fuzzing.decoder import Decoder

EVENT = {"id": 1, "atMs": 1700000000000, "what": "role", "role": "Leader", "was": "Candidate", "epoch": 5, "by": "x"}
STATUS = {
    "role": "Leader",
    "vitals": {"syncP99Ms": 1.5, "freeBytes": 10**9, "snapshots": 1, "snapshotAgeMs": 5, "certificateExpiresMs": None},
    "events": [EVENT, {**EVENT, "id": 2, "what": "vote requested", "granted": False, "reason": "log behind"}],
}
CLAIM = {
    "endpoint": "a:1",
    "nodeId": 1,
    "epoch": 5,
    "leaderId": None,
    "voters": [1, 2, 3],
    "logEnd": {"offset": 9, "epoch": 5},
    "highWatermark": 9,
}
VOTERS = [{"id": 1, "health": "up"}, {"id": 2, "health": "offline", "reason": "has not fetched for 9 s"}]
REPORT = {"leaderId": 1, "epoch": 5, "highWatermark": 9, "voters": VOTERS, "before": [1], "target": [1, 3]}


def watch_node(data: bytes) -> None:
    """Whatever a node reports about itself leads to JSON that a browser reads."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    status = status_of(text)
    claim = Claim("a:1", node_id=1, epoch=5, voter_ids=(1, 2, 3), free_bytes=vital_number(status, "freeBytes"))
    history = History(lambda: 0)
    for epoch in (5, 6):
        history.heard(Told(attrs.evolve(claim, epoch=epoch), status=status))
    json.dumps([history.since(0), explanation_fields(Situation((claim,))), status], allow_nan=False)


def explain(data: bytes) -> None:
    json.dumps(explained_fields(situation_of_json(data)), allow_nan=False)


DECODERS = (
    Decoder("node-status", lambda: [json.dumps(STATUS).encode()], watch_node, ()),
    Decoder(
        "told-situation",
        lambda: [json.dumps({"claims": [CLAIM, CLAIM], "report": report}).encode() for report in (None, REPORT)],
        explain,
        (BadSituation,),
    ),
)
