"""Mutants of gossip, which may say where a voter is, and nothing else (docs/explanation/protocol.md#gossip)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import trio

from kraft_trio.actors.election import role_changes
from kraft_trio.actors.election.vote_round import VoteRound
from kraft_trio.protocol.gossip import Whereabouts
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.script.catalog import parse_step

from .mutant import Change, mutant
from .runs import campaign, custom


async def _observers_are_advertised(cluster: Cluster) -> None:
    for step in ("elect 2", "settle", "cut 1 4 5 | 2 3", "lie 1 about 4 at 4", "lie 1 about 5 at 5"):
        await parse_step(step).take(cluster)
    await campaign(cluster, 1)
    await trio.sleep(1)


async def _all_are_said_to_be_at_one_place(cluster: Cluster) -> None:
    lies = (f"lie 1 about {id} at 3" for id in (2, 4, 5))
    for step in ("elect 2", "settle", "cut 1 3 | 2 4 5", *lies):
        await parse_step(step).take(cluster)
    await campaign(cluster, 1)
    await trio.sleep(1)


OBSERVERS = custom("observers are advertised to a voter", _observers_are_advertised, voters=3, observers=2)
ONE_PLACE = custom("voters are said to be where another one is", _all_are_said_to_be_at_one_place, voters=5)


@mutant(breaks="gossip never says who votes", found_by=(22,), run=OBSERVERS)
def gossip_is_trusted_for_membership() -> Iterable[Change]:
    real = VoteRound.__init__

    def with_advertised(self: Any, context: Any, role: Any, *, log_end: Any, voters: VoterSet) -> None:
        known = {voter.id: voter for voter in voters}
        for heard in context.addresses.whereabouts:
            known.setdefault(heard.key.id, Voter(heard.key, heard.endpoints))
        real(self, context, role, log_end=log_end, voters=VoterSet(known.values()))

    return [
        (VoteRound, "__init__", with_advertised),
        (Whereabouts, "refusal", lambda self, heard, voters: heard.defect()),
        (Whereabouts, "of_voters", lambda self, voters: self),
    ]


@mutant(breaks="a voter does not answer for another one", found_by=(22,), run=ONE_PLACE)
def a_vote_meant_for_another_voter_is_answered() -> Iterable[Change]:
    return [(role_changes, "voter_key_error", lambda *_: None)]
