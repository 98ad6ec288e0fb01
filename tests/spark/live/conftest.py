"""Quorums of real processes, for the tests of what Spark reads from and writes to them."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import make_module_quorum, make_quorum
from tests.interop.conftest import controllers

__all__ = ["controllers", "make_module_quorum", "make_quorum"]


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.acceptance)
