"""Plays one attack while a client writes, and compares the effects with the bounds."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from harness.waiting import Overdue, wait_until
from scripts.attacks.arena import HANG_S, Arena
from scripts.attacks.gauges import Gauge
from scripts.attacks.quorum import AttackedQuorum
from scripts.attacks.writer import Writer, lost_records
from scripts.common.verdict import Verdict

MAX_STALL_S = 0.1
MAX_SILENCE_S = 1.0
SHORT_SILENCE_S = 10.0
"""Of short attacks, which tests run while the machine has other work: a machine may pause a node for seconds."""
MAX_MEMORY_MIB = 256
COMMITS_AFTERWARDS = 20
PLAY_S = 150.0


def judge(attack: str, module: ModuleType, quorum: AttackedQuorum, *, is_short: bool) -> Verdict:
    """Play the attack on a running quorum that has a leader."""
    leader, before = quorum.described_by_leader()
    with Writer(quorum) as writer:
        wait_until("the writer writes", lambda: len(writer.acknowledged) >= COMMITS_AFTERWARDS, HANG_S)
        arena = Arena(quorum, leader, before.leader_epoch, writer, is_short)
        gauges = [Gauge(node).start() for node in arena.nodes]
        broken = [*_play(module, arena)]
        broken += _committed_afterwards(writer)
        for gauge in gauges:
            gauge.stop()
            broken += gauge.complaints()
    stall = max(gauge.longest_turn_s for gauge in gauges)
    silence = max(gauge.longest_silence_s for gauge in gauges)
    peak = max(gauge.peak_mib for gauge in gauges)
    elections, complaints = _aftermath(arena, writer)
    broken += complaints
    if stall > MAX_STALL_S:
        broken.append(f"a loop was busy for {stall * 1000:.0f} ms")
    if silence > (SHORT_SILENCE_S if is_short else MAX_SILENCE_S):
        broken.append(f"a node took {silence:.1f} s for an answer")
    if peak > MAX_MEMORY_MIB:
        broken.append(f"a node took {peak:.0f} MiB")
    figures = {
        "frames": f"{arena.sent.frames:,}",
        "bytes": f"{arena.sent.bytes:,}",
        "worst stall": f"{stall * 1000:,.0f} ms",
        "silence": f"{silence * 1000:,.0f} ms",
        "peak RSS": f"{peak:,.0f} MiB",
        "elections": str(elections),
        "commits": str(len(writer.acknowledged)),
    }
    return Verdict(attack, figures, tuple(broken), held="withstood")


def _play(module: ModuleType, arena: Arena) -> Iterator[str]:
    failures: list[str] = []

    def play() -> None:
        try:
            module.play(arena)
        except Exception as error:
            traceback.print_exc()
            failures.append((str(error) or repr(error)).splitlines()[0])

    thread = threading.Thread(target=play, name="attack", daemon=True)
    thread.start()
    sent_before = -1
    while thread.is_alive() and arena.sent.frames > sent_before:
        sent_before = arena.sent.frames
        thread.join(PLAY_S)
    if thread.is_alive():
        yield f"the attack has sent nothing for {PLAY_S:.0f} s and has not ended"
    yield from failures


def _committed_afterwards(writer: Writer) -> Iterator[str]:
    """Nothing, if commits continue."""
    wanted = len(writer.acknowledged) + COMMITS_AFTERWARDS
    try:
        wait_until("commits go on", lambda: len(writer.acknowledged) >= wanted, HANG_S)
    except Overdue:
        yield f"nothing was committed for {HANG_S:.0f} s ({writer.complaint})"


def _aftermath(arena: Arena, writer: Writer) -> tuple[int, list[str]]:
    """How many elections there were, and what is no longer as it was before."""
    complaints = []
    for node in arena.nodes:
        if not node.running:
            complaints.append(f"node {node.id} ended with code {node.exit_code}")
    try:
        leader, after = arena.quorum.described_by_leader()
    except Overdue:
        return 1, [*complaints, "no leader"]
    elections = after.leader_epoch - arena.epoch
    if (leader, elections) != (arena.leader, 0):
        complaints.append(
            f"node {leader.id} leads in epoch {after.leader_epoch}, not {arena.leader.id} in {arena.epoch}"
        )
    with _reported(complaints):
        if lost := lost_records(arena.quorum, leader.id, writer.acknowledged):
            complaints.append(f"{lost} acknowledged records are lost")
    return elections, complaints


@contextmanager
def _reported(complaints: list[str]) -> Iterator[None]:
    try:
        yield
    except (OSError, AssertionError) as error:
        complaints.append(f"the records cannot be read back: {error!r}")
