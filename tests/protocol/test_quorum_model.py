"""The rules together: a quorum in miniature, its messages lost, repeated and reordered, its nodes restarted.

Nodes hold a role, a log of (epoch, serial) records and what they stored, and do nothing but apply the rules.  Whatever
hypothesis makes happen to them: one vote an epoch and node, one leader an epoch, logs that match, and no committed
record ever truncated or missing from a later leader.
"""

from __future__ import annotations

import itertools
from collections import defaultdict

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from quorum_builders import endpoints_of, key, voters

from kraft_trio.protocol.epoch_cache import EpochCache
from kraft_trio.protocol.high_watermark import next_high_watermark
from kraft_trio.protocol.quorum_epoch import (
    BecomeFollower,
    BecomeUnattached,
    InconsistentLeader,
    InvalidRequest,
    begin_quorum_epoch,
    learn_leader,
)
from kraft_trio.protocol.reconciliation import Diverging, check_fetch_position, truncation_point
from kraft_trio.protocol.roles import (
    Candidate,
    ElectionState,
    Event,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    after_lost_pre_vote,
    check_transition,
    election_state_of,
    initial_role,
    leader_of,
)
from kraft_trio.protocol.types import Endpoints, OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.votes import VoteFacts, VoteTally, decide_vote, must_step_down, vote_request_error
from tests.support import sizes

IDS = (1, 2, 3)
VOTERS = voters(*IDS)
NO_ENDPOINTS = Endpoints()


@attrs.frozen
class VoteAnswer:
    sender: ReplicaKey
    epoch: int
    leader_id: int | None
    asked: VoteFacts
    granted: bool


