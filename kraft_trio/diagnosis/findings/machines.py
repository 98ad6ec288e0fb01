"""What is wrong on one machine: its directory, its disk, its address, its certificates, its state machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraft_trio.diagnosis.finding import START, Finding, Severity, capitalized, joined, room_text, with_file
from kraft_trio.diagnosis.findings.connecting import REFUSED
from kraft_trio.diagnosis.quorum_situation import Claim, Situation

LITTLE_BYTES: Final = 256 * 1024 * 1024
"""A disk with less left is reported."""
DAY_MS: Final = 24 * 3600 * 1000
SOON_DAYS: Final = 30
"""A certificate that expires within so many days is worth a note, and one within URGENT_DAYS a warning."""
URGENT_DAYS: Final = 7
CLOCKS_APART_MS: Final = 10_000
"""A clock that is further from the others is reported.  An answer takes half of that at most."""
_CLOCK_ADVICE: Final = (
    "Set it right: times of records, certificates and Kerberos tickets go by it. No vote and no commit does."
)


def stopped_state_machines(situation: Situation) -> Iterator[Finding]:
    """One finding for each reason.  All nodes stop at the same record."""
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
    """A node of ours looks itself.  A controller of Kafka's answers where it was asked, and is named elsewhere."""
    for claim in situation.answers:
        if claim.dead_address is not None:
            text = (
                f"Nobody listens at {claim.dead_address}, which {claim.name} announces: correct `advertised.listeners` "
                "in its file, and restart it. Until then, the others ask it where the voter set has it."
            )
            yield Finding(Severity.WARNING, "dead-address", text)
    nameless = [claim.name for claim in situation.answers if claim.node_id is None and not claim.is_broker]
    for voter in situation.report.voters if situation.report is not None and nameless else ():
        named = situation.claim_of(voter.id)
        if named is not None and voter.health.is_up and REFUSED in (named.problem or "").lower():
            text = (
                f"Nobody listens at {named.endpoint}, where node {voter.id} is said to listen, but the leader hears "
                f"it. Nobody names {joined(nameless)}: if that is node {voter.id}, correct `advertised.listeners` in "
                "its file, and restart it."
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
        yield Finding(
            Severity.WARNING,
            "little-room",
            text,
            None if claim.problem is None else with_file(START, situation, claim.node_id),
        )


def certificates(situation: Situation) -> Iterator[Finding]:
    """The certificates that have expired, or soon will, the oldest first."""
    told = [(claim.certificate_expires_ms, claim) for claim in situation.claims]
    dated = [(expires_ms, claim) for expires_ms, claim in told if expires_ms is not None]
    for expires_ms, claim in sorted(dated, key=lambda one: one[0]):
        days = None if situation.now_ms is None else (expires_ms - situation.now_ms) // DAY_MS
        if days is None or days >= SOON_DAYS:
            continue
        when = "has expired: connections fail" if days < 0 else f"expires in {days} {'day' if days == 1 else 'days'}"
        text = f"A certificate of {claim.name} {when}. Replace its files; the node reloads them while it runs."
        yield Finding(Severity.NOTE if days >= URGENT_DAYS else Severity.WARNING, "certificate", text)


def is_little_room(claim: Claim) -> bool:
    """Whether the node's disk is about to be full, or was when it last answered."""
    return claim.free_bytes is not None and claim.free_bytes < LITTLE_BYTES


def clocks(situation: Situation) -> Iterator[Finding]:
    """Clocks are compared with that in the middle.  Of two alone, nobody knows which is right."""
    told = [(claim.clock_offset_ms, claim.name) for claim in situation.answers if claim.clock_offset_ms is not None]
    if situation.clock_offset_ms is not None:
        told.append((situation.clock_offset_ms, "this machine"))
    ordered = sorted(told)
    if len(ordered) == 2 and ordered[1][0] - ordered[0][0] > CLOCKS_APART_MS:
        apart = duration_text(ordered[1][0] - ordered[0][0])
        text = f"The clocks of {ordered[0][1]} and {ordered[1][1]} are {apart} apart. {_CLOCK_ADVICE}"
        yield Finding(Severity.WARNING, "clock", text)
    middle = ordered[len(ordered) // 2][0] if len(ordered) > 2 else 0
    for offset, name in told if len(ordered) > 2 else ():
        if abs(offset - middle) > CLOCKS_APART_MS:
            where = "ahead of" if offset > middle else "behind"
            text = f"The clock of {name} is {duration_text(abs(offset - middle))} {where} the others. {_CLOCK_ADVICE}"
            yield Finding(Severity.WARNING, "clock", text)


def duration_text(duration_ms: int) -> str:
    """In the largest unit of which there are two."""
    for unit_ms, unit in ((DAY_MS, "days"), (3_600_000, "hours"), (60_000, "minutes")):
        if duration_ms >= 2 * unit_ms:
            return f"{round(duration_ms / unit_ms)} {unit}"
    return f"{round(duration_ms / 1000)} seconds"


def full_stores(situation: Situation) -> Iterator[Finding]:
    """All replicas say the same of the state that they share, so one finding is enough."""
    full = [claim for claim in situation.answers if claim.store_problem is not None]
    if full:
        text = (
            f"The key-value store takes no more keys, says {full[0].name}: {full[0].store_problem}. Delete keys and "
            "compact, or set a higher kraft.kv.quota.bytes on all nodes. Then disarm: `kraft kv alarm disarm`."
        )
        yield Finding(Severity.CRITICAL, "store-full", text)


def unresolved_names(situation: Situation) -> Iterator[Finding]:
    """Hosts whose names this machine, or a node, does not resolve."""
    here = {claim.endpoint.rpartition(":")[0] for claim in situation.claims if _is_unresolved(claim.problem)}
    if here:
        many = len(here) > 1
        text = (
            f"{'The names' if many else 'The name'} {joined(sorted(here))} {'are' if many else 'is'} not resolved on "
            f"this machine. Correct the name service or /etc/hosts: the {'nodes' if many else 'node'} may well run. "
            "Nodes ask again themselves, within ten seconds, and need no restart."
        )
        yield Finding(Severity.WARNING, "unresolved-name", text)
    for claim in situation.answers:
        if _is_unresolved(claim.fetch_problem):
            text = f"{capitalized(claim.name)} does not resolve a name that it needs: {claim.fetch_problem}."
            yield Finding(Severity.WARNING, "unresolved-name", text)


def _is_unresolved(problem: str | None) -> bool:
    return problem is not None and "is not resolved" in problem
