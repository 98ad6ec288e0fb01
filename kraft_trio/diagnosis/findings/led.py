"""How a quorum with a leader does: what it survives, which voters are behind, what is under way."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from kraft_trio.diagnosis.finding import (
    RECOVER,
    START,
    Finding,
    Severity,
    capitalized,
    format_text,
    ids_text,
    number_word,
    quorum_command,
    recover_text,
    start_command,
    with_file,
)
from kraft_trio.diagnosis.findings.connecting import CLOSED_LINE, REFUSED, is_closed
from kraft_trio.diagnosis.findings.identities import has_other_directory
from kraft_trio.diagnosis.findings.losses import newer_logs_here
from kraft_trio.diagnosis.findings.machines import is_little_room
from kraft_trio.diagnosis.quorum_situation import Claim, LeaderReport, Situation, VoterReport, runs_nevertheless
from kraft_trio.diagnosis.survival import survival_of
from kraft_trio.protocol.replica_health import Health
from kraft_trio.protocol.types import NO_DIRECTORY_ID
from kraft_trio.protocol.voter_set import majority_of
from kraft_trio.protocol.waits import FETCH_MAX_WAIT_MS


def survival(situation: Situation) -> Iterator[Finding]:
    report = report_of(situation)
    yield _survival(report.voter_ids, _up(situation), start=start_command(situation), recover=recover_text(situation))


def survival_before(situation: Situation) -> Iterator[Finding]:
    report = report_of(situation)
    if report.committed_voter_ids:
        yield _survival(report.committed_voter_ids, _up(situation), is_hypothetical=True)


def voters_behind(situation: Situation) -> Iterator[Finding]:
    report = report_of(situation)
    can_commit = len(_up(situation)) >= majority_of(len(report.voters))
    for voter in report.voters:
        if not voter.health.is_up:
            advice, command = _advice(situation, voter, can_commit=can_commit)
            text = f"Voter {voter.id} is {voter.health.status.value}: {voter.health.reason}. {advice}"
            yield Finding(Severity.WARNING, "voter-behind", text, command)


def not_reached(situation: Situation) -> Iterator[Finding]:
    """Voters that the leader still counts as up.  Where a port refuses connections, the node has probably ended."""
    for voter in report_of(situation).voters:
        claim = situation.claim_of(voter.id)
        if claim is None or claim.problem is None or not voter.health.is_up or runs_nevertheless(claim):
            continue
        text = f"Node {voter.id} does not answer here ({claim.problem})"
        if _has_ended(situation, voter):
            text += f", and its last Fetch was {voter.silent_ms / 1000:.1f} s ago. It has probably ended: ask again."
            yield Finding(Severity.WARNING, "not-reached", text, quorum_command(situation, "explain"))
        else:
            text += f", but the leader hears it.{f' {CLOSED_LINE}' if is_closed(claim) else ''}"
            yield Finding(Severity.NOTE, "not-reached", text)


def no_commit(situation: Situation) -> Iterator[Finding]:
    report = report_of(situation)
    if report.high_watermark < 0:
        text = f"Nothing has been committed in epoch {report.epoch} yet. A majority must fetch from the leader."
        yield Finding(Severity.WARNING, "no-commit", text)


def pending_change(situation: Situation) -> Iterator[Finding]:
    report = report_of(situation)
    if report.committed_voter_ids:
        sets = f"{ids_text(report.voter_ids)} after {ids_text(report.committed_voter_ids)}"
        change = f"A voter change is not committed: {sets}."
        needed = f"It needs a majority of {ids_text(report.voter_ids)}, and no other change can begin until then."
        describe = quorum_command(situation, "describe --status")
        yield Finding(Severity.WARNING, "pending-change", f"{change} {needed}", describe)


def reassignment(situation: Situation) -> Iterator[Finding]:
    report = report_of(situation)
    if report.target_voter_ids:
        status = report.reassignment_status or "under way"
        text = f"The voters are being reassigned to {ids_text(report.target_voter_ids)}: {status}."
        cancel = quorum_command(situation, "reassign --cancel")
        yield Finding(Severity.NOTE, "reassignment", text, cancel)


def report_of(situation: Situation) -> LeaderReport:
    """The leader's report, in a situation that has one."""
    assert situation.report is not None, "asked without a leader"
    return situation.report


def _is_static(report: LeaderReport) -> bool:
    return all(voter.directory_id in (None, NO_DIRECTORY_ID) for voter in report.voters)


def _up(situation: Situation) -> list[int]:
    voters = report_of(situation).voters
    return [voter.id for voter in voters if voter.health.is_up and not _has_ended(situation, voter)]


def _has_ended(situation: Situation, voter: VoterReport) -> bool:
    """Whether the voter's port refuses connections, and it has missed a Fetch.

    The leader counts it as up for a fetch timeout more.
    """
    claim = situation.claim_of(voter.id)
    is_refused = claim is not None and REFUSED in (claim.problem or "").lower()
    return is_refused and voter.silent_ms > 2 * FETCH_MAX_WAIT_MS


