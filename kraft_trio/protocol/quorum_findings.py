"""What is wrong with a quorum, and what to do, concluded from what each of its nodes claims."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from kraft_trio.protocol.finding import (
    RECOVER,
    START,
    Finding,
    Severity,
    capitalized,
    ids_text,
    joined,
    listed,
    number_word,
    quorum_command,
    room_text,
    start_command,
)
from kraft_trio.protocol.leaderless_findings import runs_nevertheless, without_leader
from kraft_trio.protocol.quorum_situation import Claim, LeaderReport, Restored, Situation, VoterReport
from kraft_trio.protocol.replica_health import Health
from kraft_trio.protocol.survival import survival_of
from kraft_trio.protocol.tls_problems import tls_problem
from kraft_trio.protocol.types import NO_DIRECTORY_ID, directory_id_to_text
from kraft_trio.protocol.voter_set import majority_of

LITTLE_BYTES: Final = 256 * 1024 * 1024
"""A disk with less left is reported."""
CLOSED: Final = ("closed the connection", "Connection reset", "frame length")
"""Said of a listener that speaks something else than the client, though not of these alone."""
_CLOSED_LINE: Final = "If it is a node, the line `connection closed` in its log tells why."
DAY_MS: Final = 24 * 3600 * 1000
SOON_DAYS: Final = 30
"""A certificate that expires within so many days is worth a note, and one within URGENT_DAYS a warning."""
URGENT_DAYS: Final = 7


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
        return (
            *_of_logins(situation),
            *_of_tls(situation),
            *_no_answer(situation),
            *_directories(situation),
        )
    found = [*_of_claims(situation), *_of_denials(situation), *_of_logins(situation), *_of_tls(situation)]
    found += _of_nodes(situation)
    if situation.report is None:
        found += without_leader(situation)
    else:
        found += _with_leader(situation, situation.report)
    order = list(Severity)
    return tuple(sorted(found, key=lambda finding: -order.index(finding.severity)))


def _no_answer(situation: Situation) -> Iterator[Finding]:
    silent = [claim for claim in situation.claims if not runs_nevertheless(claim)]
    if situation.claims and not silent:
        return  # All of them refuse the login, or the connection.
    told = "; ".join(f"{claim.endpoint}: {claim.problem}" for claim in silent)
    advice = "Start those that do not run, or ask others."
    if situation.command_config is None:
        advice += " If their listeners use TLS or SASL, tell how to connect (`--command-config`)."
    elif any(_is_closed(claim) for claim in silent):
        fits = f"do the port and `security.protocol` in {situation.command_config} fit it?"
        advice += f" Something runs where the connection is closed: {fits} {_CLOSED_LINE}"
    yield Finding(
        Severity.CRITICAL, "no-answer", f"None of the nodes asked answers ({told}). {advice}", start_command(situation)
    )


def _is_closed(claim: Claim) -> bool:
    return any(closed in (claim.problem or "") for closed in CLOSED)


def _of_logins(situation: Situation) -> Iterator[Finding]:
    """Nodes that refuse the login, by what is to be done about it."""
    affected: dict[str, list[Claim]] = {}
    for claim in situation.claims:
        if claim.refused_login is not None:
            affected.setdefault(_login_advice(claim.problem or ""), []).append(claim)
    for advice, refusing in affected.items():
        named = joined([claim.name for claim in refusing])
        principals = joined(sorted({claim.refused_login for claim in refusing if claim.refused_login is not None}))
        verbs = "runs, but refuses" if len(refusing) == 1 else "run, but refuse"
        text = f"{capitalized(named)} {verbs} the login of {principals} ({refusing[0].problem}). {advice}"
        yield Finding(Severity.WARNING if situation.report else Severity.CRITICAL, "login", text)


def _login_advice(problem: str) -> str:
    """By Kafka's errors in the answer to SaslHandshake."""
    if "illegal_sasl_state" in problem:
        return "That listener asks for no login: correct `security.protocol`, or ask another listener."
    if "unsupported_sasl_mechanism" in problem:
        return "Name a mechanism that it has (`sasl.mechanism`, or between nodes `sasl.mechanism.controller.protocol`)."
    return "Check the user and its password on both sides: each node has its own file of users."


