"""Fixtures of the tests of both checkers."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.linearizability.go_program import NotBuilt, build


@pytest.fixture(scope="session")
def porcupine() -> Path:
    try:
        return build(offline=True)
    except NotBuilt as reason:
        pytest.skip(f"not checked by porcupine: {reason}")
