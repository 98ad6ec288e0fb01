"""What is wrong on one machine: its directory, its disk, its address, its certificates, its state machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraft_trio.protocol.finding import START, Finding, Severity, capitalized, room_text
from kraft_trio.protocol.quorum_situation import Claim, Situation

LITTLE_BYTES: Final = 256 * 1024 * 1024
"""A disk with less left is reported."""
DAY_MS: Final = 24 * 3600 * 1000
SOON_DAYS: Final = 30
"""A certificate that expires within so many days is worth a note, and one within URGENT_DAYS a warning."""
URGENT_DAYS: Final = 7


def stopped_state_machines(situation: Situation) -> Iterator[Finding]:
    """One for each reason.  All nodes stop at the same record."""
    stopped: dict[str, list[Claim]] = {}
    for claim in situation.answers:
        if claim.state_machine_problem is not None:
            stopped.setdefault(claim.state_machine_problem, []).append(claim)
    for problem, claims in stopped.items():
        names = ", ".join(claim.name for claim in claims)
        verb = "goes" if len(claims) == 1 else "go"
        text = (
            f"The state machine has stopped on {names}, which {verb} on replicating and voting: {problem}. If a newer "
            "version of the application decodes the record, start that. If none does, name its offset in "
            "kraft.state.machine.skip.offsets on all nodes, and restart them."
        )
        yield Finding(Severity.CRITICAL, "stopped-state-machine", text)


def directories(situation: Situation) -> Iterator[Finding]:
    """What was found on this machine of a node that does not answer."""
    for claim in situation.claims:
        if claim.directory_problem is not None:
            text = f"{capitalized(claim.name)} does not answer. Found on this machine: {claim.directory_problem}"
            yield Finding(Severity.WARNING, "directory", text)


def dead_addresses(situation: Situation) -> Iterator[Finding]:
    for claim in situation.answers:
        if claim.dead_address is not None:
            text = (
                f"Nobody listens at {claim.dead_address}, which {claim.name} announces: correct `advertised.listeners` "
                "in its file, and restart it. Until then, the others ask it where the voter set has it."
            )
            yield Finding(Severity.WARNING, "dead-address", text)


def little_room(situation: Situation) -> Iterator[Finding]:
    """The fullest disk first."""
    little = [(claim.free_bytes, claim) for claim in situation.claims if claim.free_bytes is not None]
    for free_bytes, claim in sorted(little, key=lambda one: one[0]):
        if not is_little_room(claim):
            continue
        room = room_text(free_bytes)
        if claim.problem is None:
            text = f"The disk of {claim.name} has {room} left. A node whose disk is full ends. Make room."
        else:
            text = (
                f"The disk of {claim.name} had {room} left when it last answered. A node whose disk is full ends: make "
                "room, and start it."
            )
        yield Finding(Severity.WARNING, "little-room", text, None if claim.problem is None else START)


def certificates(situation: Situation) -> Iterator[Finding]:
    """Those that have expired, or soon do, the oldest first."""
    told = [(claim.certificate_expires_ms, claim) for claim in situation.claims]
    dated = [(expires_ms, claim) for expires_ms, claim in told if expires_ms is not None]
    for expires_ms, claim in sorted(dated, key=lambda one: one[0]):
        days = None if situation.now_ms is None else (expires_ms - situation.now_ms) // DAY_MS
        if days is None or days >= SOON_DAYS:
            continue
        when = "has expired: connections fail" if days < 0 else f"expires in {days} {'day' if days == 1 else 'days'}"
        text = f"A certificate of {claim.name} {when}. Replace its files; the node takes over new ones while it runs."
        yield Finding(Severity.NOTE if days >= URGENT_DAYS else Severity.WARNING, "certificate", text)


def is_little_room(claim: Claim) -> bool:
    """Whether the node's disk is about to be full, or was when it last answered."""
    return claim.free_bytes is not None and claim.free_bytes < LITTLE_BYTES
