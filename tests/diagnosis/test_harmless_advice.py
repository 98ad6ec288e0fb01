"""No finding advises to stop, format or replace a node that may have the only copy of something."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.diagnosis.quorum_findings import findings
from kraft_trio.diagnosis.quorum_situation import Claim, Situation
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from tests.diagnosis.situations import says, silent

IDS = (1, 2, 3)
DISKS = st.sampled_from([UUID(int=number) for number in (1, 2, 3)])
HARM = re.compile(r"[Ss]top (it|the|all|node)|[Ff]ormat (it|each|a )|Replace the disk|\breplace -i|storage format")
"""What would end or change a node."""


@st.composite
def claims(draw: st.DrawFn) -> tuple[Claim, ...]:
    """Nodes that are silent, or say something of their disks, their logs and the voters, true or not."""
    ends = draw(st.sampled_from([(0, 0), (3, 9)]))  # Often, nobody was ever elected.
    told = []
    for node_id in IDS:
        if draw(st.integers(0, 4)) == 0:
            told.append(silent(node_id))
            continue
        voter_ids = draw(st.sampled_from([(1, 2, 3), (1, 2, 3), (1, 2), (3,), ()]))
        own, others = draw(DISKS), draw(DISKS)
        epoch = draw(st.integers(0, ends[0]))
        end = (draw(st.integers(0, ends[1])) if epoch else 0, epoch)
        fields: dict[str, Any] = {
            "voter_ids": voter_ids,
            "voter_keys": tuple(ReplicaKey(id, own if id == node_id else others) for id in voter_ids),
            "directory_id": own if draw(st.integers(0, 3)) else others,
            "kraft_version": draw(st.sampled_from([0, 1, 1])),
            "is_controller": draw(st.booleans()),
            "as_initial": f"{node_id}@h:1:x" if node_id in voter_ids else None,
            "lacks_metadata": draw(st.integers(0, 4)) == 0,
        }
        told.append(says(node_id, epoch=epoch, leader=None, end=end, **fields))
    return tuple(told)


@given(claims())
def test_without_a_leader_nobody_is_stopped_or_formatted_who_may_have_records(told: tuple[Claim, ...]) -> None:
    """Nodes are formatted again only if all voters answer, and none of them ever had a leader."""
    for finding in findings(Situation(told)):
        if HARM.search(f"{finding.text} {finding.command}"):
            assert finding.code == "other-lists"
            assert all(claim.problem is None for claim in told if claim.node_id in Situation(told).voter_ids)
            assert all(claim.log_end is None or claim.log_end.epoch == 0 for claim in told)


@given(claims())
def test_winners_have_the_votes_of_a_majority(told: tuple[Claim, ...]) -> None:
    """Nobody is said to win whom most of the voters that it knows would refuse."""
    situation = Situation(told)
    for finding in findings(situation):
        named = re.search(r"These can win: ([^.]*)\.", finding.text)
        for name in named[1].split(", ") if named else ():
            [candidate] = [claim for claim in told if claim.name == name]
            known = {key.id: key.directory_id for key in candidate.voter_keys}
            granting = [
                claim
                for claim in situation.answers
                if claim.node_id in known
                and known[claim.node_id] == claim.directory_id
                and (claim.log_end or OffsetAndEpoch(0, 0)).epoch <= (candidate.log_end or OffsetAndEpoch(0, 0)).epoch
            ]
            assert candidate.node_id in known
            assert 2 * len(granting) > len(known)
