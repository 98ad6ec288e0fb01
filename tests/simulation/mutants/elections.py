"""Mutants of voting and of the roles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import trio

from kraft_trio.actors.election import election, leader_discovery, role_changes
from kraft_trio.actors.replication import follower_replication, replica_fetch
from kraft_trio.messages import TimedOut
from kraft_trio.protocol import roles, votes
from kraft_trio.protocol.roles import (
    TRANSITIONS,
    Candidate,
    Event,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Transition,
    Unattached,
)
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.protocol.votes import VoteDecision
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.script.catalog import parse_step
from kraft_trio.storage.directory.quorum_state import QuorumStateFile, encode_quorum_state

from .mutant import Change, mutant, without_assertions
from .runs import campaign, custom, script, storm

ELECTIONS = storm("restarts", "restart", "kill", "isolate", gap_s=0.25, operations_per_s=3)
CRASHES = storm("power failures", "crash", "crash_all", "isolate", gap_s=0.3, operations_per_s=6)


async def _two_candidates(cluster: Cluster) -> None:
    await parse_step("elect 1").take(cluster)
    await parse_step("settle").take(cluster)
    await parse_step("cut 2 | 3").take(cluster)
    await campaign(cluster, 2, 3)
    await trio.sleep(0.5)


async def _append_beside_a_vote(cluster: Cluster) -> None:
    """A client asks the leader to append while that stores its vote for another node, which takes long."""
    await parse_step("elect 1").take(cluster)
    await parse_step("settle").take(cluster)
    await parse_step("cut 2 | 3").take(cluster)
    await parse_step("slow-disk 1 400ms").take(cluster)
    await campaign(cluster, 2)
    await trio.sleep(0.6)
    cluster.nursery.start_soon(cluster.nodes[1].append, [b"late"])
    await trio.sleep(1.5)


LATE_APPEND = custom("an append beside a vote", _append_beside_a_vote)
TWO_CANDIDATES = custom("two candidates in one epoch", _two_candidates)
BLANK = script(
    "a blank disk",
    """
    set controller.quorum.election.timeout.ms 200
    set controller.quorum.fetch.timeout.ms 400
    elect 1
    append "a"
    blank-disk 3
    start 3
    wait 1s
    isolate 1
    restart 3
    wait 3s
    """,
)
LOST = script(
    "a candidate alone",
    """
    set controller.quorum.election.timeout.ms 200
    set controller.quorum.fetch.timeout.ms 400
    elect 1
    isolate 3
    elect 3
    """,
)
LONG_TAIL = script(
    "a leader cut off with many records that nobody else has",
    """
    set controller.quorum.election.timeout.ms 200
    set controller.quorum.fetch.timeout.ms 400
    elect 1
    wait 300ms
    isolate 1
    wait 800ms
    kill 2 3
    heal
    start 2 3
    wait 2s
    """,
    clients=8,
)


def _unchecked(old: Any, event: Event, new: Any, *, self_key: object) -> Transition:
    known = TRANSITIONS.get((type(old), event))
    return known if known is not None else Transition(type(new), True)


UNCHECKED: Change = (election, "check_transition", _unchecked)
"""A programmer who breaks the rule on purpose changes the node's own assertions with it."""


@mutant(breaks="a replica votes once in an epoch", found_by=(3,), run=TWO_CANDIDATES)
def the_vote_given_is_ignored() -> Iterable[Change]:
    real = role_changes.decide_vote

    def decide(role: Any, request: Any, log_end: Any) -> VoteDecision:
        if isinstance(role, Unattached | Prospective) and not request.pre_vote and role.voted != request.replica:
            role = attrs.evolve(role, voted=None)
        return real(role, request, log_end)

    return [(role_changes, "decide_vote", decide), UNCHECKED]


@mutant(breaks="a vote is stored before it is answered", found_by=(2, 3), run=ELECTIONS)
def a_vote_is_not_stored() -> Iterable[Change]:
    real = QuorumStateFile.write

    async def write(self: Any, state: Any, kraft_version: int, static_voters: Any) -> None:
        await real(self, attrs.evolve(state, voted_key=None), kraft_version, static_voters)

    return [(QuorumStateFile, "write", write)]


@mutant(breaks="a node stores its state durably before it acts on it", found_by=(2, 3), run=ELECTIONS)
def quorum_state_is_written_without_fsync() -> Iterable[Change]:
    async def write(self: Any, state: Any, kraft_version: int, static_voters: Any) -> None:
        content = encode_quorum_state(state, kraft_version, static_voters)
        self._disk.replace_now(self._path, content, durable=False)

    return [(QuorumStateFile, "write", write)]


