"""Mutants of voter changes: who may ask for one when, which set counts, who counts in it, and what it is answered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from unittest import mock

import trio

from kraft_trio.actors.context.replica_progress import ProgressTable
from kraft_trio.actors.election import role_changes
from kraft_trio.actors.election.election import Election
from kraft_trio.actors.election.role_changes import Situation
from kraft_trio.actors.election.vote_round import VoteRound
from kraft_trio.actors.membership import voter_change_coordinator
from kraft_trio.actors.membership.voter_change import VoterChangeSteps
from kraft_trio.actors.membership.voter_change_coordinator import VoterChangeCoordinator
from kraft_trio.actors.replication import leader_replication
from kraft_trio.actors.replication.leader_replication import LeaderReplication
from kraft_trio.protocol import voter_history
from kraft_trio.protocol.high_watermark import next_high_watermark
from kraft_trio.protocol.roles import Candidate, Event, Prospective
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.protocol.voter_changes import remove_voter
from kraft_trio.protocol.voter_history import VoterHistory
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.protocol.votes import VoteDecision
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.script.catalog import parse_step
from kraft_trio.simulation.setup import LISTENER
from kraft_trio.storage.batches.control_records import VotersRecord
from kraft_trio.wire.apis.update_raft_voter import UPDATE_RAFT_VOTER, UpdateRaftVoterRequest
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode

from .mutant import Change, mutant
from .runs import custom, scenario, script


async def _nobody_listens(cluster: Cluster) -> None:
    """A voter names an address where nobody listens; nothing may be appended, because it would stay for good."""
    await parse_step("elect 1").take(cluster)
    end = cluster.nodes[1].log.end_offset
    key = cluster.key_of(3)
    elsewhere = Endpoints({LISTENER: Endpoint("node-3", 9999)})
    supported = cluster.config_of(3).as_voter(key.directory_id).kraft_versions
    stream = await cluster.network.seen_from("client-3").connect(cluster.endpoint_of(1))
    connection = await Connection.negotiated(stream, "told", 2**20)
    epoch = cluster.nodes[1].view.epoch
    request = UpdateRaftVoterRequest(cluster.cluster_id, epoch, key.id, key.directory_id, elsewhere, supported)
    with trio.move_on_after(5):
        await connection.request(UPDATE_RAFT_VOTER, request)
    await connection.aclose()
    if cluster.nodes[1].log.end_offset > end:
        facts = (f"{key} says that it is at {elsewhere}, where nobody listens", "the leader appends it to its log")
        cluster.violate("an address that nobody reaches is not in the voter set", facts)
        await trio.sleep_forever()


NOBODY_LISTENS = custom("a voter says that it is where nobody listens", _nobody_listens)

FIRST_ELECTION_OF_1 = """
voters 1 2 3
observers 4 5
elect 1
append "a"
"""


@mutant(
    breaks="a voter change waits for the first commit of the epoch",
    found_by=(14,),
    run=scenario("s01_add_then_remove", expects=False),
)
def a_change_does_not_wait_for_the_first_commit_of_the_epoch() -> Iterable[Change]:
    async def at_once(self: Any, change: Any) -> None:
        pass

    return [
        (VoterChangeSteps, "_until_epoch_is_committed", at_once),
        (VoterChangeSteps, "_until_nothing_is_pending", at_once),
    ]


@mutant(
    breaks="a voter change waits for the first commit of the epoch",
    found_by=(14,),
    run=scenario("s01_add_then_add", expects=False),
)
def the_high_watermark_of_an_older_epoch_will_do_for_a_change() -> Iterable[Change]:
    async def until_anything_is_committed(self: Any, change: Any) -> None:
        while self._log.high_watermark is None:
            await self._log.changed.park()

    return [(VoterChangeSteps, "_until_epoch_is_committed", until_anything_is_committed)]


@mutant(
    breaks="a new voter set counts from its append",
    found_by=(11,),
    run=script(
        "a voter is added that is slow, while another one is cut off",
        f"""
        {FIRST_ELECTION_OF_1}
        isolate 3
        slow-disk 4 5s
        add-voter 4 at 1
        wait 1s
        """,
    ),
)
def the_old_set_counts_until_the_new_one_is_committed() -> Iterable[Change]:
    real = LeaderReplication._advance_high_watermark

    def advance(self: Any) -> None:
        history, known = self._log.voters, self._log.high_watermark
        old = history.voters if known is None else history.voters_at(known - 1)

        def by_the_old_set(voters: Any, *, synced_end_offsets: Any, **given: Any) -> int | None:
            synced = self.progress.synced_end_offsets(old, self._log.synced_end_offset)
            return next_high_watermark(old, synced_end_offsets=synced, **given)

        with mock.patch.object(leader_replication, "next_high_watermark", by_the_old_set):
            real(self)

    return [(LeaderReplication, "_advance_high_watermark", advance)]


@mutant(
    breaks="a change adds or removes one replica",
    found_by=(13,),
    run=script("a voter is added", f'{FIRST_ELECTION_OF_1}\nadd-voter 4\nappend "b"\n'),
)
def a_new_voter_takes_the_place_of_another_so_that_their_number_stays_odd() -> Iterable[Change]:
    def add(voters: Any, voter: Any) -> Any:
        kept = tuple(voters)[:-1] if len(voters) % 2 else tuple(voters)
        return VoterSet((*kept, voter))

    return [(voter_change_coordinator, "add_voter", add)]


@mutant(
    breaks="a disk is replaced in two changes",
    found_by=(13,),
    run=scenario("s08_disk_is_replaced", expects=False),
)
def a_new_disk_takes_the_place_of_the_old_one_at_once() -> Iterable[Change]:
    def add(voters: Any, voter: Any) -> Any:
        return VoterSet((*(known for known in voters if known.id != voter.id), voter))

    return [(voter_change_coordinator, "add_voter", add)]


@mutant(
    breaks="a commit counts voters by id and directory id",
    found_by=(11, 22),
    run=scenario("s08_replaced_disk_is_not_counted", expects=False),
)
def commits_count_voters_by_their_ids_alone() -> Iterable[Change]:
    def synced(self: Any, voters: Any, own: int) -> Any:
        by_id = {key.id: progress.end_offset for key, progress in self._replicas.items()} | {self._leader.id: own}
        return {voter.key: by_id[voter.id] for voter in voters if voter.id in by_id}

    return [(ProgressTable, "synced_end_offsets", synced)]


@mutant(
    breaks="a vote request names the voter's directory id",
    found_by=(7, 9, 11, 22),
    run=scenario("s02_stale_voter_and_blank_disks", expects=False),
)
def votes_ask_any_voter_with_the_id() -> Iterable[Change]:
    return [(role_changes, "voter_key_error", lambda *_: None)]


@mutant(
    breaks="a candidate need not be in the voter's own set",
    found_by=(0,),
    run=scenario("s02_candidate_that_nobody_knows"),
)
def a_candidate_that_is_not_known_gets_no_vote() -> Iterable[Change]:
    real = role_changes._judge_vote

    def judge_vote(now: Any, request: Any) -> Any:
        judgement = real(now, request)
        if judgement.ruling is None or now.voters.is_voter(request.replica):
            return judgement
        return role_changes.Judgement(ruling=role_changes.Ruling(vote=VoteDecision(False, "no voter")))

    return [(role_changes, "_judge_vote", judge_vote)]


@mutant(
    breaks="a truncation restores the earlier voter set",
    found_by=(15,),
    run=scenario("s07_removal_vanishes", expects=False),
)
def a_truncated_voter_set_stays_in_force() -> Iterable[Change]:
    def truncate(self: Any, offset: int) -> bool:
        return False

    return [(VoterHistory, "truncate_to", truncate)]


@mutant(
    breaks="a replica that knows it was removed does not campaign",
    found_by=(16,),
    run=scenario("s05_removed_voter", expects=False),
)
def a_removed_voter_campaigns() -> Iterable[Change]:
    def the_set_before(self: Any) -> VoterSet:
        history = self._log.voters
        return VoterSet() if history.voters_offset is None else history.voters_at(history.voters_offset - 1)

    return [(Election, "_previous_voters", property(the_set_before))]


@mutant(
    breaks="a removed voter that does not know asks first and disturbs nobody",
    found_by=(0, 17),
    run=scenario("s05_removed_while_away"),
)
def a_removed_voter_campaigns_as_nobody_answers_it() -> Iterable[Change]:
    real = role_changes._on_timeout

    def on_timeout(now: Any) -> Any:
        if isinstance(now.role, Prospective):
            return Event.PRE_VOTE_WON, Candidate(now.role.epoch + 1)
        return real(now)

    return [(role_changes, "_on_timeout", on_timeout)]


@mutant(
    breaks="a leader can be elected while its own removal is uncommitted",
    found_by=(0,),
    run=scenario("s07_in_a_set_of_two"),
)
def only_members_of_the_newest_set_campaign() -> Iterable[Change]:
    newest: Any = property(lambda self: role_changes.may_campaign(self.voters, self.key))
    return [(Situation, "is_needed", newest)]


@mutant(
    breaks="the newest voter set counts votes, committed or not",
    found_by=(1, 7, 15, 22),
    run=scenario("s15_all_killed_voter_is_in", expects=False),
)
def votes_are_counted_by_the_set_from_before() -> Iterable[Change]:
    real = VoteRound.__init__

    def init(self: Any, context: Any, role: Any, *, voters: VoterSet, **given: Any) -> None:
        history = context.log.voters
        uncommitted = history.uncommitted(context.log.high_watermark)
        before = history.voters_at(uncommitted[-1] - 1) if uncommitted else VoterSet()
        real(self, context, role, voters=before if len(before) else voters, **given)

    return [(VoteRound, "__init__", init)]


@mutant(
    breaks="a leader outside its set does not count itself",
    found_by=(11,),
    run=scenario("s06_leader_does_not_count_itself", expects=False),
)
def a_leader_outside_its_set_counts_itself() -> Iterable[Change]:
    def next_(voters: Any, synced_end_offsets: Any, leader: ReplicaKey, **given: Any) -> int | None:
        if voters.is_voter(leader):
            return next_high_watermark(voters, synced_end_offsets, leader, **given)
        offsets = sorted((synced_end_offsets.get(key, 0) for key in (leader, *(v.key for v in voters))), reverse=True)
        reached, current = offsets[voters.majority - 1], given["current"]
        return reached if reached > max(given["epoch_start_offset"], current or 0) else current

    return [(leader_replication, "next_high_watermark", next_)]


@mutant(
    breaks="a leader outside its set does not count itself as reached",
    found_by=(0,),
    run=scenario("s06_leader_does_not_count_itself"),
)
def a_leader_outside_its_set_is_in_contact_with_itself() -> Iterable[Change]:
    real = leader_replication.has_majority_contact

    def has(voters: VoterSet, leader: ReplicaKey, last_contact_ms: Any, now_ms: float, timeout_ms: float) -> bool:
        silent = [voter.key for voter in voters if now_ms - last_contact_ms.get(voter.key, 0.0) >= timeout_ms]
        if not voters.is_voter(leader) and silent:
            last_contact_ms = {**last_contact_ms, silent[0]: now_ms}
        return real(voters, leader, last_contact_ms, now_ms, timeout_ms)

    return [(leader_replication, "has_majority_contact", has)]


@mutant(
    breaks="one change at a time",
    found_by=(12,),
    run=scenario("one_change_at_a_time", expects=False),
)
def two_changes_are_made_at_a_time() -> Iterable[Change]:
    @asynccontextmanager
    async def in_turn(self: Any, change: Any) -> AsyncIterator[None]:
        await self._until_epoch_is_committed(change)
        yield

    return [(VoterChangeSteps, "in_turn", in_turn)]


@mutant(
    breaks="a change is answered when it is committed",
    found_by=(21,),
    run=scenario("s07_removal_vanishes", expects=False),
)
def a_change_is_answered_when_it_is_appended() -> Iterable[Change]:
    real = VoterChangeSteps.until_committed

    async def wait(self: Any, change: Any) -> None:
        change.answer(ErrorCode.none)
        await real(self, change)

    return [(VoterChangeSteps, "until_committed", wait)]


@mutant(breaks="the leader tries a new address before it accepts it", found_by=(0,), run=NOBODY_LISTENS)
def a_voter_is_believed_where_it_is() -> Iterable[Change]:
    return [(VoterChangeCoordinator, "_is_elsewhere", lambda self, voter: False)]


@mutant(
    breaks="a leader resigns when its removal is committed",
    found_by=(0,),
    run=scenario("s06_leader_removes_itself"),
)
def a_removed_leader_leads_on() -> Iterable[Change]:
    async def remove(self: Any, change: Any, key: ReplicaKey) -> None:
        async with self._steps.in_turn(change):
            record = VotersRecord(voter_change_coordinator.require(remove_voter(self._steps.voters, key)))
            await self._steps.append(change, record)
            await self._steps.until_committed(change)

    return [(VoterChangeCoordinator, "_remove", remove)]


@mutant(
    breaks="a new voter catches up first",
    found_by=(0,),
    run=scenario("new_voter_catches_up_first"),
)
def a_new_voter_is_not_asked_to_catch_up() -> Iterable[Change]:
    return [(VoterChangeSteps, "is_caught_up", lambda self, key: True)]


@mutant(
    breaks="the upgrade needs every voter's directory id",
    found_by=(0, 15, 22),
    run=scenario("upgrade_needs_every_voter"),
)
def the_upgrade_takes_voters_as_they_are_known() -> Iterable[Change]:
    def upgrade(voters: Any, told: Any, version: int, observers: Any) -> Any:
        return VoterSet(told.get(voter.id, voter) for voter in voters)

    return [(voter_change_coordinator, "upgrade_voters", upgrade)]


@mutant(
    breaks="a removed voter does not join again by itself",
    found_by=(0,),
    run=scenario("removed_voter_does_not_join_again"),
)
def a_removed_voter_joins_again() -> Iterable[Change]:
    return [(voter_history, "removed_after", lambda removed, before, after: ())]