class Node:
    def __init__(self, id: int, quorum: Quorum) -> None:
        self.key = key(id)
        self.quorum = quorum
        self.stored: ElectionState | None = None
        self.log: list[tuple[int, int]] = []
        self.high_watermark: int | None = None
        self.role: Role = Unattached(0)

    @property
    def log_end(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(len(self.log), self.log[-1][0] if self.log else 0)

    @property
    def epochs(self) -> EpochCache:
        return EpochCache((epoch, offset) for offset, (epoch, _) in enumerate(self.log))

    def become(self, event: Event, role: Role) -> None:
        transition = check_transition(self.role, event, role, self_key=self.key)
        self.role = role
        if transition.durable:
            self.stored = election_state_of(role, self.key)
        assert self.stored is None or self.stored.epoch == role.epoch, "memory equals disk"

    def restart(self) -> None:
        self.role = initial_role(self.stored, self.log_end.epoch, self.key, VOTERS)
        self.high_watermark = None
        self.tally = VoteTally(VOTERS).granted_by(self.key)
        if self.stored is not None:
            assert self.role.epoch >= self.stored.epoch

    # Timers

    def time_out(self) -> None:
        match self.role:
            case Unattached(epoch, leader_id, voted):
                self.ask(Event.ELECTION_TIMED_OUT, Prospective(epoch, leader_id, NO_ENDPOINTS, voted))
            case Follower(epoch, leader_id, endpoints, voted):
                self.ask(Event.FETCH_TIMED_OUT, Prospective(epoch, leader_id, endpoints, voted))
            case Candidate(epoch):
                self.ask(Event.ELECTION_TIMED_OUT, Prospective(epoch, voted=self.key))
            case Prospective():
                self.become(*after_lost_pre_vote(self.role))
            case Leader(epoch):
                self.become(Event.RESIGNED, Resigned(epoch))
            case Resigned(epoch):
                self.become(Event.ELECTION_TIMED_OUT, Unattached(epoch + 1))

    def ask(self, event: Event, role: Prospective | Candidate) -> None:
        self.become(event, role)
        self.tally = VoteTally(VOTERS).granted_by(self.key)
        request = VoteFacts(self.key, role.epoch, self.log_end, pre_vote=isinstance(role, Prospective))
        self.quorum.send_to_others(self.key.id, request)

    # Messages

    def learn(self, epoch: int, leader_id: int | None) -> None:
        endpoints = endpoints_of(leader_id) if leader_id is not None else NO_ENDPOINTS
        self.apply(learn_leader(self.role, self.key, leader_id, epoch, endpoints))

    def announced(self, epoch: int, leader_id: int) -> None:
        self.apply(begin_quorum_epoch(self.role, self.key, leader_id, epoch, endpoints_of(leader_id), epoch))

    def apply(self, learned: object) -> None:
        match learned:
            case BecomeFollower(epoch, leader_id, endpoints):
                known = election_state_of(self.role, self.key)
                voted = known.voted_key if epoch == known.epoch else None
                self.become(Event.LEADER_DISCOVERED, Follower(epoch, leader_id, endpoints, voted))
            case BecomeUnattached(epoch, leader_id):
                self.become(Event.HIGHER_EPOCH_SEEN, Unattached(epoch, leader_id))
            case InconsistentLeader() | InvalidRequest():
                raise AssertionError(f"{self.role}: {learned}")

    def asked_for_vote(self, request: VoteFacts) -> VoteAnswer:
        granted = False
        if vote_request_error(self.role.epoch, request) is None:
            if must_step_down(self.role, request.epoch):
                self.become(Event.HIGHER_EPOCH_SEEN, Unattached(request.epoch))
            decision = decide_vote(self.role, request, self.log_end)
            if decision.voted_role is not None:
                self.become(Event.VOTE_GRANTED, decision.voted_role)
            granted = decision.granted
        if granted and not request.pre_vote:
            self.quorum.note_vote(self.key, request.epoch, request.replica)
        return VoteAnswer(self.key, self.role.epoch, leader_of(self.role, self.key), request, granted)

    def answered(self, answer: VoteAnswer) -> None:
        if answer.epoch > self.role.epoch or (answer.epoch == self.role.epoch and answer.leader_id is not None):
            self.learn(answer.epoch, answer.leader_id)
        pre_vote = isinstance(self.role, Prospective)
        expected = VoteFacts(self.key, self.role.epoch, self.log_end, pre_vote)
        if not isinstance(self.role, Prospective | Candidate) or answer.asked != expected:
            return
        count = self.tally.granted_by if answer.granted else self.tally.rejected_by
        self.tally = count(answer.sender)
        if not self.tally.is_won:
            return
        if pre_vote:
            self.ask(Event.PRE_VOTE_WON, Candidate(self.role.epoch + 1))
            self.quorum.note_vote(self.key, self.role.epoch, self.key)
        else:
            self.become(Event.ELECTION_WON, Leader(self.role.epoch, len(self.log)))
            self.synced = {}
            self.quorum.note_leader(self)
            self.append()

    # Replication

    def append(self) -> None:
        if isinstance(self.role, Leader):
            self.log.append((self.role.epoch, self.quorum.new_serial()))
            self.advance()

    def advance(self) -> None:
        assert isinstance(self.role, Leader)
        self.synced[self.key] = len(self.log)
        start = self.role.epoch_start_offset
        self.high_watermark = next_high_watermark(VOTERS, self.synced, self.key, start, self.high_watermark)
        self.quorum.note_committed(self.log[: self.high_watermark or 0])

    def fetch(self) -> None:
        """One fetch from the leader that this node follows, and its answer."""
        if not isinstance(self.role, Follower):
            return
        leader = self.quorum.nodes[self.role.leader_id]
        if not isinstance(leader.role, Leader) or leader.role.epoch != self.role.epoch:
            self.learn(leader.role.epoch, leader_of(leader.role, leader.key))
            return
        position = self.log_end
        verdict = check_fetch_position(
            position.offset, position.epoch, log_start_offset=0, log_end=leader.log_end, epochs=leader.epochs
        )
        self.become(Event.FETCHED_FROM_LEADER, attrs.evolve(self.role, has_fetched=True))
        if isinstance(verdict, Diverging):
            point = truncation_point(self.epochs, position, verdict.end)
            assert point.offset >= (self.high_watermark or 0), "nothing committed is truncated"
            del self.log[point.offset :]
            return
        leader.synced[self.key] = position.offset
        leader.advance()
        self.log += leader.log[position.offset : position.offset + 2]
        if leader.high_watermark is not None:
            self.high_watermark = max(self.high_watermark or 0, min(len(self.log), leader.high_watermark))


class Quorum:
    def __init__(self) -> None:
        self.nodes = {id: Node(id, self) for id in IDS}
        for node in self.nodes.values():
            node.restart()
        self.in_flight: list[tuple[int, VoteFacts | VoteAnswer]] = []
        self.votes: dict[tuple[ReplicaKey, int], set[ReplicaKey]] = defaultdict(set)
        self.leaders: dict[int, int] = {}
        self.committed: list[tuple[int, int]] = []
        self._serials = itertools.count()

    def new_serial(self) -> int:
        return next(self._serials)

    def send_to_others(self, sender: int, message: VoteFacts) -> None:
        self.in_flight += [(id, message) for id in IDS if id != sender]

    def deliver(self, number: int, keep: bool) -> None:
        if not self.in_flight:
            return
        number %= len(self.in_flight)
        to, message = self.in_flight[number] if keep else self.in_flight.pop(number)
        if isinstance(message, VoteFacts):
            answer = self.nodes[to].asked_for_vote(message)
            self.in_flight.append((message.replica.id, answer))
        else:
            self.nodes[to].answered(message)

    def announce(self, leader_id: int, to: int) -> None:
        leader = self.nodes[leader_id]
        if isinstance(leader.role, Leader) and to != leader_id:
            self.nodes[to].announced(leader.role.epoch, leader_id)

    def note_vote(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey) -> None:
        self.votes[voter, epoch].add(candidate)
        assert len(self.votes[voter, epoch]) == 1, "one vote an epoch"

    def note_leader(self, leader: Node) -> None:
        assert self.leaders.setdefault(leader.role.epoch, leader.key.id) == leader.key.id, "one leader an epoch"
        assert leader.log[: len(self.committed)] == self.committed, "a leader has every committed record"

    def note_committed(self, records: list[tuple[int, int]]) -> None:
        shorter = min(len(records), len(self.committed))
        assert records[:shorter] == self.committed[:shorter], "one value an offset"
        if len(records) > shorter:
            self.committed = list(records)

    def check_logs_match(self) -> None:
        for one, other in itertools.combinations(self.nodes.values(), 2):
            for offset in range(min(len(one.log), len(other.log)) - 1, -1, -1):
                if one.log[offset][0] == other.log[offset][0]:
                    assert one.log[: offset + 1] == other.log[: offset + 1], "same offset and epoch, same prefix"
                    break


NODE = st.sampled_from(IDS)
STEPS = st.one_of(
    st.tuples(st.just("deliver"), st.integers(0, 30), st.booleans()),
    st.tuples(st.just("deliver"), st.just(-1), st.just(False)),
    st.tuples(st.just("deliver"), st.just(0), st.just(False)),
    st.tuples(st.just("time out"), NODE),
    st.tuples(st.just("announce"), NODE, NODE),
    st.tuples(st.just("fetch"), NODE),
    st.tuples(st.just("append"), NODE),
    st.tuples(st.just("restart"), NODE),
)


def run(quorum: Quorum, steps: list[tuple]) -> None:
    for step in steps:
        match step:
            case "deliver", number, keep:
                quorum.deliver(number, keep)
            case "announce", leader, to:
                quorum.announce(leader, to)
            case "time out", id:
                quorum.nodes[id].time_out()
            case "fetch", id:
                quorum.nodes[id].fetch()
            case "append", id:
                quorum.nodes[id].append()
            case "restart", id:
                quorum.nodes[id].restart()
        quorum.check_logs_match()


def elect(quorum: Quorum, id: int) -> None:
    """Let `id` campaign until it leads, every message delivered in order; nobody else times out."""
    node = quorum.nodes[id]
    for _ in range(20):
        if isinstance(node.role, Leader):
            return
        if not quorum.in_flight:
            node.time_out()
        while quorum.in_flight:
            quorum.deliver(0, keep=False)
    raise AssertionError(f"{id} is {node.role}")


@settings(max_examples=sizes.examples(400))
@given(st.lists(STEPS, max_size=120))
def test_safety_whatever_happens(steps: list[tuple]) -> None:
    run(Quorum(), steps)


@settings(max_examples=sizes.examples(400))
@given(st.lists(st.tuples(NODE, st.lists(STEPS, max_size=25)), min_size=1, max_size=6))
def test_safety_over_many_leaders_and_progress_after_any_of_it(terms: list[tuple[int, list[tuple]]]) -> None:
    quorum = Quorum()
    for id, steps in terms:
        longest = max(quorum.nodes.values(), key=lambda node: (node.log_end.epoch, node.log_end.offset))
        able = quorum.nodes[id] if quorum.nodes[id].log_end == longest.log_end else longest
        for node in quorum.nodes.values():
            while not isinstance(node.role, Unattached | Prospective | Resigned):
                node.time_out()
        elect(quorum, able.key.id)
        for other in IDS:
            quorum.announce(able.key.id, other)
        run(quorum, steps)


def test_a_quorum_left_alone_commits_everywhere() -> None:
    quorum = Quorum()
    elect(quorum, 1)
    for id in (2, 3):
        quorum.announce(1, id)
    quorum.nodes[1].append()
    for _, id in itertools.product(range(4), (2, 3)):
        quorum.nodes[id].fetch()
    assert quorum.nodes[1].role.epoch == 1
    assert [(len(node.log), node.high_watermark) for node in quorum.nodes.values()] == [(2, 2)] * 3