@mutant(breaks="a vote survives a restart", found_by=(3,), run=ELECTIONS, seeds=4)
def the_vote_is_forgotten_at_a_restart() -> Iterable[Change]:
    real = election.initial_role

    def initial(state: Any, *others: Any) -> Any:
        return real(None if state is None else attrs.evolve(state, voted_key=None), *others)

    return [(election, "initial_role", initial)]


@mutant(breaks="a vote holds until the epoch ends", found_by=(3,), run=ELECTIONS)
def the_vote_is_dropped_when_the_leader_is_known() -> Iterable[Change]:
    return [(role_changes, "vote_of", lambda role, key: None), UNCHECKED]


@mutant(breaks="a candidate that lost keeps its own vote", found_by=(2, 3), run=LOST)
def a_lost_candidate_forgets_its_own_vote() -> Iterable[Change]:
    real = role_changes._on_timeout

    def on_timeout(now: Any) -> Any:
        if isinstance(now.role, Candidate):
            return Event.ELECTION_TIMED_OUT, Prospective(now.role.epoch)
        return real(now)

    return [(role_changes, "_on_timeout", on_timeout), UNCHECKED]


@mutant(breaks="a voter votes only for a log at least as good as its own", found_by=(7, 9, 11), run=CRASHES, seeds=8)
def a_stale_log_gets_the_vote() -> Iterable[Change]:
    return [(OffsetAndEpoch, "is_at_least_as_up_to_date_as", lambda self, other: True)]


@mutant(breaks="the later epoch decides between two logs, then the length", found_by=(7, 9, 11), run=LONG_TAIL, seeds=8)
def logs_are_compared_by_length_first() -> Iterable[Change]:
    return [(OffsetAndEpoch, "is_at_least_as_up_to_date_as", lambda self, other: self >= other)]


@mutant(breaks="a pre-vote does not count as a vote", found_by=(17,), run=ELECTIONS)
def a_majority_of_pre_votes_makes_a_leader() -> Iterable[Change]:
    real = role_changes._on_vote_round_ended

    def ended(now: Any, message: Any) -> Any:
        if isinstance(now.role, Prospective) and message.won:
            return Event.ELECTION_WON, Leader(now.role.epoch, now.log_end.offset, message.granting)
        return real(now, message)

    return [(role_changes, "_on_vote_round_ended", ended), UNCHECKED]


@mutant(breaks="a pre-vote promises nothing", found_by=(3,), run=ELECTIONS)
def a_pre_vote_granted_is_stored_as_a_vote() -> Iterable[Change]:
    real = votes._decide_pre_vote

    def decide(role: Any, *others: Any) -> VoteDecision:
        decision = real(role, *others)
        return decision if not decision.granted else attrs.evolve(decision, voted_role=None)

    def decide_vote(role: Any, request: Any, log_end: Any) -> VoteDecision:
        decision = real_vote(role, request, log_end)
        if request.pre_vote and decision.granted and isinstance(role, Unattached | Prospective) and role.voted is None:
            return attrs.evolve(decision, voted_role=attrs.evolve(role, voted=request.replica))
        return decision

    real_vote = role_changes.decide_vote
    return [(votes, "_decide_pre_vote", decide), (role_changes, "decide_vote", decide_vote), UNCHECKED]


@mutant(breaks="a pre-vote is asked for in the present epoch", found_by=(2, 17, 23), run=ELECTIONS)
def asking_for_pre_votes_raises_the_epoch() -> Iterable[Change]:
    real = role_changes._on_timeout

    def on_timeout(now: Any) -> Any:
        change = real(now)
        if change is not None and isinstance(change[1], Prospective):
            return change[0], Prospective(change[1].epoch + 1)
        return change

    return [(role_changes, "_on_timeout", on_timeout), UNCHECKED]


@mutant(breaks="a node remembers the leader until the epoch ends", found_by=(2, 17), run=ELECTIONS)
def a_lost_leader_is_forgotten_in_its_epoch() -> Iterable[Change]:
    real = role_changes._on_timeout

    def on_timeout(now: Any) -> Any:
        change = real(now)
        if change is not None and isinstance(now.role, Follower):
            return change[0], Prospective(now.role.epoch, voted=now.role.voted)
        return change

    return [(role_changes, "_on_timeout", on_timeout), UNCHECKED]


@mutant(breaks="a blank disk does not answer for the voter", found_by=(22,), run=BLANK, seeds=3)
def a_vote_meant_for_another_disk_is_answered() -> Iterable[Change]:
    return [(role_changes, "voter_key_error", lambda *_: None)]


@mutant(breaks="an id and a directory id identify a voter", found_by=(16, 11, 22), run=BLANK, seeds=3)
def voters_are_told_by_their_ids_alone() -> Iterable[Change]:
    return [(VoterSet, "is_voter", lambda self, key: self.get(key.id) is not None)]


