"""The voters of a quorum without a leader: who answers with their disks, who is silent, and who can win an election."""

from __future__ import annotations

from functools import cached_property

import attrs

from kraft_trio.diagnosis.quorum_situation import Claim, Situation, end_of, runs_nevertheless
from kraft_trio.protocol.types import NO_DIRECTORY_ID
from kraft_trio.protocol.voter_set import majority_of


@attrs.frozen
class Electorate:
    """What the answers together say of the voters."""

    situation: Situation

    @property
    def voter_ids(self) -> tuple[int, ...]:
        """Empty if nobody tells them."""
        return self.situation.voter_ids

    @property
    def majority(self) -> int:
        return majority_of(len(self.voter_ids))

    @property
    def _answers(self) -> list[Claim]:
        return [claim for claim in self.situation.answers if not claim.is_of_other_cluster]

    @cached_property
    def denying(self) -> list[Claim]:
        return [claim for claim in self.situation.answers if claim.denial is not None]

    @cached_property
    def other_disks(self) -> list[Claim]:
        """Nodes of voters that answer with blank or other disks.

        A controller of Kafka's without metadata is one of them if those that answer are a majority, and elect nobody.
        So is a node of ours that has nothing in its log and was formatted without voters, if others call it a voter.
        """
        answers = self._answers
        has_majority = len({claim.node_id for claim in answers} & set(self.voter_ids)) >= self.majority
        return [
            claim
            for claim in answers
            if self.situation.has_other_disk(claim)
            or (claim.node_id in self.voter_ids and (_is_blank(claim) or (claim.lacks_metadata and has_majority)))
        ]

    @cached_property
    def answering(self) -> list[Claim]:
        """Voters that answer with their disks, or with disks of which nothing is known."""
        answers = self._answers
        return [claim for claim in answers if claim.node_id in self.voter_ids and claim not in self.other_disks]

    @cached_property
    def silent(self) -> list[int]:
        known = {claim.node_id for claim in (*self.answering, *self.other_disks)}
        return [voter_id for voter_id in self.voter_ids if voter_id not in known]

    @property
    def lacks_majority(self) -> bool:
        return len(self.answering) < self.majority

    @cached_property
    def may_be_up(self) -> bool:
        """Whether those that run, but refuse to be asked, may be a majority with those that answer."""
        refusing = [claim for claim in self.situation.claims if runs_nevertheless(claim)]
        return self.lacks_majority and len(self.answering) + len(refusing) >= self.majority

    @property
    def is_told(self) -> bool:
        """Whether it is known who the voters are, and that too few of them are up or that they elect nobody.

        Nodes that were formatted with different lists have no voters in common.
        """
        return bool(self.voter_ids) and not self.may_be_up and len(self.situation.lists) < 2

    @cached_property
    def winners(self) -> list[Claim]:
        """The nodes that would win: a majority of the voters that they know would elect them."""
        return [claim for claim in self.answering if claim.log_end is not None and self._would_win(claim)]

    def _would_win(self, candidate: Claim) -> bool:
        asked = self.voter_ids if candidate.voter_ids is None else candidate.voter_ids
        if candidate.node_id not in asked:
            return False  # It does not campaign.
        granting = [voter for voter in self.answering if voter.node_id in asked and grants(voter, candidate)]
        return len(granting) >= majority_of(len(asked))


def _is_blank(claim: Claim) -> bool:
    return claim.log_end is not None and claim.log_end.offset == 0 and not claim.voter_ids


def grants(voter: Claim, candidate: Claim) -> bool:
    """Whether a voter that follows nobody would vote for that candidate (KIP-853, "Vote").

    It refuses if the candidate asks for the vote of another disk (INVALID_VOTER_KEY), or its own log is newer.
    """
    return not is_other_key(voter, candidate) and end_of(voter) <= end_of(candidate)


def is_other_key(voter: Claim, candidate: Claim) -> bool:
    """Whether the candidate's voter set has another directory id for that voter than it runs with."""
    known = next((key.directory_id for key in candidate.voter_keys if key.id == voter.node_id), None)
    return known != voter.directory_id and not {known, voter.directory_id} & {None, NO_DIRECTORY_ID}
