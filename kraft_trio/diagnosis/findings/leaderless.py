"""Why a quorum has no leader: who is missing, who refuses whom, and who can win."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from kraft_trio.diagnosis.finding import (
    Finding,
    Severity,
    ids_text,
    joined,
    listed,
    number_word,
    quorum_command,
    recover_text,
    start_command,
)
from kraft_trio.diagnosis.findings.connecting import REFUSED
from kraft_trio.diagnosis.findings.electorate import Electorate
from kraft_trio.diagnosis.findings.voter_sets import lacks_voters
from kraft_trio.diagnosis.quorum_situation import Claim, Situation, end_of
from kraft_trio.protocol.types import NO_DIRECTORY_ID, OffsetAndEpoch, directory_id_to_text


def unknown_voters(situation: Situation) -> Iterator[Finding]:
    electorate = Electorate(situation)
    if electorate.voter_ids or electorate.denying or any(lacks_voters(situation, one) for one in situation.answers):
        return
    naming = [claim for claim in situation.answers if claim.leader_id is not None]
    named = listed([f"{claim.name} names node {claim.leader_id}" for claim in naming])
    silent = [f"{claim.name} ({claim.problem})" for claim in situation.claims if claim.problem is not None]
    text = (
        f"No leader answers{f' ({named})' if named else ''}, and no node tells who the voters are: "
        f"{_answers(situation)}."
    )
    text += f" No answer: {listed(silent)}." if silent else ""
    if any(claim.lacks_metadata for claim in situation.answers):
        text += (
            " A controller has no metadata if its disk is blank, if its file names no voters, or if it was started "
            "since the last leader ended."
        )
    if _may_name_no_voters(situation):
        text += (
            " If these are all the voters, their files name none any more: put controller.quorum.voters back in them, "
            "as it was before, and restart them."
        )
    text += " Ask the voters themselves, or let their machines tell: `explain -c` with their files."
    yield Finding(Severity.CRITICAL, "no-leader", text)


def _may_name_no_voters(situation: Situation) -> bool:
    """Whether all that were asked are controllers of Kafka's that had a leader and have no metadata.

    Voters that all run elect a leader within seconds.  With blank disks alone, they know of no epoch.
    """
    return all(claim.problem is None and claim.lacks_metadata and (claim.epoch or 0) > 0 for claim in situation.claims)


def other_disks(situation: Situation) -> Iterator[Finding]:
    """Nodes with blank or other disks do not vote.  Those that have theirs may hold the only copy."""
    electorate = Electorate(situation)
    answering = electorate.answering
    if not electorate.is_told or not electorate.other_disks:
        return
    missing = joined([_missing(situation, claim) for claim in electorate.other_disks])
    is_impossible = len(answering) + len(electorate.silent) < electorate.majority
    text = (
        f"{'No leader is possible' if is_impossible else 'No leader'}: {number_word(electorate.majority)} of the "
        f"voters {ids_text(situation.voter_ids)} are needed with their disks, and {number_word(len(answering))} "
        f"{'has' if len(answering) == 1 else 'have'} it. Missing: {missing}: blank or other disks, which do not vote. "
        "Mount those disks again."
    )
    if answering:
        names = joined([claim.name for claim in answering])
        text += f" Leave {names} as {'it is' if len(answering) == 1 else 'they are'}: nobody else may have the records."
    yield Finding(Severity.CRITICAL, "other-disks", f"{text} {recover_text(situation)}")


def _missing(situation: Situation, claim: Claim) -> str:
    if claim.lacks_metadata:
        return f"voter {claim.node_id} (its node has no metadata)"
    if not situation.has_other_disk(claim):
        return f"voter {claim.node_id} (its node has an empty log, and knows no voters)"
    known = situation.voter_keys[claim.node_id or 0].directory_id
    return (
        f"voter {claim.node_id} with directory id {_id_text(known)} (its node runs with {_id_text(claim.directory_id)})"
    )


def no_majority(situation: Situation) -> Iterator[Finding]:
    electorate = Electorate(situation)
    silent, majority, answering = electorate.silent, electorate.majority, electorate.answering
    if not electorate.is_told or not electorate.lacks_majority or not silent:
        return
    reasons = listed([_silent(situation, voter_id) for voter_id in silent])
    restart = ", or restart those that hang" if "no answer within" in reasons else ""
    text = (
        f"No leader: {number_word(majority)} of the voters {ids_text(electorate.voter_ids)} "
        f"{'is' if majority == 1 else 'are'} needed, and {number_word(len(answering))} can be reached. "
        f"Silent: {reasons}. Start {number_word(majority - len(answering))} of them{restart}. {recover_text(situation)}"
    )
    if situation.has_only_registrations:
        text += (
            " Taken as voters are the controllers that have registered; `explain -c`, with the file of one on its "
            "machine, reads who the voters are."
        )
    yield Finding(Severity.CRITICAL, "no-majority", text, start_command(situation))


def uncommitted_voters(situation: Situation) -> Iterator[Finding]:
    electorate = Electorate(situation)
    voters = electorate.voter_ids
    told = any(claim.has_uncommitted_change and same_voters(claim, voters) for claim in electorate.answering)
    if electorate.is_told and told:
        text = (
            f"The voters {ids_text(voters)} come from a voter change that is not committed. They count nevertheless: "
            "the change commits once a majority of them elects a leader that has it, or vanishes."
        )
        yield Finding(Severity.WARNING, "uncommitted-voters", text)


def same_voters(claim: Claim, voter_ids: tuple[int, ...]) -> bool:
    return tuple(sorted(claim.voter_ids or ())) == voter_ids


def leader_not_reached(situation: Situation) -> Iterator[Finding]:
    electorate, leader_id = Electorate(situation), situation.leader_id
    following = _following(electorate)
    if _is_hidden(electorate, following):
        text = (
            f"Voters {_followers(situation, following)} follow node {leader_id} in epoch {situation.epoch}, which does "
            "not answer here. Either it has just ended, and they elect another within the fetch timeout; or this "
            "machine alone cannot reach it."
        )
        yield Finding(Severity.WARNING, "leader-not-reached", text)


def still_following(situation: Situation) -> Iterator[Finding]:
    electorate = Electorate(situation)
    following = _following(electorate)
    followers = _followers(situation, following)
    if followers and not _is_hidden(electorate, following):
        text = (
            f"Voters {followers} follow node {situation.leader_id}, which does not answer as leader. They refuse "
            "pre-votes until their fetch timeout is over."
        )
        yield Finding(Severity.NOTE, "still-following", text)


def _following(electorate: Electorate) -> list[Claim]:
    """Voters that follow a leader, which does not answer as leader here."""
    situation, answering = electorate.situation, electorate.answering
    leader_id = situation.leader_id
    deniers = [claim.node_id for claim in answering if claim.denial is not None]
    if not electorate.is_told or leader_id is None or leader_id in deniers:
        return []
    following = [claim for claim in answering if (claim.epoch, claim.leader_id) == (situation.epoch, leader_id)]
    if electorate.lacks_majority and all(_hears_nothing(situation, claim) for claim in following):
        return []  # They do not hear it either, and cannot elect another.
    return following


def _hears_nothing(situation: Situation, claim: Claim) -> bool:
    """Whether a voter gets nothing from the leader that it names.  A controller of Kafka's does not tell that."""
    leader = situation.claim_of(claim.leader_id)
    has_ended = leader is not None and REFUSED in (leader.problem or "").lower()
    return claim.fetch_problem is not None or (claim.log_end is None and has_ended)


