"""Random faults of processes, their builds and their clocks."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from kraft_trio.simulation.faults.plan import MILLISECOND_US, MOST_DRIFT_PPM, SECOND_US, Timeline, fault
from kraft_trio.simulation.script.step import Step
from kraft_trio.simulation.script.steps import clock, election, membership, network, process, runs, strangers

RESIGNING: Final = 0.2
"""The share of the runs in which leaders resign, if process faults are selected."""
MOST_RESIGNATIONS: Final = 4
TRANSFERRING: Final = 0.2
"""The share of the runs in which the leadership is transferred, if process faults are selected."""
MOST_TRANSFERS: Final = 6
STRIKING: Final = 0.3
"""The share of the runs in which nodes are struck at actions of the specification, if process faults are selected."""
MOST_STRIKES: Final = 8
LONGEST_JUMP_US: Final = 30 * 86_400 * SECOND_US
"""How far a clock may be wrong."""


def down(timeline: Timeline, at_us: int, end: Callable[[int], Step], longest_us: int = 15 * SECOND_US) -> None:
    span_us = timeline.span_us(10 * MILLISECOND_US, longest_us)
    if (node := timeline.claim(at_us, span_us)) is not None:
        timeline.add(at_us, end(node))
        timeline.add(at_us + span_us, process.start((node,)))


@fault("process")
def kill(timeline: Timeline, at_us: int) -> None:
    down(timeline, at_us, lambda node: process.kill((node,)))


@fault("process")
def stop(timeline: Timeline, at_us: int) -> None:
    down(timeline, at_us, lambda node: process.stop((node,)))


@fault("process")
def restart(timeline: Timeline, at_us: int) -> None:
    if (node := timeline.claim(at_us, 0)) is not None:
        timeline.add(at_us, process.restart((node,)))


@fault("process")
def pause(timeline: Timeline, at_us: int) -> None:
    span_us = timeline.span_us(50 * MILLISECOND_US, 20 * SECOND_US)
    if (node := timeline.claim(at_us, span_us)) is not None:
        timeline.add(at_us, process.pause((node,)))
        timeline.add(at_us + span_us, process.resume((node,)))


@fault("process")
def pause_then_kill(timeline: Timeline, at_us: int) -> None:
    pause_us = timeline.span_us(50 * MILLISECOND_US, 10 * SECOND_US)
    down_us = timeline.span_us(10 * MILLISECOND_US, 5 * SECOND_US)
    if (node := timeline.claim(at_us, pause_us + down_us)) is not None:
        timeline.add(at_us, process.pause((node,)))
        timeline.add(at_us + pause_us, process.kill((node,)))
        timeline.add(at_us + pause_us + down_us, process.start((node,)))


@fault("process")
def kill_all(timeline: Timeline, at_us: int) -> None:
    everyone_down(timeline, at_us, process.kill)


def everyone_down(timeline: Timeline, at_us: int, end: Callable[[tuple[int, ...]], Step]) -> None:
    nodes = timeline.free(at_us)
    if not nodes:
        return
    timeline.add(at_us, end(tuple(nodes)))
    back_us = at_us
    for node in timeline.random.sample(nodes, len(nodes)):
        back_us += timeline.span_us(1 * MILLISECOND_US, 3 * SECOND_US)
        timeline.add(back_us, process.start((node,)))
        timeline.occupy(node, back_us)


@fault("process")
def strike_leader(timeline: Timeline, at_us: int) -> None:
    """Ends the node that leads when the time comes, which causes an election."""
    strike_for_a_while(timeline, at_us)


def strike_for_a_while(timeline: Timeline, at_us: int, *, mid_change: bool = False) -> None:
    everyone = timeline.node_ids
    blow = timeline.random.choice(("kill", "crash", "pause", "isolate", "stall"))
    ends = {"pause": process.resume(everyone), "isolate": network.heal(), "stall": network.heal()}
    timeline.add(at_us, runs.strike_leader(blow, mid_change=mid_change))
    timeline.add(at_us + timeline.span_us(50 * MILLISECOND_US, 15 * SECOND_US), ends.get(blow, process.start(everyone)))


@fault("process")
def campaign(timeline: Timeline, at_us: int) -> None:
    """A voter campaigns without asking for pre-votes, and so disrupts the quorum."""
    known = timeline.node_ids if timeline.changes_voters else timeline.header.voters
    voters = [node for node in known if node not in timeline.spoiled]
    timeline.add(at_us, election.campaign(timeline.random.choice(voters)))


def transfers(timeline: Timeline, source: random.Random) -> None:
    """In some runs, an administrator asks for another leader from time to time.  Other faults continue meanwhile."""
    if source.random() < TRANSFERRING:
        for _ in range(source.randint(1, MOST_TRANSFERS)):
            at_us = source.randrange(timeline.duration_us // MILLISECOND_US) * MILLISECOND_US
            timeline.add(
                at_us, membership.transfer(source.choice(timeline.node_ids), within_us=5 * SECOND_US, nowait=True)
            )


def resignations(timeline: Timeline, source: random.Random) -> None:
    """In some runs, the application on the leader has it resign from time to time.  Other faults continue meanwhile."""
    if source.random() < RESIGNING:
        for _ in range(source.randint(1, MOST_RESIGNATIONS)):
            timeline.add(source.randrange(timeline.duration_us // MILLISECOND_US) * MILLISECOND_US, election.resign())


def strikes_at_actions(timeline: Timeline, source: random.Random) -> None:
    """In some runs, nodes are struck when they take some action.  So any two actions can be neighbours."""
    if source.random() >= STRIKING:
        return
    everyone = timeline.node_ids
    for _ in range(source.randint(1, MOST_STRIKES)):
        at_us = source.randrange(timeline.duration_us // MILLISECOND_US) * MILLISECOND_US
        answer = source.choice(tuple(runs.ANSWERS))
        timeline.add(at_us, runs.strike_at(source.choice(runs.STRUCK), answer))
        if answer in runs.BLOWS:
            is_cut = answer in ("isolate", "stall", "mute")
            end = (
                network.heal() if is_cut else process.resume(everyone) if answer == "pause" else process.start(everyone)
            )
            timeline.add(at_us + source.randrange(100 * MILLISECOND_US, 10 * SECOND_US, MILLISECOND_US), end)


@fault("versions", min_nodes=2)
def mixed_versions(timeline: Timeline, at_us: int) -> None:
    nodes = timeline.split()[0]
    timeline.add(at_us, strangers.older(nodes))
    timeline.add(at_us + timeline.span_us(1 * SECOND_US, 60 * SECOND_US), strangers.newer(nodes))


# Time


@fault("time")
def drift(timeline: Timeline, at_us: int) -> None:
    if (node := timeline.claim(at_us, 0)) is not None:
        timeline.add(at_us, clock.drift(node, timeline.random.randrange(-MOST_DRIFT_PPM, MOST_DRIFT_PPM + 1, 1000)))
        timeline.add(at_us, process.restart((node,)))


def drifting_clocks(timeline: Timeline, source: random.Random) -> None:
    """All clocks run at paces of their own from the beginning."""
    for node in timeline.node_ids:
        timeline.add(0, clock.drift(node, source.randrange(-MOST_DRIFT_PPM, MOST_DRIFT_PPM + 1, 1000)))
    timeline.add(0, process.restart(timeline.node_ids))


@fault("time")
def jump_clock(timeline: Timeline, at_us: int) -> None:
    """The clocks of some nodes, or of all, jump together, and are put right later."""
    there, back = timeline.random.choice((("forward", "back"), ("back", "forward")))
    span_us = timeline.span_us(1 * MILLISECOND_US, LONGEST_JUMP_US)
    nodes = timeline.random.sample(timeline.node_ids, timeline.random.randint(1, len(timeline.node_ids)))
    until_us = at_us + timeline.span_us(1 * SECOND_US, 60 * SECOND_US)
    for node in nodes:
        timeline.add(at_us, clock.jump_clock(node, there, span_us))
        timeline.add(until_us, clock.jump_clock(node, back, span_us))
