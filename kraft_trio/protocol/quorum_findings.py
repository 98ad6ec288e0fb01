"""What is wrong with a quorum, and what to do, concluded from what each of its nodes claims.

The nodes are asked from one place.  A node that does not answer there may well be heard by the others.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator
from typing import Final
from uuid import UUID

import attrs

from kraft_trio.protocol.replica_health import Health, ReplicaHealth
from kraft_trio.protocol.survival import Survival, survival_of
from kraft_trio.protocol.types import NO_DIRECTORY_ID, OffsetAndEpoch, directory_id_to_text
from kraft_trio.protocol.voter_set import majority_of

LITTLE_BYTES: Final = 256 * 1024 * 1024
"""A disk with less left is reported."""
QUORUM: Final = "kraft metadata-quorum --bootstrap-controller {} "
START: Final = "kraft server start -c FILE"
DESCRIBE: Final = QUORUM + "explain"


@attrs.frozen
class Claim:
    """What one node says of itself.  None stands for what it does not say."""

    endpoint: str
    problem: str | None = None
    """Why the node did not answer; None if it did."""
    node_id: int | None = None
    cluster_id: str | None = None
    epoch: int | None = None
    leader_id: int | None = None
    voter_ids: tuple[int, ...] | None = None
    log_end: OffsetAndEpoch | None = None
    high_watermark: int | None = None
    denial: str | None = None
    """The principal to whom the node denied DESCRIBE, or None."""
    reported_end: int | None = None
    """The end of its log (exclusive) as the leader describes it, if the node itself does not tell."""
    reported_high_watermark: int | None = None
    """The same of the leader's high watermark."""
    directory_id: UUID | None = None
    free_bytes: int | None = None
    """What its disk has left; of a node with a problem, what it said last."""

    @property
    def name(self) -> str:
        return f"the node at {self.endpoint}" if self.node_id is None else f"node {self.node_id}"


@attrs.frozen
class VoterReport:
    """A voter as the leader sees it."""

    id: int
    health: ReplicaHealth
    directory_id: UUID | None = None


@attrs.frozen
class LeaderReport:
    """The quorum as its leader describes it.  The committed voters are empty if no voter change is uncommitted."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[VoterReport, ...]
    committed_voter_ids: tuple[int, ...] = ()
    target_voter_ids: tuple[int, ...] = ()
    reassignment_status: str | None = None

    @property
    def voter_ids(self) -> tuple[int, ...]:
        return tuple(sorted(voter.id for voter in self.voters))


@attrs.frozen
class Situation:
    """What was found out.  The report is that of the leader with the highest epoch."""

    claims: tuple[Claim, ...]
    report: LeaderReport | None = None

    @property
    def answers(self) -> tuple[Claim, ...]:
        return tuple(claim for claim in self.claims if claim.problem is None)

    @property
    def epoch(self) -> int:
        """The highest epoch that is claimed; -1 if none is."""
        known = [claim.epoch for claim in self.answers if claim.epoch is not None]
        return max([*known, -1 if self.report is None else self.report.epoch], default=-1)

    @property
    def voter_ids(self) -> tuple[int, ...]:
        """The leader's voters, or those of the node with the longest log; empty if no node tells them."""
        if self.report is not None:
            return self.report.voter_ids
        told = [claim for claim in self.answers if claim.voter_ids]
        newest = max(told, key=lambda claim: (_end_of(claim), claim.epoch or 0), default=None)
        return () if newest is None else tuple(sorted(newest.voter_ids or ()))

    @property
    def leader_id(self) -> int | None:
        """The leader of the highest epoch, if anybody names it."""
        if self.report is not None and self.report.epoch == self.epoch:
            return self.report.leader_id
        named = (claim.leader_id for claim in self.answers if claim.epoch == self.epoch)
        return next((leader_id for leader_id in named if leader_id is not None), None)


def survivals(situation: Situation) -> tuple[Survival, ...]:
    """What the voter set survives now; while a voter change is not committed, first that set, then the one before.

    Without a leader, whoever answers counts as up.  Empty if nobody tells the voters.
    """
    if situation.report is None:
        up = [claim.node_id for claim in situation.answers if claim.node_id is not None]
        return (survival_of(situation.voter_ids, up),) if situation.voter_ids else ()
    report = situation.report
    up = [voter.id for voter in report.voters if voter.health.is_up]
    before = (survival_of(report.committed_voter_ids, up),) if report.committed_voter_ids else ()
    return (survival_of(report.voter_ids, up), *before)


