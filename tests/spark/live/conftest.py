"""Quorums of real processes, for the tests of what Spark reads from and writes to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.conftest import controllers, make_module_quorum, make_quorum

__all__ = ["controllers", "make_module_quorum", "make_quorum"]

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.acceptance)
