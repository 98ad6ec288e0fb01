"""The gate `scripts/attack`: what it plays, and that it sees what it is to see."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from scripts.attacks import ATTACKS
from scripts.attacks.arena import Arena
from scripts.attacks.judge import judge
from scripts.attacks.quorum import AttackedQuorum
from scripts.common.verdict import table
from tests.support import sizes
from tests.support.programs import REPOSITORY


def test_every_attack_is_listed_with_its_first_line() -> None:
    command = [sys.executable, "-m", "scripts.attacks", "--list"]
    listing = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    names = {path.stem for path in (REPOSITORY / "scripts" / "attacks").glob("*.py")}
    modules = {name: importlib.import_module(f"scripts.attacks.{name}") for name in names - {"__main__"}}
    assert {name for name, module in modules.items() if hasattr(module, "play")} == {
        attack.replace("-", "_") for attack in ATTACKS
    }
    for attack in ATTACKS:
        assert f"{(modules[attack.replace('-', '_')].__doc__ or '').splitlines()[0]}\n" in listing


def test_the_gate_sees_a_dead_node_and_a_new_leader(tmp_path: Path) -> None:
    attack = ModuleType("an attack that succeeds")

    def play(arena: Arena) -> None:
        arena.leader.kill()

    attack.play = play  # type: ignore[attr-defined]
    quorum = AttackedQuorum(tmp_path, {}, is_patient=True)
    try:
        quorum.start()
        leader, described = quorum.described_by_leader()
        verdict = judge("kill", attack, quorum, is_short=True)
    finally:
        quorum.kill_all()
    assert int(verdict.figures["elections"]) > 0
    ended, moved = verdict.broken
    assert ended == f"node {leader.id} ended with code -9"
    assert moved.endswith(f"not {leader.id} in {described.leader_epoch}")
    assert ended in table("attack", [verdict])


def test_the_quorum_withstands_attacks() -> None:
    """In short form, one of them by default; `scripts/attack` sends more of the same."""
    command = [sys.executable, "-m", "scripts.attacks", "--short", *sizes.part(ATTACKS, len(ATTACKS))]
    played = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert played.returncode == 0, played.stdout + played.stderr
