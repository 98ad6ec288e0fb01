"""Election: owns epoch, leader and vote, and runs each stay in a role in its own nursery.

Rule R1, drain before you vote: a message that changes the role closes the epoch nursery.  Election waits for every task
in it, including an fsync.  Only then does it read the log's end, persist the new state, and answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from uuid import UUID

import attrs
import trio

from kraft_trio.actors.context.epoch_context import NodeContext
from kraft_trio.actors.context.replica_progress import ProgressTable
from kraft_trio.actors.context.shared_node_id import SharedNodeId
from kraft_trio.actors.election.edited_voters import tell_of_leader_change
from kraft_trio.actors.election.election_responses import ElectionResponses
from kraft_trio.actors.election.epoch_guard import EpochGuard
from kraft_trio.actors.election.epoch_tasks import EpochTasks, start_epoch_tasks
from kraft_trio.actors.election.leadership import Leadership
from kraft_trio.actors.election.role_changes import Ruling, Situation, judge
from kraft_trio.actors.kafka.controller_registrar import Registration
from kraft_trio.actors.kafka.witness_restraint import WitnessRestraint
from kraft_trio.actors.replication.follower_replication import FollowerReplication
from kraft_trio.actors.replication.leader_replication import LeaderReplication
from kraft_trio.actors.waiting.published import Published
from kraft_trio.channels import Reply
from kraft_trio.logs import get_logger
from kraft_trio.messages import (
    BeginQuorumEpochReceived,
    ElectionMessage,
    EndQuorumEpochReceived,
    FetchedFromLeader,
    HandedOver,
    LeaderChangeCommitted,
    LeaderHeardOf,
    LeadershipLost,
    QuorumView,
    ShutDown,
    Stamp,
    TimedOut,
    VoteReceived,
    VoteRoundEnded,
    VotersChanged,
)
from kraft_trio.protocol.epoch_limits import MAX_EPOCH, highest_answered_epoch
from kraft_trio.protocol.quorum_epoch import (
    hear_of_move,
    preferred_successors,
    successor_backoff_ms,
    successor_position,
)
from kraft_trio.protocol.roles import (
    Candidate,
    Event,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    check_transition,
    election_state_of,
    initial_role,
    leader_of,
)
from kraft_trio.protocol.types import Endpoints, ReplicaKey, VersionRange
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.protocol.waits import election_backoff_ms
from kraft_trio.storage.directory.quorum_state import QuorumStateFile
from kraft_trio.storage.log.static_voters import voters_to_store
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest

log = get_logger(__name__)

MAILBOX_SIZE = 256


class Election:
    """Owns the quorum-state file and the role; publishes a QuorumView at each transition.

    Other actors send it messages.  `run` ends only by cancellation, or by a fault that ends the node.
    """

    def __init__(
        self,
        context: NodeContext,
        quorum_state: QuorumStateFile,
        observer_versions: Mapping[ReplicaKey, VersionRange],
    ) -> None:
        """`observer_versions`: the kraft.versions that observers support, as the application has reported them."""
        self._context = context
        self._key = context.key
        self._log = context.log
        self._config = context.config
        self._quorum_state = quorum_state
        self._observer_versions = observer_versions
        self._mailbox, self._inbox = trio.open_memory_channel[ElectionMessage](MAILBOX_SIZE)
        self._role = initial_role(quorum_state.read(), self._log.end.epoch, self._key, self._voters)
        self._guard = EpochGuard(context.refusals)
        self._restraint = WitnessRestraint(context) if context.config.witness else None
        self._registration: Registration | None = None
        if context.config.witness:
            self._registration = Registration(UUID(int=context.secret_bits(128)))
        self._transitions = 0
        self._timer = trio.CancelScope(deadline=self._election_timeout())
        self._epoch_nursery: trio.Nursery | None = None
        self._timer_runs = False
        self._tasks = EpochTasks()
        self._is_shutting_down = False
        self._shutdowns: list[Reply[None]] = []
        self._handed_over: Stamp | None = None
        self._heard_before_s: float | None = None
        """`last_heard_s` at the end of the last stay in a role."""
        self._lost_elections = 0
        """The elections that this node has lost as a candidate since it last knew a leader."""
        self._gave_up = False
        """Whether this node has resigned without shutting down, usually because it had no majority."""
        self.view = Published(self._make_view())
        self._responses = ElectionResponses(context.config, self.view, self._guard, context.failures)
        # For this long, the voters may name a dead leader: until they notice, and while they elect another one.
        naming_ms = self._config.fetch_timeout_ms + 2 * self._config.election_timeout_ms
        self._shared_id = SharedNodeId(self._key.id, naming_ms / 1000)

    async def tell(self, message: ElectionMessage) -> None:
        """Put a message into the mailbox, waiting while it is full."""
        await self._mailbox.send(message)

    async def shut_down(self) -> None:
        """Hand over for good: a leader resigns, and this node does not campaign again while it runs.

        Returns when the voters know, or after the grace time.
        """
        reply: Reply[None] = Reply()
        with trio.move_on_after(self._config.shutdown_grace_ms / 1000) as grace:
            await self.tell(ShutDown(reply))
            await reply.receive()
        if grace.cancelled_caught:
            log.warning("the voters did not hear of the shutdown in time", grace_ms=self._config.shutdown_grace_ms)

    @property
    def leading(self) -> LeaderReplication | None:
        """This node's replication while it leads.  The caller must not change it."""
        replication = self._tasks.replication
        return replication if isinstance(replication, LeaderReplication) else None

    @property
    def leadership(self) -> Leadership | None:
        """This node's leadership until it ends."""
        leadership = self._tasks.leadership
        return None if leadership is None or leadership.is_over else leadership

    @property
    def progress(self) -> ProgressTable | None:
        """The progress of the replicas while this node leads.  The caller must not change it."""
        leading = self.leading
        return None if leading is None else leading.progress

    @property
    def last_heard_s(self) -> float | None:
        """When this node last heard from its leader or, as leader, from a majority.  On Trio's clock; None if never."""
        replication = self._tasks.replication
        heard_s: float | None = None
        if isinstance(replication, FollowerReplication):
            heard_s = replication.last_heard_s
        elif replication is not None:
            heard_s = replication.progress.majority_fetch_s(self._voters, trio.current_time())
        return self._heard_before_s if heard_s is None else heard_s

    async def run(self) -> None:
        """Run one epoch nursery after another.  No task of an epoch runs between them (rule R1)."""
        if self._role.epoch == MAX_EPOCH:
            self._guard.at_last_epoch()
        if election_state_of(self._role, self._key) != self._quorum_state.read():
            await self._persist()
        message: ElectionMessage | None = None
        ruling: Ruling | None = None
        while True:
            async with trio.open_nursery() as epoch_nursery:
                self._start_role(epoch_nursery)
                try:
                    if message is not None:
                        self._serve_in_role(message, ruling)
                    message = await self._serve_until_role_changes()
                finally:
                    # Before the epoch's tasks refuse what they still hold: the application hears of the cause first.
                    if self._tasks.leadership is not None:
                        self._tasks.leadership.end()
                epoch_nursery.cancel_scope.cancel()
            self._heard_before_s = self.last_heard_s
            if self._log.synced_end_offset < self._log.end_offset:
                await self._log.sync()
            ruling = await self._change_role(message)

    # The tasks of a role

    def _start_role(self, nursery: trio.Nursery) -> None:
        context = self._context.for_stay(self._stamp, self.tell)
        self._tasks = start_epoch_tasks(
            nursery, context, self._role, self._observer_versions, self._registration, self._asks_at_s()
        )
        if self._quorum_state.voters.ids not in ((), self._log.voters.static_voters.ids):
            nursery.start_soon(tell_of_leader_change, self._log, self._stamp, self.tell)
        self._epoch_nursery, self._timer_runs = nursery, False
        self._start_timer_if_due()
        self.view.publish(self._make_view())
        self._answer_shutdown_if_done()

    def _start_timer_if_due(self) -> None:
        """Start the role's timer, at the start of the role or when an Unattached observer becomes a voter."""
        if self._epoch_nursery is not None and not self._timer_runs and self._has_timer(self._role):
            self._timer_runs = True
            self._epoch_nursery.start_soon(self._watch_timer, self._stamp)

    def _has_timer(self, role: Role) -> bool:
        """Leaders and followers have their own timers.  Only members campaign (KIP-853, invariant MembersCampaign)."""
        match role:
            case Unattached():
                return self._situation().is_needed and not self._is_shutting_down
            case Prospective() | Candidate() | Resigned():
                return True
            case _:
                return False

    async def _watch_timer(self, stamp: Stamp) -> None:
        with self._timer:
            await trio.sleep(math.inf)
        await self.tell(TimedOut(stamp))

    def _election_timeout(self) -> float:
        """When a new timeout ends, on Trio's clock: after 1 to 2 election timeouts, or at once for a sole voter."""
        if self._voters.is_only_voter(self._key):
            return trio.current_time()
        return trio.current_time() + self._config.election_timeout_ms * self._context.random.uniform(1.0, 2.0) / 1000

    @property
    def _voters(self) -> VoterSet:
        return self._log.voters.voters

    @property
    def _previous_voters(self) -> VoterSet:
        """The set before the newest one, or an empty set if the newest is known to be committed."""
        history = self._log.voters
        offset = history.voters_offset
        if offset is None or offset not in history.uncommitted(self._log.high_watermark):
            return VoterSet()
        return history.voters_at(offset - 1)

    @property
    def _stamp(self) -> Stamp:
        return Stamp(self._role.epoch, self._transitions)

    # Changing the role

    async def _serve_until_role_changes(self) -> ElectionMessage:
        """Serve messages in the current role; return the first one that changes it."""
        while True:
            message = await self._inbox.receive()
            if isinstance(message, LeaderChangeCommitted) and message.stamp == self._stamp:
                await self._persist()  # Only the static voters differ.
                continue
            if self._restraint is not None:
                self._note_for_restraint(self._restraint, message)
            try:
                judgement = judge(self._situation(), message)
            except Exception as error:
                self._responses.fail(message, error)
                continue
            if judgement.change is not None:
                return message
            self._serve_in_role(message, judgement.ruling)

    async def _change_role(self, message: ElectionMessage) -> Ruling | None:
        """Judge the message now that the epoch nursery is closed (rule R1), and store each change that it makes.

        Returns the ruling, which is sent in the role that has been reached.
        """
        while True:
            judgement = judge(self._situation(), message)
            if judgement.change is not None:
                await self._become(*judgement.change, cause=message)
            if judgement.change is None or judgement.ruling is not None:
                return judgement.ruling

    async def _become(self, event: Event, role: Role, *, cause: ElectionMessage) -> None:
        transition = check_transition(self._role, event, role, self_key=self._key)
        inherits_timer = isinstance(role, Unattached) and event in {Event.HIGHER_EPOCH_SEEN, Event.VOTE_GRANTED}
        ends_at = self._election_timeout()
        if inherits_timer and isinstance(self._role, Unattached | Prospective):
            ends_at = self._timer.deadline
        if isinstance(self._role, Resigned) and event is Event.ELECTION_TIMED_OUT and self._gave_up:
            # It could not commit anything, so any other node that can win goes first.
            ends_at += self._config.election_timeout_ms / 1000
        if isinstance(role, Prospective) and self._restraint is not None:
            ends_at += self._restraint.patience_s
        self._gave_up = isinstance(cause, LeadershipLost) if event is Event.RESIGNED else False
        log.info(
            "role",
            role=type(role).__name__,
            was=type(self._role).__name__,
            epoch=role.epoch,
            by=event.name,
            cause=type(cause).__name__,
            reason=getattr(cause, "reason", None),
            leader_id=leader_of(role, self._key),
            log_end=str(self._log.end),
        )
        if role.epoch > self._role.epoch:
            self._guard.moved(self._role.epoch, role.epoch, cause)
        if isinstance(role, Follower | Leader):
            self._lost_elections = 0
        self._role = role
        self._transitions += 1
        self._timer = trio.CancelScope(deadline=ends_at)
        if transition.durable:
            await self._persist()

    async def _persist(self) -> None:
        voters = voters_to_store(self._quorum_state.voters, self._log)
        state = election_state_of(self._role, self._key)
        await self._quorum_state.write(state, self._log.voters.kraft_version, voters)

    def _amend_role(self, event: Event, role: Role) -> None:
        """Change a field of the role within one stay; its tasks continue."""
        transition = check_transition(self._role, event, role, self_key=self._key)
        assert not transition.durable, "a durable transition needs the epoch nursery closed"
        self._role = role
        self.view.publish(attrs.evolve(self.view.value, role=role))

    def _situation(self) -> Situation:
        progress = self.progress
        return Situation(
            role=self._role,
            stamp=self._stamp,
            key=self._key,
            voters=self._voters,
            log_end=self._log.end,
            successors=preferred_successors(progress.end_offsets_of_others(self._voters)) if progress else (),
            may_campaign=not self._is_shutting_down,
            highest_requested_epoch=self._guard.highest_requested_epoch(self._role.epoch),
            may_lead=self._restraint is None or self._restraint.may_lead(self.last_heard_s),
            doubts_leader=self._restraint is not None and self._restraint.doubts_leader(self._tasks.replication),
            previous_voters=self._previous_voters,
            listener=self._config.controller_listener_name,
            hears_leader=self._hears_leader,
        )

    @property
    def _hears_leader(self) -> bool:
        """Whether the leader that this node follows, or the majority that it leads, was heard in the last timeout."""
        heard_s = self.last_heard_s if isinstance(self._role, Follower | Leader) else None
        return heard_s is not None and trio.current_time() - heard_s < self._config.fetch_timeout_ms / 1000

    # A witness leaves the elections to others

    def _asks_at_s(self) -> float:
        """When a round of pre-votes may begin, on Trio's clock."""
        return -math.inf if self._restraint is None else self._restraint.asks_at_s(self.last_heard_s)

    def _note_for_restraint(self, restraint: WitnessRestraint, message: ElectionMessage) -> None:
        if isinstance(self._role, Prospective):
            restraint.note_round(message, self._stamp, self.last_heard_s)
        if not isinstance(message, VoteReceived) or not restraint.is_needed_after(message.request, self.last_heard_s):
            return
        if self._tasks.vote_round is not None and isinstance(self._role, Prospective):
            self._tasks.vote_round.ask_at(self._asks_at_s())
        elif isinstance(self._role, Unattached):
            self._timer.deadline = min(self._timer.deadline, self._asks_at_s())

    def _make_view(self) -> QuorumView:
        role = self._role
        leader_id: int | None = None
        endpoints = Endpoints()
        if isinstance(role, Leader):
            leader_id, endpoints = self._key.id, self._config.advertised_endpoints()
        elif isinstance(role, Follower):
            leader_id, endpoints = role.leader_id, role.leader_endpoints
        history = self._log.voters
        return QuorumView(
            self._stamp,
            role,
            leader_id,
            endpoints,
            self._tasks.leader_mailbox,
            self._tasks.voter_changes,
            history.voters,
            history.kraft_version,
            leader_of(role, self._key),
        )

    # Serving in the role that has been reached

    def _serve_in_role(self, message: ElectionMessage, ruling: Ruling | None) -> None:
        try:
            self._work_on(message, ruling)
        except Exception as error:
            self._responses.fail(message, error)

    def _work_on(self, message: ElectionMessage, ruling: Ruling | None) -> None:
        match message:
            case VoteReceived() | BeginQuorumEpochReceived():
                self._responses.answer(message, ruling)
            case EndQuorumEpochReceived(request=request):
                if ruling is not None and ruling.error is None:
                    self._await_succession(request)
                self._responses.answer(message, ruling)
            case VoteRoundEnded(stamp=stamp, won=False) if stamp == self._stamp and isinstance(self._role, Candidate):
                self._campaign_again_soon()
            case FetchedFromLeader(stamp=stamp) if stamp == self._stamp and isinstance(self._role, Follower):
                self._amend_role(Event.FETCHED_FROM_LEADER, attrs.evolve(self._role, has_fetched=True))
            case LeaderHeardOf(epoch=epoch, leader_id=leader_id, leader_endpoints=told):
                moved = hear_of_move(self._role, leader_id, epoch, told)
                if moved is not None:
                    self._amend_role(Event.LEADER_MOVED, moved)
                elif epoch > highest_answered_epoch(self._role.epoch):
                    self._guard.refused("answer", f"leader {leader_id}", epoch, self._role.epoch)
                if leader_id == self._key.id and not self._led_or_leads(epoch):
                    self._shared_id.leads(epoch, answers=message.from_leader)
            case VotersChanged(voters=voters, kraft_version=kraft_version):
                self.view.publish(attrs.evolve(self.view.value, voters=voters, kraft_version=kraft_version))
                self._start_timer_if_due()
            case ShutDown(reply=reply):
                self._is_shutting_down = True
                self._shutdowns.append(reply)
                self._answer_shutdown_if_done()
            case HandedOver(stamp=stamp):
                self._handed_over = stamp
                self._answer_shutdown_if_done()
            case _:
                # The message has just changed the role, or belongs to an earlier stay (rule R3).
                pass

    def _led_or_leads(self, epoch: int) -> bool:
        """Whether this process may be the leader that a peer names, or the epoch is over."""
        is_own = isinstance(self._role, Leader | Resigned) and epoch == self._role.epoch
        return is_own or epoch < self._role.epoch

    def _answer_shutdown_if_done(self) -> None:
        """Answer ShutDown, unless this node has resigned and the voters have not heard of it yet."""
        if isinstance(self._role, Resigned) and self._handed_over != self._stamp:
            return
        while self._shutdowns:
            self._shutdowns.pop().answer(None)

    def _campaign_again_soon(self) -> None:
        """Ask for pre-votes again after a random wait, because the election is lost, usually by a split vote.

        Waiting for the whole election timeout would cost the quorum seconds, and a pre-vote changes nothing.  The wait
        grows with each election that is lost without a leader known since.
        """
        config, part = self._config, self._context.random.uniform(0.25, 1.0)
        self._lost_elections += 1
        wait_ms = election_backoff_ms(
            self._lost_elections, part, config.election_timeout_ms, config.election_backoff_max_ms
        )
        self._timer.deadline = min(self._timer.deadline, trio.current_time() + wait_ms / 1000)

    def _await_succession(self, request: EndQuorumEpochRequest) -> None:
        """The leader has resigned: campaign after the successor's backoff (KIP-595 "EndQuorumEpoch")."""
        successors = request.preferred_candidates or tuple(ReplicaKey(id) for id in request.preferred_successors)
        position = successor_position(self._key, successors)
        backoff_ms = successor_backoff_ms(position, len(successors), self._config.election_backoff_max_ms)
        if isinstance(self._role, Follower) and isinstance(self._tasks.replication, FollowerReplication):
            self._amend_role(Event.LEADER_RESIGNED, attrs.evolve(self._role, leader_resigned=True))
            self._tasks.replication.campaign_after(backoff_ms)
        elif isinstance(self._role, Unattached):
            self._timer.deadline = min(self._timer.deadline, trio.current_time() + backoff_ms / 1000)
