"""A fault that was asked for and never had an effect makes a run fail."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner

from scripts.linearizability.__main__ import main
from scripts.linearizability.clients import Recorder
from scripts.linearizability.clocks import Clocks
from scripts.linearizability.fault_kinds import FAULTS
from scripts.linearizability.faults import TRIES, Faults, NoEffect
from scripts.linearizability.proxy import PeerProxy


async def answer(recorder: Recorder) -> None:
    while True:
        recorder.add("c", "execute", ["get", "x"], {"outcome": "ok", "result": None}, recorder.event())
        await trio.lowlevel.checkpoint()


def faults_without_nodes(folder: Path) -> Faults:
    members: Any = None
    return Faults(members, Recorder(), PeerProxy({}), Clocks.create(folder, ()), random.Random(1))


async def test_fault_without_an_effect_happens_again(tmp_path: Path) -> None:
    faults = faults_without_nodes(tmp_path)
    effects = iter([False, False, True])

    async def lose_luck(_faults: Faults) -> bool:
        return next(effects)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer, faults.recorder)
        await faults.cause_all([lose_luck])
        nursery.cancel_scope.cancel()
    assert faults.caused == {"lose-luck": 3}
    assert faults.effective == {"lose-luck": 1}


async def test_fault_that_never_has_an_effect_fails_the_run(tmp_path: Path) -> None:
    faults = faults_without_nodes(tmp_path)

    async def do_nothing(_faults: Faults) -> bool:
        return False

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer, faults.recorder)
        with pytest.raises(NoEffect, match="do-nothing: no effect in"):
            await faults.cause_all([do_nothing])
        nursery.cancel_scope.cancel()
    assert faults.caused == {"do-nothing": TRIES}


def test_unknown_fault_is_refused_by_name() -> None:
    refused = CliRunner().invoke(main, ["--fault", "flood"])
    assert refused.exit_code == 2
    assert "'flood' is not one of" in refused.output
    assert all(name in refused.output for name in FAULTS)
