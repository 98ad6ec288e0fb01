"""Mutants of gossip, which may say where a voter is, and nothing else (docs/PROTOCOL.md#gossip)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import trio

from kraft_trio.actors import role_changes
from kraft_trio.actors.vote_round import VoteRound
from kraft_trio.protocol.gossip import Advertisement, Whereabouts
from kraft_trio.protocol.types import Endpoints
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.script.catalog import parse_step
from kraft_trio.simulation.setup import LISTENER
from kraft_trio.wire.api import DISCOVER_VOTERS
from kraft_trio.wire.apis.discover_voters import DiscoverVotersRequest
from kraft_trio.wire.connection import Connection

from .mutant import Change, mutant
from .runs import campaign, custom


async def _lie(cluster: Cluster, node_id: int, places: dict[int, int]) -> None:
    """Tell the node that each of these replicas is where another node listens."""
    advertisements = tuple(
        Advertisement(cluster.key_of(id), 99, 1, Endpoints({LISTENER: cluster.endpoint_of(place)}))
        for id, place in places.items()
    )
    stream = await cluster.network.seen_from("liar").connect(cluster.endpoint_of(node_id))
    connection = await Connection.negotiated(stream, "liar", 2**20)
    await connection.request(DISCOVER_VOTERS, DiscoverVotersRequest(cluster.cluster_id, advertisements))
    await connection.aclose()


async def _observers_are_advertised(cluster: Cluster) -> None:
    await parse_step("elect 2").take(cluster)
    await parse_step("settle").take(cluster)
    await parse_step("cut 1 4 5 | 2 3").take(cluster)
    await _lie(cluster, 1, {4: 4, 5: 5})
    await campaign(cluster, 1)
    await trio.sleep(1)


async def _all_are_said_to_be_at_one_place(cluster: Cluster) -> None:
    await parse_step("elect 2").take(cluster)
    await parse_step("settle").take(cluster)
    await parse_step("cut 1 3 | 2 4 5").take(cluster)
    await _lie(cluster, 1, {2: 3, 4: 3, 5: 3})
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
