"""The catalogue of Kafka's membership tests names each one, with a test of ours or a reason why there is none."""

from __future__ import annotations

import re
from pathlib import Path

DATA = Path(__file__).parent / "data"
SHORTEST_REASON = 40


def test_no_situation_is_missing() -> None:
    """tests/test_documentation.py checks that our tests exist."""
    expected = (DATA / "membership-situations.txt").read_text().splitlines()
    catalogue = (DATA / "kafka-membership-tests.md").read_text()
    listed = []
    for section in re.split(r"^## ", catalogue, flags=re.MULTILINE)[1:]:
        kafka_class = section.partition("\n")[0]
        for situation, test, compared in re.findall(r"^\| ([tT]est\w+) \| (.+?) \| (.+?) \|$", section, re.MULTILINE):
            listed.append(f"{kafka_class} {situation}")
            assert test.startswith("`") or (test == "none" and len(compared) > SHORTEST_REASON)
    assert listed == expected
