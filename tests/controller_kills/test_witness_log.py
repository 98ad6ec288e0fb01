"""How long a witness led, as its log tells."""

from __future__ import annotations

import json

import pytest

from harness.node import START
from scripts.controller_kills.witness_log import leaderships_s


def line(second: float, event: str, role: str | None = None) -> str:
    text = f"2026-01-01T00:00:{second:09.6f}Z"
    return json.dumps({"event": event, "timestamp": text} | ({} if role is None else {"role": role})) + "\n"


def became(second: float, role: str) -> str:
    return line(second, "role", role)


@pytest.mark.parametrize(
    ("log", "led_s"),
    [
        ("", []),
        (became(1, "Candidate") + became(2, "Follower"), []),
        (became(1, "Candidate") + became(2, "Leader") + line(2.5, "vote requested") + became(3, "Resigned"), [1.0]),
        (became(1, "Leader") + became(1.5, "Resigned") + became(5, "Leader") + became(9, "Resigned"), [0.5, 4.0]),
        (became(1, "Leader") + line(4, "vote requested") + START + became(30, "Resigned"), [3.0]),
        (became(1, "Leader") + became(3, "Resigned")[:20], [0.0]),
    ],
    ids=["nothing", "never", "once", "twice", "killed while it led", "killed while it wrote"],
)
def test_leaderships(log: str, led_s: list[float]) -> None:
    assert leaderships_s(START + log) == led_s
