"""What `benchmarks/run anatomy` counts."""

from __future__ import annotations

import shutil

import pytest
import trio

from benchmarks.loads import anatomy
from kraft_trio.wire.api import METADATA
from kraft_trio.wire.apis.metadata import MetadataRequest
from kraft_trio.wire.codec import encode_request


def test_counts_are_those_of_one_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)

    async def run(number: int) -> None:
        for _ in range(number):
            encode_request(METADATA, 12, 0, None, MetadataRequest())
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()

    counted = trio.run(anatomy.count, run, 10)
    assert counted["rounds of the scheduler"] == counted["steps of tasks"] == 2
    assert counted["messages encoded"] == 1
    assert counted["calls: kraft_trio.wire"] > 1
    assert counted["calls: Trio"] > 2
    assert not [name for name in counted if name.startswith("system calls")]
