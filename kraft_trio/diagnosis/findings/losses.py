"""What has been lost or may be: two leaders, epochs that contradict, old copies of directories, dropped records."""

from __future__ import annotations

from collections.abc import Iterator

from kraft_trio.diagnosis.finding import Finding, Severity, capitalized, joined, listed, quorum_command
from kraft_trio.diagnosis.findings.bootstrap import looks_in_vain
from kraft_trio.diagnosis.quorum_situation import Claim, Restored, Situation


def two_leaders(situation: Situation) -> Iterator[Finding]:
    for epoch in sorted({claim.epoch for claim in situation.answers if claim.epoch is not None}):
        named = {claim.leader_id for claim in situation.answers if claim.epoch == epoch} - {None}
        if len(named) > 1:
            leaders = joined([str(leader_id) for leader_id in sorted(id for id in named if id is not None)])
            sets = {claim.voter_ids for claim in situation.answers if claim.kraft_version == 0 and claim.voter_ids}
            text = f"Nodes {leaders} are all named as leader of epoch {epoch}. Stop writing, and report this."
            if len(sets) > 1:
                text = (
                    f"Nodes {leaders} are all named as leader of epoch {epoch}, because the files name different "
                    "static voters: these are two quorums. Stop writing."
                )
            yield Finding(Severity.CRITICAL, "two-leaders", text)


def other_epochs(situation: Situation) -> Iterator[Finding]:
    newest = [claim.name for claim in situation.answers if claim.epoch == situation.epoch]
    for claim in situation.answers:
        if claim.epoch is None or claim.epoch == situation.epoch or looks_in_vain(situation, claim):
            continue
        leader = "knows no leader" if claim.leader_id is None else f"names node {claim.leader_id} as leader"
        others = listed(newest) or "the leader"
        text = (
            f"{capitalized(claim.name)} is in epoch {claim.epoch} and {leader}; the newest epoch is {situation.epoch} "
            f"({others}). "
            "It does not hear them, or they do not hear it: check the network between them."
        )
        yield Finding(Severity.WARNING, "other-epoch", text)


def restored(situation: Situation) -> Iterator[Finding]:
    """One finding for each voter.  Of several nodes that led, the one whose offsets are highest knows most."""
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


def newer_logs_here(situation: Situation) -> list[Claim]:
    """Nodes that are down with records of the leader's epoch, or a newer one, that this leader never had.

    A follower gets records of an epoch from its leader alone.  So other voters began with blank disks, and elected a
    leader.  They lack what the directory here has, and the node would drop it.
    """
    report = situation.report
    never = () if report is None else {voter.id for voter in report.voters if not voter.has_fetched}
    return [
        claim
        for claim in situation.claims
        if report is not None and claim.problem is not None and claim.log_end is not None and claim.log_end.offset
        if claim.log_end.epoch > report.epoch or (claim.log_end.epoch == report.epoch and claim.node_id in never)
    ]


def newer_log(situation: Situation) -> Iterator[Finding]:
    report = situation.report
    for claim in newer_logs_here(situation):
        assert report is not None and claim.log_end is not None  # noqa: PT018
        text = (
            f"{capitalized(claim.name)} is down, and its log on this machine ends at offset {claim.log_end.offset} of "
            f"epoch {claim.log_end.epoch}, which node {report.leader_id}, leader of epoch {report.epoch}, never had: "
            "the other voters began with blank or older disks. Do not start it: it would drop its records. Keep a copy "
            "of its directory. Stop writing, and mount the disks of the others."
        )
        yield Finding(Severity.CRITICAL, "newer-log", text)


def lost_records(situation: Situation) -> Iterator[Finding]:
    for claim in situation.answers:
        if claim.lost_records is not None:
            text = (
                f"{capitalized(claim.name)} says that committed records are lost: {claim.lost_records}. A majority of "
                "the voters lacked them: voters came back with blank or older disks, or static voters were changed in "
                "the files. Before anything else, keep copies of the directories of all nodes: one of them may still "
                "have the records."
            )
            yield Finding(Severity.CRITICAL, "lost-records", text)
