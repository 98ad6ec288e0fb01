"""Which nodes are not what they seem to be: of another cluster, of another disk, removed, or there twice."""

from __future__ import annotations

from collections.abc import Iterator

from kraft_trio.diagnosis.finding import Finding, Severity, ids_text, quorum_command
from kraft_trio.diagnosis.findings.voter_sets import lacks_voters
from kraft_trio.diagnosis.quorum_situation import Claim, Situation, VoterReport
from kraft_trio.protocol.types import NO_DIRECTORY_ID, directory_id_to_text


def other_clusters(situation: Situation) -> Iterator[Finding]:
    clusters = {claim.cluster_id for claim in situation.answers if claim.cluster_id is not None}
    strangers = [claim.name for claim in situation.answers if claim.is_of_other_cluster]
    if len(clusters) > 1 or strangers:
        told = ", ".join(f"{claim.name} to {claim.cluster_id}" for claim in situation.answers if claim.cluster_id)
        told += "".join(f", {name} to another one" for name in strangers)
        text = (
            f"The nodes belong to different clusters: {told}. Ask those of one cluster, and correct the addresses that "
            "led to the others."
        )
        yield Finding(Severity.CRITICAL, "clusters", text)


def shared_ids(situation: Situation) -> Iterator[Finding]:
    """One finding for each shared id.  Two processes that count as one voter can vote twice."""
    said = {claim.shared_id[0]: (claim, claim.shared_id[1]) for claim in situation.answers if claim.shared_id}
    if situation.report is None:
        # A node with a blank disk differs from its voter, too, and the other one may have the only copy.
        blank = {claim.node_id for claim in situation.answers if situation.has_other_disk(claim)}
        said = {node_id: one for node_id, one in said.items() if node_id not in blank}
    for node_id, (claim, reason) in sorted(said.items(), key=lambda one: one[0]):
        text = (
            f"Two processes have node id {node_id}: {claim.name} says that {reason}. Stop the wrong one at once, keep "
            "its directory as it is, and give it another directory, formatted with another node.id."
        )
        is_voter = node_id in situation.voter_ids
        yield Finding(Severity.CRITICAL if is_voter else Severity.WARNING, "shared-id", text)


def removed(situation: Situation) -> Iterator[Finding]:
    """Without a leader, nobody knows which set is committed: such a node may have the only copy."""
    voters = situation.voter_ids
    for claim in situation.answers:
        if claim.kraft_version == 0:
            continue  # Nobody can be removed there: the files differ.
        if voters and claim.node_id not in (*voters, None) and claim.node_id in (claim.voter_ids or ()):
            text = (
                f"Node {claim.node_id} was removed, and does not know it: the voters are {ids_text(voters)}. Stop it, "
                "unless it is to be added again."
            )
            yield Finding(Severity.WARNING, "removed", text)


def other_directories(situation: Situation) -> Iterator[Finding]:
    """Voters whose nodes run with blank or other disks, as the leader reports them."""
    voters = () if situation.report is None else situation.report.voters
    reported = {voter.id: voter for voter in voters}
    for claim in situation.answers:
        voter = None if claim.node_id is None else reported.get(claim.node_id)
        if voter is not None and has_other_directory(claim, voter):
            own, known = (directory_id_to_text(one.directory_id or NO_DIRECTORY_ID) for one in (claim, voter))
            text = (
                f"Node {claim.node_id} runs with directory id {own}, but voter {claim.node_id} has {known}: the "
                "node has a blank or another disk, so it does not vote. Mount the voter's disk; if that is lost, "
                "replace the voter."
            )
            command = quorum_command(situation, f"replace -i {claim.node_id}")
            yield Finding(Severity.WARNING, "other-directory", text, command)


def observers(situation: Situation) -> Iterator[Finding]:
    voters = situation.voter_ids
    others = [
        claim.node_id
        for claim in situation.answers
        if claim.node_id not in (*voters, None, *((claim.voter_ids or ()) if claim.kraft_version == 0 else ()))
        and not lacks_voters(situation, claim)
    ]
    if voters and others:
        text = f"Not voters: {ids_text(others)}. If these nodes fail, the quorum continues."
        yield Finding(Severity.NOTE, "observers", text)


def has_other_directory(claim: Claim, voter: VoterReport) -> bool:
    """Whether both directory ids are known, and differ."""
    own, known = claim.directory_id, voter.directory_id
    return own != known and not {own, known} & {None, NO_DIRECTORY_ID}