class Severity(enum.Enum):
    """How much a finding matters."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    CRITICAL = "critical"


@attrs.frozen
class Finding:
    """One conclusion, with the command to copy if there is one."""

    severity: Severity
    code: str
    text: str
    command: str | None = None


def contradictions(situation: Situation, claim: Claim) -> frozenset[str]:
    """In which of "epoch", "leader" and "voters" a node contradicts what holds in the highest epoch."""
    if claim.problem is not None:
        return frozenset()
    found = set()
    if claim.epoch is not None and claim.epoch != situation.epoch:
        found.add("epoch")
    if claim.leader_id != situation.leader_id and (claim.epoch is not None or situation.leader_id is not None):
        found.add("leader")
    if claim.voter_ids is not None and tuple(sorted(claim.voter_ids)) != situation.voter_ids:
        found.add("voters")
    return frozenset(found)


def findings(situation: Situation) -> tuple[Finding, ...]:
    """The most severe first."""
    if not situation.answers:
        told = "; ".join(f"{claim.endpoint}: {claim.problem}" for claim in situation.claims)
        text = f"None of the nodes asked answers ({told}). Start them, or ask others."
        return (Finding(Severity.CRITICAL, "no-answer", text, START),)
    found = [*_of_claims(situation), *_of_denials(situation), *_of_nodes(situation)]
    if situation.report is None:
        found += _without_leader(situation)
    else:
        found += _with_leader(situation, situation.report)
    order = list(Severity)
    return tuple(sorted(found, key=lambda finding: -order.index(finding.severity)))


def _of_claims(situation: Situation) -> Iterator[Finding]:
    clusters = {claim.cluster_id for claim in situation.answers if claim.cluster_id is not None}
    if len(clusters) > 1:
        told = ", ".join(f"{claim.name} to {claim.cluster_id}" for claim in situation.answers if claim.cluster_id)
        yield Finding(Severity.CRITICAL, "clusters", f"The nodes belong to different clusters: {told}.")
    for epoch in sorted({claim.epoch for claim in situation.answers if claim.epoch is not None}):
        named = {claim.leader_id for claim in situation.answers if claim.epoch == epoch} - {None}
        if len(named) > 1:
            text = f"Nodes {_ids(named)} are both named as leader of epoch {epoch}. Stop writing, and report this."
            yield Finding(Severity.CRITICAL, "two-leaders", text)
    newest = [claim.name for claim in situation.answers if claim.epoch == situation.epoch]
    for claim in situation.answers:
        if claim.epoch is None or claim.epoch == situation.epoch:
            continue
        leader = "knows no leader" if claim.leader_id is None else f"names node {claim.leader_id} as leader"
        others = _list(newest) or "the leader"
        text = (
            f"{_capital(claim.name)} is in epoch {claim.epoch} and {leader}; the newest epoch is {situation.epoch} "
            f"({others}). "
            "It does not hear them, or they do not hear it: check the network between them."
        )
        yield Finding(Severity.WARNING, "other-epoch", text)


def _of_denials(situation: Situation) -> Iterator[Finding]:
    denying = [claim for claim in situation.answers if claim.denial is not None]
    if not denying:
        return
    named = _list([claim.name for claim in denying])
    principals = _list(sorted({claim.denial for claim in denying if claim.denial is not None}))
    text = (
        f"{_capital(named)} {'runs' if len(denying) == 1 else 'run'}, but {'denies' if len(denying) == 1 else 'deny'} "
        f"DESCRIBE to {principals}. Allow it on the cluster, or ask as somebody else (`--command-config`)."
    )
    yield Finding(Severity.WARNING if situation.report else Severity.CRITICAL, "denied", text)


def _of_nodes(situation: Situation) -> Iterator[Finding]:
    """Nodes that are not the voters they seem to be, and disks that are about to be full."""
    voters = situation.voter_ids
    directories = {} if situation.report is None else {one.id: one.directory_id for one in situation.report.voters}
    for claim in situation.claims:
        if claim.free_bytes is not None and claim.free_bytes < LITTLE_BYTES:
            yield _little_room(claim, claim.free_bytes)
        if claim.problem is not None or claim.node_id is None or not voters:
            continue
        own, known = claim.directory_id, directories.get(claim.node_id)
        if claim.node_id not in voters:
            if claim.node_id not in (claim.voter_ids or ()):
                continue
            text = f"Node {claim.node_id} was removed, and does not know it: the voters are {_ids(voters)}."
            yield Finding(Severity.WARNING, "removed", text)
            continue
        if own is not None and known is not None and own != known and NO_DIRECTORY_ID not in (own, known):
            text = (
                f"Node {claim.node_id} runs with directory id {directory_id_to_text(own)}, but voter {claim.node_id} "
                f"has {directory_id_to_text(known)}: the node has a blank or another disk, so it does not vote. Mount "
                "the voter's disk; if that is lost, replace the voter."
            )
            command = QUORUM.format(_asking(situation)) + f"replace -i {claim.node_id}"
            yield Finding(Severity.WARNING, "other-directory", text, command)
    observers = [claim.node_id for claim in situation.answers if claim.node_id not in (*voters, None)]
    if voters and observers:
        text = f"Not voters: {_ids(observers)}. If these nodes fail, the quorum goes on."
        yield Finding(Severity.NOTE, "observers", text)


def _little_room(claim: Claim, free_bytes: int) -> Finding:
    room = f"{free_bytes / 1024**2:.0f} MiB"
    if claim.problem is None:
        text = f"The disk of {claim.name} has {room} left. A node whose disk is full ends. Make room."
    else:
        text = (
            f"The disk of {claim.name} had {room} left when it last answered. A node whose disk is full ends: make "
            "room, and start it."
        )
    return Finding(Severity.WARNING, "little-room", text, None if claim.problem is None else START)


def _with_leader(situation: Situation, report: LeaderReport) -> Iterator[Finding]:
    up = [voter.id for voter in report.voters if voter.health.is_up]
    yield _survival("", "survival", report.voter_ids, up)
    for voter in report.voters:
        if not voter.health.is_up:
            advice = ""
            if voter.health.status is Health.OFFLINE:
                advice = (
                    f" Start it; if its disk is lost, replace it (`kraft metadata-quorum … replace -i {voter.id}`)."
                )
            text = f"Voter {voter.id} is {voter.health.status.value}: {voter.health.reason}.{advice}"
            yield Finding(Severity.WARNING, "voter-behind", text, START if advice else None)
    for claim in situation.claims:
        if claim.problem is not None and claim.node_id in up:
            text = f"Node {claim.node_id} does not answer here ({claim.problem}), but the leader hears it."
            yield Finding(Severity.NOTE, "not-reached", text)
    if report.high_watermark < 0:
        text = f"Nothing has been committed in epoch {report.epoch} yet. A majority must fetch from the leader."
        yield Finding(Severity.WARNING, "no-commit", text)
    if report.committed_voter_ids:
        change = f"A voter change is not committed: {_ids(report.voter_ids)} after {_ids(report.committed_voter_ids)}."
        needed = f"It needs a majority of {_ids(report.voter_ids)}, and no other change can begin until then."
        describe = QUORUM.format(_asking(situation)) + "describe --status"
        yield Finding(Severity.WARNING, "pending-change", f"{change} {needed}", describe)
        yield _survival("If the change is undone: ", "survival-before", report.committed_voter_ids, up)
    if report.target_voter_ids:
        status = report.reassignment_status or "under way"
        text = f"The voters are being reassigned to {_ids(report.target_voter_ids)}: {status}."
        cancel = QUORUM.format(_asking(situation)) + "reassign --cancel"
        yield Finding(Severity.NOTE, "reassignment", text, cancel)


def _survival(prefix: str, code: str, voter_ids: Collection[int], up: Iterable[int]) -> Finding:
    survival = survival_of(voter_ids, up)
    spare = survival.spare
    counts = f"{len(survival.up_ids)} of {len(voter_ids)} voters are up, and {survival.majority} are needed"
    if spare < 0:
        return Finding(Severity.CRITICAL, code, f"{prefix}Nothing can be committed: {counts}.", START)
    if spare == 0:
        text = f"{prefix}The quorum survives no more failure now: {counts}."
        return Finding(Severity.WARNING if len(voter_ids) > 2 else Severity.NOTE, code, text)
    failures = "1 more failure" if spare == 1 else f"{spare} more failures"
    return Finding(Severity.OK, code, f"{prefix}The quorum survives {failures} now: {counts}.")


def _without_leader(situation: Situation) -> Iterator[Finding]:
    again = DESCRIBE.format(_asking(situation))
    voters = situation.voter_ids
    denying = [claim for claim in situation.answers if claim.denial is not None]
    if not voters and denying:
        return
    if not voters:
        naming = [claim for claim in situation.answers if claim.leader_id is not None]
        named = _list([f"{claim.name} names node {claim.leader_id}" for claim in naming])
        text = (
            f"No leader answers{f' ({named})' if named else ''}, and no node tells who the voters are. "
            "Ask the voters themselves."
        )
        yield Finding(Severity.CRITICAL, "no-leader", text)
        return
    answering = [claim for claim in situation.answers if claim.node_id in voters]
    silent = [voter_id for voter_id in voters if voter_id not in {claim.node_id for claim in answering}]
    majority = majority_of(len(voters))
    if len(answering) < majority:
        reasons = _list([_silent(situation, voter_id) for voter_id in silent])
        text = (
            f"No leader: {majority} of the voters {_ids(voters)} are needed, and {len(answering)} can be reached. "
            f"Silent: {reasons}. Start {majority - len(answering)} of them. Only if their disks are lost for good, "
            "recover one replica (`kraft storage recover`)."
        )
        yield Finding(Severity.CRITICAL, "no-majority", text, START)
    yield from _followed(situation, answering, silent, majority)
    if len(answering) >= majority and not denying:  # Those who deny might lead.
        yield from _refusals(answering, majority, again)


def _silent(situation: Situation, voter_id: int) -> str:
    claim = next((claim for claim in situation.claims if claim.node_id == voter_id), None)
    return f"{voter_id} (nobody tells its address)" if claim is None else f"{voter_id} ({claim.problem})"


def _followed(
    situation: Situation, answering: Collection[Claim], silent: Collection[int], majority: int
) -> Iterator[Finding]:
    """A leader that voters follow, but that does not answer as leader here."""
    leader_id = situation.leader_id
    if leader_id is None:
        return
    following = [claim.node_id for claim in answering if (claim.epoch, claim.leader_id) == (situation.epoch, leader_id)]
    followers = _ids(voter_id for voter_id in following if voter_id != leader_id)
    if leader_id in silent and len(following) + 1 >= majority:
        text = (
            f"Voters {followers} follow node {leader_id} in epoch {situation.epoch}, which does not answer here. "
            "Either it has just ended, and they elect another within the fetch timeout; or this machine alone cannot "
            "reach it."
        )
        yield Finding(Severity.WARNING, "leader-not-reached", text)
    elif followers:
        text = (
            f"Voters {followers} follow node {leader_id}, which does not answer as leader. They refuse pre-votes until "
            "their fetch timeout is over."
        )
        yield Finding(Severity.NOTE, "still-following", text)


def _refusals(answering: Collection[Claim], majority: int, again: str) -> Iterator[Finding]:
    """Who would refuse whose vote, by the ends of their logs; and who can win."""
    able = []
    for candidate in answering:
        if candidate.log_end is None:
            continue
        longer = [voter for voter in answering if _end_of(voter) > _end_of(candidate)]
        if len(answering) - len(longer) >= majority:
            able.append(candidate)
        if longer:
            ends = _list([f"{voter.name} at {voter.log_end}" for voter in longer])
            text = f"{_capital(candidate.name)} ends at {candidate.log_end}: nodes with longer logs refuse it, {ends}."
            yield Finding(Severity.NOTE, "refused", text)
    who = f"These can win: {_list([claim.name for claim in able])}" if able else "The nodes do not tell who can win"
    text = (
        f"No leader, though a majority answers. {who}. An election is under way, or the voters do not reach one "
        "another. Ask again; if this lasts, look for `vote requested` with its reason in their logs."
    )
    yield Finding(Severity.CRITICAL, "no-leader", text, again)


def _end_of(claim: Claim) -> tuple[int, int]:
    return (-1, -1) if claim.log_end is None else (claim.log_end.epoch, claim.log_end.offset)


def _asking(situation: Situation) -> str:
    """The nodes to name in a command."""
    return ",".join(claim.endpoint for claim in situation.answers)


def _ids(ids: Iterable[int | None]) -> str:
    return ", ".join(str(id) for id in sorted(id for id in ids if id is not None))


def _list(texts: Collection[str]) -> str:
    return ", ".join(texts)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
