"""A clean history made by hand, which tests change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]
KEYS = {1: "1-AAA", 2: "2-BBB", 3: "3-CCC", 4: "4-DDD"}
VOTERS = " ".join(KEYS[node] for node in (1, 2, 3))


class Story:
    """Takes down events in their order; knows of each node what its next event will say of it."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._states: dict[int, Row] = {}

    def note(
        self, kind: str, node: int | None = None, details: Row | None = None, cause: str = "", **state: Any
    ) -> None:
        """An event; `state` is what it has changed of the node."""
        now = self._states.setdefault(node, {}) if node is not None else {}
        now |= state
        self.rows.append(
            {
                "sequence": len(self.rows),
                "time_us": 1000 * len(self.rows),
                "node": node,
                "kind": kind,
                "cause": cause,
                **{field: now.get(field) for field in STATE},
                "details": details or {},
            }
        )

    def start(self, node: int, **state: Any) -> None:
        state = {"log_end": 0, "synced_end": 0} | state
        self.note(
            "start",
            node,
            {"directory_id": KEYS[node]},
            epoch=None,
            role=None,
            leader=None,
            high_watermark=None,
            **state,
        )

    def role(self, node: int, role: str, epoch: int, leader: int | None = None, was: str | None = None) -> None:
        self.note("role", node, {"was": was}, role=role, epoch=epoch, leader=leader, voters=[1, 2, 3])

    def vote(self, node: int, candidate: int, epoch: int) -> None:
        details = {"candidate": KEYS[candidate], "epoch": epoch, "pre_vote": False, "granted": True}
        self.note("log", node, details, "vote requested")

    def append(
        self, node: int, base: int, end: int, epoch: int, voters: str | None = None, target: str | None = None
    ) -> None:
        details = {"base_offset": base, "next_offset": end, "record_epoch": epoch, "control": voters is not None}
        brought = {"voters_offsets": [base], "voters": [voters]} if voters else {"voters_offsets": [], "voters": []}
        brought |= {} if target is None else {"targets": [target]}
        self.note("append", node, details | brought, log_end=end)

    def sync(self, node: int, end: int) -> None:
        self.note("sync", node, synced_end=end)

    def commit(self, node: int, end: int) -> None:
        self.note("high_watermark", node, {"was": self._states[node].get("high_watermark")}, high_watermark=end)

    def apply(self, node: int, base: int, end: int) -> None:
        self.note("apply", node, {"base_offset": base, "next_offset": end})

    def operation(self, number: int, outcome: str, offsets: list[int] | None = None, **read: Any) -> None:
        details = {"client": "c", "number": number, "operation": "read" if read else "append", "outcome": outcome}
        of_read = {"from_offset": None, "end_offset": None} | read
        self.note("operation", None, details | {"offsets": offsets or [], "linearizable": True} | of_read)


STATE = ("epoch", "role", "leader", "log_end", "synced_end", "high_watermark", "voters")


def clean() -> Story:
    """Node 1 leads epoch 1 and adds voter 4 nowhere; node 2 leads epoch 2 after it; clients write and read."""
    story = Story()
    for node in (1, 2, 3):
        story.start(node)
        story.role(node, "Unattached", 0)
    _elect(story, 1, 1, 0)
    replicate(story, 1, 0, 1, 1, voters=VOTERS)
    story.operation(0, "pending")
    replicate(story, 1, 1, 3, 1)
    story.operation(0, "ok", [1, 2])
    for node in (1, 2, 3):
        story.apply(node, 1, 3)
    story.operation(1, "pending")
    story.operation(1, "ok", [1, 2], from_offset=0, end_offset=3)
    story.note("end", 1, cause="killed")
    _elect(story, 2, 2, 3)
    replicate(story, 2, 3, 4, 2, nodes=(2, 3))
    story.start(1, log_end=3, synced_end=3)
    story.role(1, "Resigned", 1, leader=1)
    story.role(1, "Follower", 2, leader=2, was="Resigned")
    story.operation(2, "pending")
    replicate(story, 2, 4, 5, 2, nodes=(2, 3))
    story.operation(2, "ok", [4])
    for node in (2, 3):
        story.apply(node, 4, 5)
    return story


def _elect(story: Story, leader: int, epoch: int, end: int) -> None:
    followers = [node for node in (1, 2, 3) if node != leader and (epoch == 1 or node != 1)]
    before = "Unattached" if epoch == 1 else "Follower"
    story.role(leader, "Prospective", epoch - 1, was=before)
    story.role(leader, "Candidate", epoch, was="Prospective")
    for node in followers:
        story.role(node, "Unattached", epoch, was=before)
        story.vote(node, leader, epoch)
    story.role(leader, "Leader", epoch, leader=leader, was="Candidate")
    for node in followers:
        story.role(node, "Follower", epoch, leader=leader, was="Unattached")


def replicate(
    story: Story, leader: int, base: int, end: int, epoch: int, nodes: tuple[int, ...] = (1, 2, 3), voters: str = ""
) -> None:
    for node in sorted(nodes, key=lambda node: node != leader):
        story.append(node, base, end, epoch, voters or None)
        story.sync(node, end)
    for node in sorted(nodes, key=lambda node: node != leader):
        story.commit(node, end)


def rows_of(story: Story, run: str) -> Iterator[Row]:
    """As the trace source gives them."""
    for row in story.rows:
        yield {
            **row,
            "file": f"/traces/{run}",
            "run": run,
            "seed": 1,
            "details": json.dumps(row["details"]),
            "error": None,
        }


def find(story: Story, kind: str, node: int | None, nth: int = 0) -> Row:
    """The nth event of that kind and node."""
    return [row for row in story.rows if row["kind"] == kind and row["node"] == node][nth]
