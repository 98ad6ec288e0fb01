"""The example of docs/SIMULATION.md, run as it stands there; by default with fewer seeds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kraft_trio.simulation import InvariantViolated
from tests.support import sizes

DOCUMENT = Path(__file__).parents[2] / "docs" / "SIMULATION.md"


def example() -> str:
    code = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert code is not None
    return code[1]


def test_it_is_of_thirty_lines_and_passes() -> None:
    lines = [line for line in example().splitlines() if line.strip()]
    assert len(lines) <= 32
    code = example()
    assert "range(20)" in code
    if not sizes.IS_ALL:
        code = code.replace("range(20)", "range(4)")
    exec(compile(code, str(DOCUMENT), "exec"), {"__name__": "example"})


def test_it_fails_for_a_state_machine_that_forgets_a_command() -> None:
    """What it is there for: the same test with a state machine that is wrong."""
    broken = example().replace("totals[node_id] += int(record.value)", "totals[node_id] = int(record.value)")
    names: dict[str, Any] = {"__name__": "example"}
    with pytest.raises(BaseException) as failure:  # the wait for the right total ends, in a group or by itself
        exec(compile(broken, str(DOCUMENT), "exec"), names)
    assert not isinstance(failure.value, InvariantViolated)
    assert "TooSlowError" in repr(failure.value)
