"""Why a quorum has no leader: who is missing, who refuses whom, and who can win."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from uuid import UUID

from kraft_trio.protocol.finding import (
    RECOVER,
    Finding,
    Severity,
    ids_text,
    joined,
    listed,
    number_word,
    quorum_command,
    start_command,
)
from kraft_trio.protocol.quorum_situation import Claim, Situation, end_of
from kraft_trio.protocol.tls_problems import tls_problem
from kraft_trio.protocol.types import NO_DIRECTORY_ID, OffsetAndEpoch, directory_id_to_text
from kraft_trio.protocol.voter_set import majority_of


def runs_nevertheless(claim: Claim) -> bool:
    """Whether the node runs although it did not answer."""
    return claim.refused_login is not None or tls_problem(claim.problem) is not None


def without_leader(situation: Situation) -> Iterator[Finding]:
    again = quorum_command(situation, "explain")
    voters = situation.voter_ids
    denying = [claim for claim in situation.answers if claim.denial is not None]
    if not voters and denying:
        return
    if not voters:
        naming = [claim for claim in situation.answers if claim.leader_id is not None]
        named = listed([f"{claim.name} names node {claim.leader_id}" for claim in naming])
        text = (
            f"No leader answers{f' ({named})' if named else ''}, and no node tells who the voters are. "
            "Ask the voters themselves."
        )
        yield Finding(Severity.CRITICAL, "no-leader", text)
        return
    other_disks = [claim for claim in situation.answers if situation.has_other_disk(claim)]
    answering = [claim for claim in situation.answers if claim.node_id in voters and claim not in other_disks]
    known = {claim.node_id for claim in (*answering, *other_disks)}
    silent = [voter_id for voter_id in voters if voter_id not in known]
    majority = majority_of(len(voters))
    refusing = [claim for claim in situation.claims if runs_nevertheless(claim)]
    if len(answering) < majority <= len(answering) + len(refusing):
        return
    if other_disks:
        yield _other_disks(situation, other_disks, answering, silent, majority)
    if len(answering) < majority and silent:
        reasons = listed([_silent(situation, voter_id) for voter_id in silent])
        restart = ", or restart those that hang" if "no answer within" in reasons else ""
        text = (
            f"No leader: {number_word(majority)} of the voters {ids_text(voters)} "
            f"{'is' if majority == 1 else 'are'} needed, and {number_word(len(answering))} can be reached. "
            f"Silent: {reasons}. Start {number_word(majority - len(answering))} of them{restart}. {RECOVER}"
        )
        yield Finding(Severity.CRITICAL, "no-majority", text, start_command(situation))
    if any(claim.has_uncommitted_change and same_voters(claim, voters) for claim in answering):
        text = (
            f"The voters {ids_text(voters)} come from a voter change that is not committed. They count nevertheless: "
            "the change commits once a majority of them elects a leader that has it, or vanishes."
        )
        yield Finding(Severity.WARNING, "uncommitted-voters", text)
    yield from _followed(situation, answering, silent, majority)
    if len(answering) >= majority and not denying:  # Those who deny might lead.
        yield from _refusals(answering, majority, again)


def _other_disks(
    situation: Situation,
    other_disks: Collection[Claim],
    answering: Collection[Claim],
    silent: Collection[int],
    majority: int,
) -> Finding:
    """Nodes with blank or other disks do not vote.  Those that have theirs may hold the only copy."""
    missing = joined(
        [
            f"voter {claim.node_id} with directory id {_id_text(situation.voter_keys[claim.node_id].directory_id)} "
            f"(its node runs with {_id_text(claim.directory_id)})"
            for claim in other_disks
            if claim.node_id is not None
        ]
    )
    is_impossible = len(answering) + len(silent) < majority
    text = (
        f"{'No leader is possible' if is_impossible else 'No leader'}: {number_word(majority)} of the voters "
        f"{ids_text(situation.voter_ids)} are needed with their disks, and {number_word(len(answering))} "
        f"{'has' if len(answering) == 1 else 'have'} it. Missing: {missing}: blank or other disks, which do not vote. "
        "Mount those disks again."
    )
    if answering:
        names = joined([claim.name for claim in answering])
        text += f" Leave {names} as {'it is' if len(answering) == 1 else 'they are'}: nobody else may have the records."
    return Finding(Severity.CRITICAL, "other-disks", f"{text} {RECOVER}")


def _id_text(directory_id: UUID | None) -> str:
    return directory_id_to_text(NO_DIRECTORY_ID if directory_id is None else directory_id)


def same_voters(claim: Claim, voter_ids: tuple[int, ...]) -> bool:
    return tuple(sorted(claim.voter_ids or ())) == voter_ids


def _silent(situation: Situation, voter_id: int) -> str:
    claim = next((claim for claim in situation.claims if claim.node_id == voter_id), None)
    return f"{voter_id} (nobody tells its address)" if claim is None else f"{voter_id} ({claim.problem})"


def _followed(
    situation: Situation, answering: Collection[Claim], silent: Collection[int], majority: int
) -> Iterator[Finding]:
    """A leader that voters follow, but that does not answer as leader here."""
    leader_id = situation.leader_id
    deniers = [claim.node_id for claim in answering if claim.denial is not None]
    if leader_id is None or leader_id in deniers:
        return
    following = [claim for claim in answering if (claim.epoch, claim.leader_id) == (situation.epoch, leader_id)]
    if len(answering) < majority and all(claim.fetch_problem is not None for claim in following):
        return  # They do not hear it either, and cannot elect another.
    followers = ids_text(claim.node_id for claim in following if claim.node_id != leader_id)
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
    """Compare the ends of the logs: which voters would refuse which candidate, and who can win."""
    able = []
    for candidate in answering:
        if candidate.log_end is None:
            continue
        longer = [voter for voter in answering if end_of(voter) > end_of(candidate)]
        if len(answering) - len(longer) >= majority:
            able.append(candidate)
        if longer:
            ends = listed([f"{voter.name} ({_end_text(voter.log_end)})" for voter in longer])
            text = (
                f"The log of {candidate.name} ends at {_end_text(candidate.log_end)}. Nodes with newer logs refuse it: "
                f"{ends}."
            )
            yield Finding(Severity.NOTE, "refused", text)
    who = f"These can win: {listed([claim.name for claim in able])}" if able else "The nodes do not tell who can win"
    text = (
        f"No leader, though a majority answers. {who}. An election is under way, or the voters do not reach one "
        "another. Ask again; if this lasts, look for `vote requested` with its reason in their logs."
    )
    yield Finding(Severity.CRITICAL, "no-leader", text, again)


def _end_text(end: OffsetAndEpoch | None) -> str:
    return "an unknown offset" if end is None else f"offset {end.offset}, epoch {end.epoch}"