def _of_tls(situation: Situation) -> Iterator[Finding]:
    """Nodes to which no connection can be made because of a certificate, by the cause."""
    affected: dict[tuple[str, str], list[Claim]] = {}
    for claim in situation.claims:
        found = tls_problem(claim.problem)
        if found is not None:
            affected.setdefault(found, []).append(claim)
    for (cause, remedy), claims in affected.items():
        named = joined([claim.name for claim in claims])
        verb = "runs" if len(claims) == 1 else "run"
        text = f"{capitalized(named)} {verb}, but TLS fails: {cause} ({claims[0].problem}). {remedy}"
        yield Finding(Severity.WARNING if situation.report else Severity.CRITICAL, "tls", text)


def _of_claims(situation: Situation) -> Iterator[Finding]:
    clusters = {claim.cluster_id for claim in situation.answers if claim.cluster_id is not None}
    if len(clusters) > 1:
        told = ", ".join(f"{claim.name} to {claim.cluster_id}" for claim in situation.answers if claim.cluster_id)
        text = (
            f"The nodes belong to different clusters: {told}. Ask those of one cluster, and correct the addresses that "
            "led to the others."
        )
        yield Finding(Severity.CRITICAL, "clusters", text)
    for epoch in sorted({claim.epoch for claim in situation.answers if claim.epoch is not None}):
        named = {claim.leader_id for claim in situation.answers if claim.epoch == epoch} - {None}
        if len(named) > 1:
            leaders = joined([str(leader_id) for leader_id in sorted(id for id in named if id is not None)])
            text = f"Nodes {leaders} are all named as leader of epoch {epoch}. Stop writing, and report this."
            yield Finding(Severity.CRITICAL, "two-leaders", text)
    yield from _shared_ids(situation)
    yield from _restored(situation)
    yield from _lost_records(situation)
    yield from _stopped_state_machines(situation)
    newest = [claim.name for claim in situation.answers if claim.epoch == situation.epoch]
    for claim in situation.answers:
        if claim.epoch is None or claim.epoch == situation.epoch:
            continue
        leader = "knows no leader" if claim.leader_id is None else f"names node {claim.leader_id} as leader"
        others = listed(newest) or "the leader"
        text = (
            f"{capitalized(claim.name)} is in epoch {claim.epoch} and {leader}; the newest epoch is {situation.epoch} "
            f"({others}). "
            "It does not hear them, or they do not hear it: check the network between them."
        )
        yield Finding(Severity.WARNING, "other-epoch", text)


def _lost_records(situation: Situation) -> Iterator[Finding]:
    for claim in situation.answers:
        if claim.lost_records is not None:
            text = (
                f"{capitalized(claim.name)} says that committed records are lost: {claim.lost_records}. A majority of "
                "the voters lacked them: voters came back with blank or older disks, or static voters were changed in "
                "the files. Before anything else, keep copies of the directories of all nodes: one of them may still "
                "have the records."
            )
            yield Finding(Severity.CRITICAL, "lost-records", text)


def _shared_ids(situation: Situation) -> Iterator[Finding]:
    """One for each id.  Two processes that count as one voter can vote twice."""
    said = {claim.shared_id[0]: (claim, claim.shared_id[1]) for claim in situation.answers if claim.shared_id}
    if situation.report is None:
        # A node with a blank disk differs from its voter, too, and the other one may have the only copy.
        blank = {claim.node_id for claim in situation.answers if situation.has_other_disk(claim)}
        said = {node_id: one for node_id, one in said.items() if node_id not in blank}
    for node_id, (claim, reason) in sorted(said.items(), key=lambda one: one[0]):
        text = (
            f"Two processes have node id {node_id}: {claim.name} says that {reason}. Stop the wrong one at once, and "
            "format a directory of its own for it with another node.id."
        )
        is_voter = node_id in situation.voter_ids
        yield Finding(Severity.CRITICAL if is_voter else Severity.WARNING, "shared-id", text)


def _stopped_state_machines(situation: Situation) -> Iterator[Finding]:
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


def _restored(situation: Situation) -> Iterator[Finding]:
    """One for each voter.  Of several nodes that led, the one whose offsets are highest knows most."""
    said: dict[int, tuple[Claim, Restored]] = {}
    for claim in situation.answers:
        for one in claim.restored:
            if one.voter_id not in said or one.acknowledged > said[one.voter_id][1].acknowledged:
                said[one.voter_id] = claim, one
    for voter_id, (claim, one) in sorted(said.items()):
        text = (
            f"Voter {voter_id} came back at offset {one.came_back_at}, but had acknowledged everything before "
            f"{one.acknowledged}, says {claim.name}: an old copy of its directory was started, which has forgotten its "
            "votes, too."
        )
        if one.has_caught_up:
            yield Finding(Severity.WARNING, "restored-voter", f"{text} It has caught up, and counts again.")
            continue
        text += " It counts as blank until it has caught up. If it cannot, give its node a blank disk, and replace it."
        command = quorum_command(situation, f"replace -i {voter_id}")
        yield Finding(Severity.CRITICAL, "restored-voter", text, command)


