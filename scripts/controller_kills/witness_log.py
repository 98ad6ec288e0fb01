"""What the witness's own log tells about its leaderships."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from harness.node import START


def leaderships_s(log_text: str) -> list[float]:
    """How long the witness led each time that it was elected, in seconds.

    A process that was killed while it led has led until its last line.
    """
    led: list[float] = []
    for process in log_text.split(START):
        since_s: float | None = None
        now_s = 0.0
        for event in _events(process):
            now_s = datetime.fromisoformat(event["timestamp"]).timestamp()
            if event["event"] == "role" and since_s is not None:
                led.append(now_s - since_s)
                since_s = None
            if event["event"] == "role" and event["role"] == "Leader":
                since_s = now_s
        if since_s is not None:
            led.append(now_s - since_s)
    return led


def _events(text: str) -> Iterator[dict[str, Any]]:
    """The complete lines of one process.  A killed one may have left half of one."""
    for line in text[: text.rfind("\n") + 1].splitlines():
        if line.startswith("{"):
            yield json.loads(line)