@mutant(breaks="only members of their own set campaign", found_by=(16,), run=storm("observers", observers=1, seconds=5))
def an_observer_campaigns() -> Iterable[Change]:
    real = election.Election._has_timer

    def has_timer(self: Any, role: Any) -> bool:
        return isinstance(role, Unattached) or bool(real(self, role))

    return [(role_changes, "may_campaign", lambda voters, key: True), (election.Election, "_has_timer", has_timer)]


@mutant(breaks="a candidate needs a majority", found_by=(22, 1), run=ELECTIONS)
def a_minority_of_votes_elects() -> Iterable[Change]:
    return [(votes.VoteTally, "is_won", property(lambda self: 2 * len(self.granted) + 1 >= len(self.voters)))]


@mutant(breaks="a refusal does not count as a vote", found_by=(1, 7, 22), run=TWO_CANDIDATES)
def a_refusal_counts_as_a_vote() -> Iterable[Change]:
    return [(votes.VoteTally, "rejected_by", votes.VoteTally.granted_by)]


@mutant(breaks="a restarted leader resigns", found_by=(4, 17), run=ELECTIONS)
def a_restarted_leader_leads_on() -> Iterable[Change]:
    real = election.initial_role

    def initial(*given: Any) -> Any:
        role = real(*given)
        return Leader(role.epoch, 0) if isinstance(role, Resigned) else role

    return [(election, "initial_role", initial)]


@mutant(breaks="a restarted leader resigns", found_by=(4,), run=ELECTIONS)
def a_restarted_leader_asks_for_its_epoch_again() -> Iterable[Change]:
    real = election.initial_role

    def initial(state: Any, log_end_epoch: int, key: Any, voters: Any) -> Any:
        role = real(state, log_end_epoch, key, voters)
        return Candidate(role.epoch) if isinstance(role, Resigned) else role

    return [(election, "initial_role", initial)]


@mutant(breaks="a node stores a new epoch before it acts in it", found_by=(2,), run=ELECTIONS, seeds=8)
def a_higher_epoch_seen_is_not_stored() -> Iterable[Change]:
    def unstored(*given: Any, self_key: Any) -> Transition:
        transition = roles.check_transition(*given, self_key=self_key)
        return attrs.evolve(transition, durable=transition.durable and given[1] is not Event.HIGHER_EPOCH_SEEN)

    return [(election, "check_transition", unstored)]


@mutant(breaks="an epoch never falls", found_by=(2, 3), run=ELECTIONS)
def the_epoch_after_a_restart_is_that_of_the_log() -> Iterable[Change]:
    real = election.initial_role

    def initial(state: Any, log_end_epoch: int, *others: Any) -> Any:
        return real(None, log_end_epoch, *others)

    return [(election, "initial_role", initial)]


@mutant(
    breaks="the tasks of an epoch end before the next one begins",
    found_by=(6, 20, 5, 11, 9, 10, 4),
    run=CRASHES,
    seeds=8,
)
def the_tasks_of_an_epoch_go_on_in_the_next() -> Iterable[Change]:
    async def run(self: Any) -> None:
        await self._persist()
        message = ruling = None
        async with trio.open_nursery() as nursery:
            while True:
                self._start_role(nursery)
                if message is not None:
                    self._serve_in_role(message, ruling)
                message = await self._serve_until_role_changes()
                ruling = await self._change_role(message)

    def watch_timer(self: Any, stamp: Any) -> Any:
        timer = self._timer

        async def watch() -> None:
            with timer:
                await trio.sleep_forever()
            await self.tell(TimedOut(stamp))

        return watch()

    unasserted = without_assertions(replica_fetch.replica_fetch_request)
    return [
        (election.Election, "run", run),
        (election.Election, "_watch_timer", watch_timer),
        (follower_replication, "replica_fetch_request", unasserted),
        (leader_discovery, "replica_fetch_request", unasserted),
    ]


@mutant(breaks="the tasks of an epoch end before a vote is judged", found_by=(7,), run=LATE_APPEND)
def the_role_changes_before_its_tasks_have_ended() -> Iterable[Change]:
    async def run(self: Any) -> None:
        await self._persist()
        message = ruling = None
        while True:
            async with trio.open_nursery() as nursery:
                self._start_role(nursery)
                if message is not None:
                    self._serve_in_role(message, ruling)
                message = await self._serve_until_role_changes()
                ruling = await self._change_role(message)
                nursery.cancel_scope.cancel()
            if self._log.synced_end_offset < self._log.end_offset:
                await self._log.sync()

    return [(election.Election, "run", run)]
