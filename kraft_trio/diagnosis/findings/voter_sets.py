"""Nodes that do not agree on who the voters are, though no voter change explains it: they were formatted or configured
differently.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraft_trio.diagnosis.finding import Finding, Severity, capitalized, ids_text, joined, quorum_command
from kraft_trio.diagnosis.quorum_situation import Claim, Situation
from kraft_trio.protocol.static_voters import disjoint_majorities
from kraft_trio.protocol.types import ReplicaKey


def other_lists(situation: Situation) -> Iterator[Finding]:
    """Each list has its own directory ids, so nobody votes for a node with another list."""
    if len(situation.lists) < 2:
        return
    told = "; ".join(f"{_names(claims)}: {_keys_text(keys)}" for keys, claims in situation.lists.items())
    text = (
        f"The nodes were formatted with different lists of voters: {told}. A voter is an id with a directory id, so "
        "they refuse each other their votes (INVALID_VOTER_KEY)."
    )
    named = {claim.node_id: claim.as_initial for claims in situation.lists.values() for claim in claims}
    initial = [named.get(voter_id) for voter_id in situation.voter_ids]
    clusters = {claim.cluster_id for claim in situation.answers} - {None}
    if None in initial or len(clusters) != 1:
        silent = ids_text(voter_id for voter_id in situation.voter_ids if named.get(voter_id) is None)
        text += f" Leave all of them as they are until it is known what {silent} has: perhaps records."
        yield Finding(Severity.CRITICAL, "other-lists", text)
        return
    text += (
        " Nobody has ever been elected, so that nothing was written. Stop all of them, move their directories away, "
        "and format each with one list."
    )
    given = f"--initial-controllers {','.join(map(str, initial))}"
    command = f"kraft storage format -t {min(map(str, clusters))} -c FILE {given}"
    yield Finding(Severity.CRITICAL, "other-lists", text, command)


def _keys_text(keys: tuple[ReplicaKey, ...]) -> str:
    return ", ".join(map(str, keys))


def _names(claims: tuple[Claim, ...]) -> str:
    return joined([claim.name for claim in claims])


def other_static_voters(situation: Situation) -> Iterator[Finding]:
    """The files name different voters.  If two of the sets have disjoint majorities, there can be two quorums."""
    sets: dict[tuple[int, ...], list[Claim]] = {}
    for claim in situation.answers:
        if claim.kraft_version == 0 and claim.voter_ids:
            sets.setdefault(tuple(sorted(claim.voter_ids)), []).append(claim)
    if len(sets) < 2:
        return
    told = "; ".join(f"{_names(tuple(claims))}: {ids_text(ids)}" for ids, claims in sets.items())
    text = f"`controller.quorum.voters` differs between the files: {told}."
    ordered = list(sets)
    apart = [disjoint_majorities(one, other) for place, one in enumerate(ordered) for other in ordered[place + 1 :]]
    found = next((one for one in apart if one is not None), None)
    if found is None:
        text += " Any two majorities of them share a voter. Write the same voters into all files, and restart each."
        yield Finding(Severity.WARNING, "other-static-voters", text)
        return
    text += (
        f" {capitalized(ids_text(found.before))} and {ids_text(found.after)} can elect two leaders, which know nothing "
        "of each other's records. Stop writing. Keep copies of the directories of all nodes. Then write the voters of "
        "before into all files, mount the disks of before, and start first those that have the records."
    )
    yield Finding(Severity.CRITICAL, "other-static-voters", text)


def unnamed_voters(situation: Situation) -> Iterator[Finding]:
    """A file without `controller.quorum.voters` before the log names the voters (KIP-853, "Upgrade")."""
    lacking = [claim for claim in situation.answers if lacks_voters(situation, claim)]
    if not lacking:
        return
    many = len(lacking) > 1
    text = (
        f"{capitalized(_names(tuple(lacking)))} {'know' if many else 'knows'} no voters: kraft.version is 0, so only "
        f"`controller.quorum.voters` in {'their files names' if many else 'its file names'} them, and it is not there."
    )
    if situation.report is not None:
        text += (
            f" {'They elect' if many else 'It elects'} nobody when the leader ends. Write the voters to the log now."
        )
        command = quorum_command(situation, "upgrade --feature kraft.version=1").replace("metadata-quorum", "features")
        yield Finding(Severity.WARNING, "unnamed-voters", text, command)
        return
    text += (
        f" Name all voters of before there again, such as `{voters_line(situation)}`, in the file of each, and restart "
        "them. Take the key away only once `kraft features upgrade` has written the voters to the log."
    )
    yield Finding(Severity.CRITICAL, "unnamed-voters", text)


def voters_line(situation: Situation) -> str:
    """`controller.quorum.voters` with everybody who may have been a voter: fewer of them could elect a leader alone."""
    known = {claim.node_id: claim.endpoint for claim in situation.claims if claim.node_id is not None}
    brokers = {claim.node_id for claim in situation.claims if claim.is_broker}
    ids = situation.voter_ids or tuple(sorted(known.keys() - brokers))
    unknown = [claim.endpoint for claim in situation.claims if claim.node_id is None and not claim.is_broker]
    named = [f"{id}@{known.get(id, 'HOST:PORT')}" for id in ids]
    others = [] if situation.voter_ids else [f"ID@{endpoint}" for endpoint in unknown]
    return f"controller.quorum.voters={','.join([*named, *others])}"


def lacks_voters(situation: Situation, claim: Claim) -> bool:
    """Whether a node may vote and has records, but neither its file nor its log names voters."""
    report = situation.report
    end = claim.reported_end if claim.log_end is None else claim.log_end.offset
    if claim.kraft_version != 0 or claim.voter_ids or not end:
        return False
    return claim.is_controller if report is None else claim.node_id in report.voter_ids