def _of_denials(situation: Situation) -> Iterator[Finding]:
    for claim in situation.answers:
        if claim.denied_as is not None:
            text = (
                f"The leader denies {claim.name} CLUSTER_ACTION as {claim.denied_as}. Name that in the leader's "
                "`super.users`, or allow it by a rule, unless the node shows the certificate or login of another."
            )
            yield Finding(Severity.WARNING, "node-denied", text)
    denying = [claim for claim in situation.answers if claim.denial is not None]
    if not denying:
        return
    named = joined([claim.name for claim in denying])
    principals = joined(sorted({claim.denial for claim in denying if claim.denial is not None}))
    text = (
        f"{capitalized(named)} {'runs, but denies' if len(denying) == 1 else 'run, but deny'} "
        f"DESCRIBE to {principals}. Allow it on the cluster, or ask as somebody else (`--command-config`). "
        "If that is a node's principal, name it in `super.users`, or allow it CLUSTER_ACTION, too."
    )
    yield Finding(Severity.WARNING if situation.report else Severity.CRITICAL, "denied", text)


def _of_nodes(situation: Situation) -> Iterator[Finding]:
    """Nodes that are not the voters they seem to be, and disks that are about to be full."""
    voters = situation.voter_ids
    reported = {} if situation.report is None else {one.id: one for one in situation.report.voters}
    yield from _directories(situation)
    yield from _dead_addresses(situation)
    yield from _little_room(situation)
    yield from _certificates(situation)
    for claim in situation.claims:
        if claim.problem is not None or claim.node_id is None or not voters:
            continue
        voter = reported.get(claim.node_id)
        if claim.node_id not in voters:
            if claim.node_id not in (claim.voter_ids or ()) or situation.report is None:
                continue  # Without a leader, nobody knows which set is committed: that node may have the only copy.
            text = (
                f"Node {claim.node_id} was removed, and does not know it: the voters are {ids_text(voters)}. Stop it, "
                "unless it is to be added again."
            )
            yield Finding(Severity.WARNING, "removed", text)
            continue
        if voter is not None and has_other_directory(claim, voter):
            own, known = (directory_id_to_text(one.directory_id or NO_DIRECTORY_ID) for one in (claim, voter))
            text = (
                f"Node {claim.node_id} runs with directory id {own}, but voter {claim.node_id} has {known}: the "
                "node has a blank or another disk, so it does not vote. Mount the voter's disk; if that is lost, "
                "replace the voter."
            )
            command = quorum_command(situation, f"replace -i {claim.node_id}")
            yield Finding(Severity.WARNING, "other-directory", text, command)
    observers = [claim.node_id for claim in situation.answers if claim.node_id not in (*voters, None)]
    if voters and observers:
        text = f"Not voters: {ids_text(observers)}. If these nodes fail, the quorum goes on."
        yield Finding(Severity.NOTE, "observers", text)


def has_other_directory(claim: Claim, voter: VoterReport) -> bool:
    """Whether both directory ids are known, and differ."""
    own, known = claim.directory_id, voter.directory_id
    return own != known and not {own, known} & {None, NO_DIRECTORY_ID}


def _directories(situation: Situation) -> Iterator[Finding]:
    """What was found on this machine of a node that does not answer."""
    for claim in situation.claims:
        if claim.directory_problem is not None:
            text = f"{capitalized(claim.name)} does not answer. Found on this machine: {claim.directory_problem}"
            yield Finding(Severity.WARNING, "directory", text)


def _dead_addresses(situation: Situation) -> Iterator[Finding]:
    for claim in situation.answers:
        if claim.dead_address is not None:
            text = (
                f"Nobody listens at {claim.dead_address}, which {claim.name} announces: correct `advertised.listeners` "
                "in its file, and restart it. Until then, the others ask it where the voter set has it."
            )
            yield Finding(Severity.WARNING, "dead-address", text)


def _little_room(situation: Situation) -> Iterator[Finding]:
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


def _certificates(situation: Situation) -> Iterator[Finding]:
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