def _advice(situation: Situation, voter: VoterReport, *, can_commit: bool) -> tuple[str, str | None]:
    """What to do about a voter that is not up, and the command to copy."""
    claim = situation.claim_of(voter.id)
    if voter.health.status is not Health.OFFLINE:
        if claim is not None and claim.fetch_problem is not None:
            return f"It gets no records from the leader: {_fetch_problem(claim.fetch_problem)}", None
        return "It has just started, or its disk or its network is slow.", None
    if claim is not None and claim.problem is None:
        if _is_of_other_cluster(situation, claim):
            return f"Another cluster's node answers at its address, {claim.endpoint}.", None
        if has_other_directory(claim, voter):
            return "Its node runs with another directory id.", None
        if claim.leader_id != situation.leader_id:
            return _isolation(situation, claim), None
        why = "its log tells why." if claim.fetch_problem is None else _fetch_problem(claim.fetch_problem)
        return f"Its node runs, but does not fetch from the leader: {why}", None
    if claim is not None and runs_nevertheless(claim):
        return "Its node runs, but refuses the connection, or is refused.", None
    if claim is not None and claim.directory_problem is not None:
        return "Do first what is said of its directory.", None
    if claim is not None and is_little_room(claim):
        return "Its disk was nearly full: make room, and start it.", with_file(START, situation, voter.id)
    if not voter.has_fetched and _is_static(report_of(situation)) and (claim is None or claim.log_end is None):
        return (
            "This leader has never heard it. If other voters began with blank disks, it would drop its records: before "
            "you start it, let `explain` look at its directory, on its machine.",
            quorum_command(situation, "explain -c FILE"),
        )
    if any(one.node_id == voter.id for one in newer_logs_here(situation)):
        return "Do not start it.", None
    start, command = (
        "Look at the end of its log; start it, or restart it if it hangs",
        start_command(situation, voter.id),
    )
    if not can_commit or voter.directory_id == NO_DIRECTORY_ID:  # A static voter cannot be replaced.
        return f"{start}.", command
    replace = quorum_command(situation, f"replace -i {voter.id}")
    blank = f"format a blank one ({format_text(situation, command, voter.id)}), start its node, and replace it"
    return f"{start}. If its disk is lost, {blank}: `{replace}`.", command


def _fetch_problem(problem: str) -> str:
    """In a sentence.  The node itself is not told as whom the leader knows it."""
    if "authorization_failed" in problem:
        return f"{problem}. The line `request denied` in the log there tells as whom, and why."
    return f"{problem}."


def _is_of_other_cluster(situation: Situation, claim: Claim) -> bool:
    """Whether both clusters are known, the claim's and the leader's, and differ."""
    leader = next((one for one in situation.answers if one.node_id == situation.leader_id), None)
    known = None if leader is None else leader.cluster_id
    differs = claim.cluster_id != known and None not in (claim.cluster_id, known)
    return differs or claim.is_of_other_cluster


def _isolation(situation: Situation, claim: Claim) -> str:
    """Of a voter that answers here and does not follow the leader: which link to look at."""
    leader = situation.claim_of(situation.leader_id)
    place = "the leader" if leader is None else f"node {leader.node_id} at {leader.endpoint}"
    known = "no leader" if claim.leader_id is None else f"node {claim.leader_id} as leader"
    last = "" if claim.fetch_problem is None else f" Its last Fetch failed: {claim.fetch_problem}."
    return f"Its node answers here, but knows {known}: see whether it reaches {place}, and is reached from there.{last}"


def _survival(
    voter_ids: Collection[int],
    up: Iterable[int],
    *,
    start: str | None = None,
    recover: str = RECOVER,
    is_hypothetical: bool = False,
) -> Finding:
    """What the voters survive, or would survive if an uncommitted change were undone."""
    code = "survival-before" if is_hypothetical else "survival"
    prefix = "if the change is undone, " if is_hypothetical else ""
    survival = survival_of(voter_ids, up)
    spare, needed = survival.spare, survival.majority
    total = "1 voter is" if len(voter_ids) == 1 else f"{len(voter_ids)} voters are"
    counts = f"{len(survival.up_ids)} of {total} up, and {needed} {'is' if needed == 1 else 'are'} needed"
    if spare < 0:
        text = f"{prefix}nothing can be committed: {counts}."
        if is_hypothetical:
            return Finding(Severity.WARNING, code, capitalized(text))
        down = ids_text(set(voter_ids) - set(survival.up_ids))
        advice = f"Start {number_word(-spare)} of the voters {down}. {recover}"
        return Finding(Severity.CRITICAL, code, f"{capitalized(text)} {advice}", start)
    if spare == 0:
        text = f"the quorum survives no more failure now: {counts}."
        return Finding(Severity.WARNING if len(voter_ids) > 2 else Severity.NOTE, code, capitalized(prefix + text))
    text = f"the quorum survives {'1 more failure' if spare == 1 else f'{spare} more failures'} now: {counts}."
    return Finding(Severity.OK, code, capitalized(prefix + text))
