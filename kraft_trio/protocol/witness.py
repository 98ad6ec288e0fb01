"""When a witness campaigns: only if the logs leave nobody else (`kraft.witness`).

A witness votes and counts like any voter, but it should lead only so that others can.  What it hears since it last
heard from a leader decides:

| it has heard                                       | it campaigns                             |
|----------------------------------------------------|------------------------------------------|
| of nobody                                          | not: somebody else may                   |
| of voters whose logs are behind its own            | one election timeout after the first one |
| also of one whose log is as good as its own        | not before `PATIENCE` election timeouts  |
| a majority's pre-votes for it, `MAJORITIES` times  | at once: nobody has used them            |

Safety needs no rule here, because the votes are those of Raft.  For liveness, take a majority that can elect somebody.
Its other voters ask each other and the witness, time and again.  One whose log is as good as the witness's needs no
witness to lead: it gets the same votes.  If all are behind, the witness refuses them and so hears of them, and nothing
that is heard later puts its campaign off for more than a constant.  Where the others cannot ask at all, for example
because all are witnesses, the last row helps: a pre-vote changes nothing, and its majority shows who could be led.
"""

from __future__ import annotations

from typing import Final

import attrs

PATIENCE: Final = 3
"""Election timeouts that a witness leaves to the others: each of them has asked for pre-votes within two."""
MAJORITIES: Final = 3


def doubts_leader(silent_s: float, fetch_timeout_s: float) -> bool:
    """Whether a witness gives its leader up as soon as another voter asks for a pre-vote.

    A leader answers each Fetch within a quarter of the fetch timeout.  If a voter has lost it and this node has missed
    two answers, the voter need not ask again: Kafka's would wait for a whole fetch timeout first.  A witness loses
    nothing, because it does not campaign by itself.
    """
    return silent_s >= fetch_timeout_s / 2


@attrs.frozen
class WitnessStanding:
    """What a witness has heard since it last heard from a leader.  Times are in seconds, on one clock."""

    behind_since_s: float | None = None
    """When a voter first asked for a vote whose log is behind this node's."""
    able_since_s: float | None = None
    """When a voter first asked whose log is at least as good."""
    majorities: int = 0
    """How often a majority would have voted for this node, in a row."""
    heard_at_s: float = float("-inf")
    """When any of that was heard last."""

    def after_leader(self, heard_s: float | None) -> WitnessStanding:
        """The standing if the leader was last heard at that time: later news count alone."""
        return WitnessStanding() if heard_s is not None and heard_s >= self.heard_at_s else self

    def asked(self, *, is_behind: bool, now_s: float) -> WitnessStanding:
        """The standing after another voter, whose log may be behind, has asked for a vote or pre-vote."""
        if is_behind:
            since_s = now_s if self.behind_since_s is None else self.behind_since_s
            return attrs.evolve(self, behind_since_s=since_s, heard_at_s=now_s)
        since_s = now_s if self.able_since_s is None else self.able_since_s
        return attrs.evolve(self, able_since_s=since_s, heard_at_s=now_s)

    def spared_majority(self, now_s: float) -> WitnessStanding:
        """The standing after a majority's pre-votes that the witness may not use."""
        return attrs.evolve(self, majorities=self.majorities + 1, heard_at_s=now_s)

    def found_no_majority(self) -> WitnessStanding:
        """The standing after a pre-vote that was lost."""
        return attrs.evolve(self, majorities=0)

    def campaigns_at_s(self, election_timeout_s: float) -> float | None:
        """From when on the witness may become a candidate; None if not for what it has heard."""
        if self.majorities >= MAJORITIES:
            return float("-inf")
        if self.behind_since_s is None:
            return None
        since_s = self.behind_since_s + election_timeout_s
        if self.able_since_s is not None:
            since_s = max(since_s, self.able_since_s + PATIENCE * election_timeout_s)
        return since_s
