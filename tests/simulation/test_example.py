"""The example of docs/how-to/test-a-state-machine.md, run as it stands there; by default with fewer seeds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import sizes

DOCUMENT = Path(__file__).parents[2] / "docs" / "how-to" / "test-a-state-machine.md"


def example() -> str:
    code = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert code is not None
    return code[1]


def test_it_is_short_and_passes() -> None:
    lines = [line for line in example().splitlines() if line.strip()]
    assert len(lines) <= 32
    code = example()
    assert "range(20)" in code
    if not sizes.IS_ALL:
        code = code.replace("range(20)", "range(4)")
    exec(compile(code, str(DOCUMENT), "exec"), {"__name__": "example"})


def test_it_fails_for_a_state_machine_that_forgets_a_command() -> None:
    """What it is there for: the same test with a state machine that is wrong."""
    broken = example().replace("self.total += int(record.value)", "self.total = int(record.value)")
    with pytest.raises(AssertionError):
        exec(compile(broken, str(DOCUMENT), "exec"), {"__name__": "example"})
