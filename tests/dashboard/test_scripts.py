"""The page's rules for traces and epochs, run by Node.js: no browser is needed for these."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgpack
import pytest

from kraft_trio.cli import run

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")

SCRIPTS = ("units.js", "msgpack.js", "timeline.js", "replay.js")


def ran(program: str, directory: Path, given: object = None) -> Any:
    """The JSON that a program prints, which finds `given` and the page's functions."""
    page = files("kraft_trio.dashboard.page")
    source = "\n".join(page.joinpath(name).read_text() for name in SCRIPTS)
    script = directory / "program.js"
    script.write_text(f'"use strict";\n{source}\nconst given = {json.dumps(given)};\n{program}')
    done = subprocess.run(["node", str(script)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


VALUES = [
    None,
    True,
    False,
    *(
        sign * number
        for number in (0, 1, 31, 32, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**50)
        for sign in (1, -1)
    ),
    1.5,
    -0.25,
    "",
    "é" * 20,
    "x" * 40,
    "y" * 300,
    "z" * 70_000,
    [],
    list(range(20)),
    list(range(70_000)),
    {},
    {"a": {"b": [1, None]}},
    {str(number): number for number in range(300)},
]
READ = """
const buffer = require("fs").readFileSync(given.path);
const reader = new Msgpack(buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength));
const values = [];
while (!reader.isAtEnd) values.push(reader.next());
console.log(JSON.stringify(values));
"""


def test_msgpack_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "values"
    path.write_bytes(b"".join(msgpack.packb(value) for value in VALUES))
    assert ran(READ, tmp_path, {"path": str(path)}) == VALUES


REPLAY = """
const fs = require("fs");
const whole = (path) => {
  const read = fs.readFileSync(path);
  return read.buffer.slice(read.byteOffset, read.byteOffset + read.byteLength);
};
const summed = (run) => {
  const index = run.keys[run.keys.length - 1];
  const now = run.boardAt(index, null);
  const report = run.situationAt(index).report;
  return { about: run.about, events: run.events.length, keys: run.keys.length, records: run.records.length, report,
    claims: now.claims.map((claim) => [claim.nodeId, claim.problem, claim.epoch, claim.leaderId, claim.logEnd]),
    epochs: epochsOf(run.events, { epoch: report && report.epoch, leaderId: report && report.leaderId })
      .map(({ epoch, leader, why }) => [epoch, leader, why]) };
};
const buffer = whole(given[0]);
console.log(JSON.stringify([
  summed(new Replay([{ name: "a", buffer }])),
  summed(new Replay([{ name: "b", buffer: whole(given[1]) }])),
  summed(new Replay([{ name: "c", buffer: buffer.slice(0, buffer.byteLength - 7) }])),
]));
"""
SCRIPT = """
voters 1 2 3
elect 1
append "a"
kill 1
elect 2
append "b"
"""


def test_a_trace_is_replayed_whichever_way_it_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "scenario.txt"
    script.write_text(SCRIPT)
    traces = [tmp_path / "run.trace", tmp_path / "run.ndjson"]
    assert run(["simulate", str(script), "--trace", str(traces[0])]) == 0, capsys.readouterr()
    assert run(["simulate", str(script), "--trace", str(traces[1]), "--ndjson"]) == 0
    packed, lines, torn = ran(REPLAY, tmp_path, [str(trace) for trace in traces])
    assert packed == lines
    assert torn == packed  # its last record, which is torn, only ends a process of the run
    assert packed["report"]["leaderId"] == 2
    assert [voter["health"] for voter in packed["report"]["voters"]] == ["offline", "up", "up"]
    ends = {node: end for node, _, _, _, end in packed["claims"]}
    assert ends[2] == ends[3]
    assert ends[2]["epoch"] == packed["report"]["epoch"]
    assert packed["claims"][0][:2] == [1, "killed"]
    first, *_, last = packed["epochs"]
    assert (first[1], first[2]) == (1, "its process ended: killed")
    assert (last[1], last[2]) == (2, None)


REFUSED = """
const refused = (bytesOf) => {
  try { new Replay([{ name: "x", buffer: new Uint8Array(bytesOf).buffer }]); return null; }
  catch (error) { return error.message; }
};
console.log(JSON.stringify(given.map(refused)));
"""


def test_a_file_that_is_no_trace_is_refused_with_the_reason(tmp_path: Path) -> None:
    header = {"format": "kraft-trio trace", "version": 1}
    given = [
        b"",
        b"\x7fELF and so on",
        b"{}\n",
        msgpack.packb({**header, "version": 9}),
        msgpack.packb(header),
        msgpack.packb(header)[:-1] + b"\xc1",
    ]
    reasons = ran(REFUSED, tmp_path, [list(one) for one in given])
    assert reasons == [
        "x: the file is empty",
        "x: not a trace: its first record is no header",
        "x: not a trace: its first record is no header",
        "x: version 9 of traces; this page reads version 1",
        "the trace has no events",
        f"x: byte {len(msgpack.packb(header)) - 1}: 0xc1 begins no value of a trace",
    ]


def role(
    at_ms: int, node: int, role: str, was: str, epoch: int, by: str, leader: int | None, **more: Any
) -> dict[str, Any]:
    return {"atMs": at_ms, "node": node, "what": "role", "role": role, "was": was, "epoch": epoch, "by": by,
            "leader_id": leader, "isTold": True, **more}  # fmt: skip


def seen(at_ms: int, node: int, what: str, **more: Any) -> dict[str, Any]:
    return {"atMs": at_ms, "node": node, "what": what, "isTold": False, **more}


def resigned(**more: Any) -> dict[str, Any]:
    return role(50, 1, "Resigned", "Leader", 5, "RESIGNED", None, **more)


LED = [
    role(10, 1, "Leader", "Candidate", 5, "ELECTION_WON", 1),
    role(11, 2, "Follower", "Unattached", 5, "LEADER_DISCOVERED", 1),
]
NEXT = role(90, 2, "Leader", "Candidate", 6, "ELECTION_WON", 2)
GONE = seen(55, 1, "unreachable", problem="Connection refused", epoch=5, leader_id=1)
MISSED = role(60, 2, "Prospective", "Follower", 5, "FETCH_TIMED_OUT", 1)
EPOCHS: dict[str, tuple[list[dict[str, Any]], list[list[Any]]]] = {
    "a leader that leads": (LED, [[5, 1, 10, None, None]]),
    "one that resigned for a reason": (
        [*LED, resigned(reason="no progress by a majority", cause="LeadershipLost"), NEXT],
        [[5, 1, 10, 50, "it resigned: no progress by a majority"], [6, 2, 90, None, None]],
    ),
    "one that was stopped": (
        [*LED, resigned(reason=None, cause="ShutDown"), NEXT],
        [[5, 1, 10, 50, "it resigned, because it was stopped"], [6, 2, 90, None, None]],
    ),
    "one whose process was killed": (
        [*LED, GONE, MISSED, NEXT],
        [[5, 1, 10, 55, "it stopped answering: Connection refused"], [6, 2, 90, None, None]],
    ),
    "one that only the others missed": (
        [*LED, MISSED, NEXT],
        [[5, 1, 10, 60, "node 2 had no answer from it for the fetch timeout"], [6, 2, 90, None, None]],
    ),
    "one whose disk was full": (
        [*LED, seen(40, 1, "disk full", reason="no room"), GONE, NEXT],
        [[5, 1, 10, 40, "its disk failed or was full: no room"], [6, 2, 90, None, None]],
    ),
    "one that had little room left": (
        [*LED, {**GONE, "free_bytes": 12 * 1024}, MISSED, NEXT],
        [
            [5, 1, 10, 55, "its disk had 12 KiB left, and it stopped answering: Connection refused"],
            [6, 2, 90, None, None],
        ],
    ),
    "one that was found to be gone when another led": (
        [*LED, MISSED, NEXT, {**GONE, "atMs": 95}],
        [[5, 1, 10, 60, "it stopped answering: Connection refused"], [6, 2, 90, None, None]],
    ),
    "one that goes after it has followed another": (
        [*LED, MISSED, NEXT, {**GONE, "atMs": 99, "epoch": 6}],
        [[5, 1, 10, 60, "node 2 had no answer from it for the fetch timeout"], [6, 2, 90, None, None]],
    ),
    "one that was cut off and came back": (
        [*LED, MISSED, NEXT, role(120, 1, "Unattached", "Leader", 6, "HIGHER_EPOCH_SEEN", None)],
        [[5, 1, 10, 60, "node 2 had no answer from it for the fetch timeout"], [6, 2, 90, None, None]],
    ),
    "controllers of Kafka, seen from outside": (
        [
            seen(10, 3000, "first seen", epoch=5, leader_id=3000),
            seen(11, 3001, "first seen", epoch=5, leader_id=3000),
            seen(80, 3001, "claim", epoch=6, leader_id=2),
        ],
        [[5, 3000, 10, 80, "no node tells why"], [6, 2, 80, None, None]],
    ),
    "one that is dead, though its followers do not know yet": (
        [*LED, seen(40, 1, "ended", reason="killed")],
        [[5, 1, 10, 40, "its process ended: killed"]],
    ),
    "one that only this page does not reach": (
        [*LED, GONE],
        [[5, 1, 10, None, None]],
    ),
    "an epoch without a leader": (
        [*LED, MISSED, role(70, 2, "Candidate", "Prospective", 6, "PRE_VOTE_WON", None)],
        [[5, 1, 10, 60, "node 2 had no answer from it for the fetch timeout"], [6, None, 70, None, None]],
    ),
}  # fmt: skip
IN_5 = {"epoch": 5, "leaderId": 1}
NOW = {
    "a leader that leads": IN_5,
    "one that is dead, though its followers do not know yet": IN_5,
    "one that only this page does not reach": IN_5,
    "an epoch without a leader": {"epoch": 6, "leaderId": None},
}
TIMELINE = """
console.log(JSON.stringify(given.map(([events, now]) =>
  epochsOf(events, now).map(({ epoch, leader, fromMs, toMs, why }) => [epoch, leader, fromMs, toMs, why]))));
"""


def test_why_each_leader_was_lost(tmp_path: Path) -> None:
    given = [[events, NOW.get(name, {"epoch": 6, "leaderId": 2})] for name, (events, _) in EPOCHS.items()]
    found = dict(zip(EPOCHS, ran(TIMELINE, tmp_path, given), strict=True))
    assert found == {name: expected for name, (_, expected) in EPOCHS.items()}


def test_refusals_are_told_with_their_reasons(tmp_path: Path) -> None:
    refusal = {"atMs": 75, "node": 3, "what": "vote requested", "candidate": "2-abc", "epoch": 6, "pre_vote": False,
               "granted": False, "reason": "log behind"}  # fmt: skip
    events = [
        *LED,
        MISSED,
        role(70, 2, "Candidate", "Prospective", 6, "PRE_VOTE_WON", None),
        refusal,
        {**refusal, "atMs": 77},
    ]
    program = "console.log(JSON.stringify(epochsOf(given, { epoch: 6, leaderId: null }).map((one) => one.evidence)));"
    assert ran(program, tmp_path, events)[1] == [{"atMs": 77, "text": "node 3 refuses node 2: log behind (2 times)"}]


@pytest.mark.parametrize(
    ("ages_ms", "since_ms", "is_open", "text"),
    [
        ([100, 200, 300], 0, True, "Live"),
        ([100, None, 300], 0, True, "Live: 2 of 3 nodes answer"),
        ([100, 60_000, 300], 0, True, "Live: 2 of 3 nodes answer"),
        ([5000], 900, True, "Live"),
        ([5000], 1100, True, "No node has answered for 6 s: what follows is older"),
        ([70_000, 60_000], 0, True, "No node has answered for 60 s: what follows is older"),
        ([None, None], 0, True, "No node has answered yet"),
        ([], 0, True, "No node has answered yet"),
        ([100], 7000, True, "No news for 7 s: what follows is older"),
        ([100], 0, False, "No news for 0 s: what follows is older"),
        ([100], None, True, "Asking the nodes …"),
        ([100], None, False, "Not connected"),
    ],
)
def test_age_of_the_newest_answer_decides_whether_the_page_is_live(
    tmp_path: Path, ages_ms: list[int | None], since_ms: int | None, is_open: bool, text: str
) -> None:
    board = {"claims": [{"ageMs": age_ms} for age_ms in ages_ms]}
    live = {"board": board, "heardAtMs": 0 if since_ms is None else 1_000_000, "isOpen": is_open}
    now_ms = 1_000_000 + (since_ms or 0)
    told = ran(
        "console.log(JSON.stringify(liveness(given.live, given.nowMs)));", tmp_path, {"live": live, "nowMs": now_ms}
    )
    assert told["text"] == text
    assert told["isLost"] == (not text.startswith(("Live", "Asking", "Not connected")))