def _with_leader(situation: Situation, report: LeaderReport) -> Iterator[Finding]:
    up = [voter.id for voter in report.voters if voter.health.is_up]
    yield _survival(report.voter_ids, up, start=start_command(situation))
    for voter in report.voters:
        if not voter.health.is_up:
            advice, command = _advice(situation, voter, can_commit=len(up) >= majority_of(len(report.voters)))
            text = f"Voter {voter.id} is {voter.health.status.value}: {voter.health.reason}. {advice}"
            yield Finding(Severity.WARNING, "voter-behind", text, command)
    for claim in situation.claims:
        if claim.problem is not None and claim.node_id in up and not runs_nevertheless(claim):
            text = f"Node {claim.node_id} does not answer here ({claim.problem}), but the leader hears it."
            text += f" {_CLOSED_LINE}" if _is_closed(claim) else ""
            yield Finding(Severity.NOTE, "not-reached", text)
    if report.high_watermark < 0:
        text = f"Nothing has been committed in epoch {report.epoch} yet. A majority must fetch from the leader."
        yield Finding(Severity.WARNING, "no-commit", text)
    if report.committed_voter_ids:
        sets = f"{ids_text(report.voter_ids)} after {ids_text(report.committed_voter_ids)}"
        change = f"A voter change is not committed: {sets}."
        needed = f"It needs a majority of {ids_text(report.voter_ids)}, and no other change can begin until then."
        describe = quorum_command(situation, "describe --status")
        yield Finding(Severity.WARNING, "pending-change", f"{change} {needed}", describe)
        yield _survival(report.committed_voter_ids, up, is_hypothetical=True)
    if report.target_voter_ids:
        status = report.reassignment_status or "under way"
        text = f"The voters are being reassigned to {ids_text(report.target_voter_ids)}: {status}."
        cancel = quorum_command(situation, "reassign --cancel")
        yield Finding(Severity.NOTE, "reassignment", text, cancel)


def _advice(situation: Situation, voter: VoterReport, *, can_commit: bool) -> tuple[str, str | None]:
    """What to do about a voter that is not up, and the command to copy."""
    claim = next((claim for claim in situation.claims if claim.node_id == voter.id), None)
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
    if claim is not None and is_little_room(claim):
        return "Its disk was nearly full: make room, and start it.", START
    start, command = "Look at the end of its log; start it, or restart it if it hangs", start_command(situation)
    if not can_commit or voter.directory_id == NO_DIRECTORY_ID:  # A static voter cannot be replaced.
        return f"{start}.", command
    replace = quorum_command(situation, f"replace -i {voter.id}")
    return f"{start}. If its disk is lost, start its node with a blank one, and replace it: `{replace}`.", command


def _fetch_problem(problem: str) -> str:
    """In a sentence.  The node itself is not told as whom the leader knows it."""
    if "authorization_failed" in problem:
        return f"{problem}. The line `request denied` in the log there tells as whom, and why."
    return f"{problem}."


def _is_of_other_cluster(situation: Situation, claim: Claim) -> bool:
    """Whether both clusters are known, the claim's and the leader's, and differ."""
    leader = next((one for one in situation.answers if one.node_id == situation.leader_id), None)
    known = None if leader is None else leader.cluster_id
    return claim.cluster_id != known and None not in (claim.cluster_id, known)


def _isolation(situation: Situation, claim: Claim) -> str:
    """Of a voter that answers here and does not follow the leader: which link to look at."""
    leader = next((one for one in situation.claims if one.node_id == situation.leader_id), None)
    place = "the leader" if leader is None else f"node {leader.node_id} at {leader.endpoint}"
    known = "no leader" if claim.leader_id is None else f"node {claim.leader_id} as leader"
    last = "" if claim.fetch_problem is None else f" Its last Fetch failed: {claim.fetch_problem}."
    return f"Its node answers here, but knows {known}: see whether it reaches {place}, and is reached from there.{last}"


def _survival(
    voter_ids: Collection[int], up: Iterable[int], *, start: str = START, is_hypothetical: bool = False
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
        advice = f"Start {number_word(-spare)} of the voters {down}. {RECOVER}"
        return Finding(Severity.CRITICAL, code, f"{capitalized(text)} {advice}", start)
    if spare == 0:
        text = f"the quorum survives no more failure now: {counts}."
        return Finding(Severity.WARNING if len(voter_ids) > 2 else Severity.NOTE, code, capitalized(prefix + text))
    text = f"the quorum survives {'1 more failure' if spare == 1 else f'{spare} more failures'} now: {counts}."
    return Finding(Severity.OK, code, capitalized(prefix + text))
