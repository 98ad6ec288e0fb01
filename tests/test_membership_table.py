"""docs/MEMBERSHIP.md has every situation of Kafka's membership tests, each with a test of ours or a reason."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent


def test_no_situation_is_missing() -> None:
    """That the tests exist is looked at for all documents alike."""
    expected = (REPOSITORY / "tests" / "data" / "membership-situations.txt").read_text().splitlines()
    listed = []
    for section in re.split(r"^### ", (REPOSITORY / "docs" / "MEMBERSHIP.md").read_text(), flags=re.MULTILINE)[1:]:
        name = section.partition("\n")[0]
        for situation, test, compared in re.findall(r"^\| ([tT]est\w+) \| (.+?) \| (.+?) \|$", section, re.MULTILINE):
            listed.append(f"{name} {situation}")
            assert test.startswith("`") or (test == "none" and len(compared) > 40), "a test, or the reason for none"
    assert listed == expected