def _is_hidden(electorate: Electorate, following: list[Claim]) -> bool:
    """Whether enough voters follow a leader that is silent here."""
    is_silent = electorate.situation.leader_id in electorate.silent
    return is_silent and bool(following) and len(following) + 1 >= electorate.majority


def _followers(situation: Situation, following: list[Claim]) -> str:
    return ids_text(claim.node_id for claim in following if claim.node_id != situation.leader_id)


def refused(situation: Situation) -> Iterator[Finding]:
    """Compare the ends of the logs: which voters would refuse which candidate."""
    electorate = Electorate(situation)
    for candidate in electorate.answering if _elects_nobody(electorate) else ():
        longer = [voter for voter in electorate.answering if end_of(voter) > end_of(candidate)]
        if candidate.log_end is not None and longer:
            ends = listed([f"{voter.name} ({_end_text(voter.log_end)})" for voter in longer])
            text = (
                f"The log of {candidate.name} ends at {_end_text(candidate.log_end)}. Nodes with newer logs refuse it: "
                f"{ends}."
            )
            yield Finding(Severity.NOTE, "refused", text)


def no_leader(situation: Situation) -> Iterator[Finding]:
    electorate = Electorate(situation)
    if _elects_nobody(electorate):
        able = electorate.winners
        who = (
            f"These can win: {listed([claim.name for claim in able])}" if able else "The nodes do not tell who can win"
        )
        static = [claim.name for claim in electorate.answering if claim.kraft_version == 0 and claim.voter_ids is None]
        if static:
            who += (
                f". kraft.version is 0 on {joined(static)}, so only `controller.quorum.voters` names the voters: see "
                "that it is in each file"
            )
        text = (
            f"No leader, though a majority answers. {who}. An election is under way, or the voters do not reach one "
            "another. Ask again; if this lasts, look for `vote requested` with its reason in their logs."
        )
        yield Finding(Severity.CRITICAL, "no-leader", text, quorum_command(situation, "explain"))


def _elects_nobody(electorate: Electorate) -> bool:
    """Whether a majority answers nevertheless.  Those who deny might lead."""
    return electorate.is_told and not electorate.lacks_majority and not electorate.denying


def _answers(situation: Situation) -> str:
    """What the nodes did answer that tell nothing of the voters."""
    said: dict[str, list[str]] = {}
    for claim in situation.answers:
        said.setdefault(_answer(claim), []).append(claim.name)
    return "; ".join(f"{joined(names)}: {answer}" for answer, names in said.items())


def _answer(claim: Claim) -> str:
    epoch = "" if claim.epoch is None else f" in epoch {claim.epoch}"
    leader = "no leader" if claim.leader_id is None else f"node {claim.leader_id} as leader"
    return f"{leader}{epoch}" + (", and no metadata" if claim.lacks_metadata else "")


def _silent(situation: Situation, voter_id: int) -> str:
    claim = situation.claim_of(voter_id)
    if claim is not None and claim.is_of_other_cluster:
        return f"{voter_id} (another cluster's node answers at {claim.endpoint})"
    return f"{voter_id} (nobody tells its address)" if claim is None else f"{voter_id} ({claim.problem})"


def _id_text(directory_id: UUID | None) -> str:
    return directory_id_to_text(NO_DIRECTORY_ID if directory_id is None else directory_id)


def _end_text(end: OffsetAndEpoch | None) -> str:
    return "an unknown offset" if end is None else f"offset {end.offset}, epoch {end.epoch}"
