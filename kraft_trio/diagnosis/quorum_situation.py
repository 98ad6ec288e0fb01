"""What each node of a quorum claims, and what is known from that.

The nodes are asked from one place.  A node that does not answer there may well be heard by the others.
"""

from __future__ import annotations

from functools import cached_property
from uuid import UUID

import attrs

from kraft_trio.diagnosis.survival import Survival, survival_of
from kraft_trio.diagnosis.tls_problems import tls_problem
from kraft_trio.protocol.kafka_cluster import KafkaCluster
from kraft_trio.protocol.replica_health import ReplicaHealth
from kraft_trio.protocol.types import NO_DIRECTORY_ID, OffsetAndEpoch, ReplicaKey


@attrs.frozen
class Restored:
    """A voter of which an old copy of the directory was started, as the leader of that time says.  Exclusive ends."""

    voter_id: int
    acknowledged: int
    came_back_at: int
    has_caught_up: bool


@attrs.frozen
class Claim:
    """What one node reports about itself.  None means that it does not report the value."""

    endpoint: str
    problem: str | None = None
    """Why the node did not answer; None if it did."""
    node_id: int | None = None
    cluster_id: str | None = None
    epoch: int | None = None
    leader_id: int | None = None
    voter_ids: tuple[int, ...] | None = None
    log_end: OffsetAndEpoch | None = None
    high_watermark: int | None = None
    denial: str | None = None
    """The principal to whom the node denied DESCRIBE, or None."""
    denied_as: str | None = None
    """The principal of the node itself, if the leader denies it what replicas ask; or None."""
    certificate_expires_ms: int | None = None
    """The first expiry of a certificate that ends its connections, in ms since 1970; None also without certificates."""
    refused_login: str | None = None
    """The principal that the node did not let in, which is its problem then; or None."""
    reported_end: int | None = None
    """The end of its log (exclusive) as the leader describes it, if the node itself does not tell."""
    reported_high_watermark: int | None = None
    """The same of the leader's high watermark."""
    directory_id: UUID | None = None
    free_bytes: int | None = None
    """What its disk has left; of a node with a problem, what it said last."""
    fetch_problem: str | None = None
    """Why it gets no records from the leader."""
    lost_records: str | None = None
    """Which committed records are lost, as it knows."""
    has_uncommitted_change: bool = False
    """Whether it knows that its newest voter set is not committed."""
    shared_id: tuple[int, str] | None = None
    """A node id that two processes have, and how this node knows it."""
    restored: tuple[Restored, ...] = ()
    """The voters that came back to it, within a day, without records that they had acknowledged."""
    is_witness: bool = False
    """Whether it is a voter that leads only if the logs leave nobody else (`kraft.witness`)."""
    is_kafkas: bool | None = None
    """Whether the file and the directory of a node that does not answer are Kafka's, if this machine has them."""
    state_machine_problem: str | None = None
    """Why its state machine has stopped, while the node continues."""
    voter_keys: tuple[ReplicaKey, ...] = ()
    """The voters that it knows, with their directory ids, if it tells."""
    dead_address: str | None = None
    """The address that it announces, if nobody listens there."""
    registered_ids: tuple[int, ...] | None = None
    """The registered controllers, by the word of this controller of Kafka's.  None if it does not tell."""
    is_broker: bool = False
    """Whether it is a broker of Kafka's, which tells nothing of the quorum itself but asks the active controller."""
    forwarding_problem: str | None = None
    """Why a broker did not get the active controller's answer."""
    kraft_version: int | None = None
    """0 if its voters are static: those of its file."""
    lacks_metadata: bool = False
    """Whether it is a controller of Kafka's that knows of nothing that is committed.

    Its disk is blank, or its file names no voters, or it was started since the last leader ended.
    """
    is_of_other_cluster: bool = False
    """Whether it has no metadata, and so does not tell its cluster, but refuses the cluster id of the others."""
    is_controller: bool = False
    """Whether its file says that it may vote, if it tells."""
    as_initial: str | None = None
    """Itself as `kraft storage format --initial-controllers` names it, if it is a voter of the set that it knows."""
    clock_offset_ms: int | None = None
    """By how much its clock is ahead of the monotonic clock of the asker."""
    store_problem: str | None = None
    """Why its key-value store takes no more keys."""
    bootstrap: tuple[str, ...] | None = None
    """`controller.quorum.bootstrap.servers` of its file, if it tells."""
    directory_problem: str | None = None
    """What is wrong with the directory of a node that does not answer, and the remedy, if this machine has it."""

    @property
    def name(self) -> str:
        return f"the node at {self.endpoint}" if self.node_id is None else f"node {self.node_id}"


@attrs.frozen
class VoterReport:
    """A voter as the leader sees it."""

    id: int
    health: ReplicaHealth
    directory_id: UUID | None = None
    has_fetched: bool = True
    """Whether it has fetched from this leader, in its epoch."""
    silent_ms: int = 0
    """The time from its last Fetch to the leader's answer, by the leader's clock."""


@attrs.frozen
class ObserverReport:
    """A replica that fetches and does not vote, as the leader sees it."""

    id: int
    directory_id: UUID | None = None
    fetches: bool = True
    """Whether it has fetched within the fetch timeout."""


@attrs.frozen
class LeaderReport:
    """The quorum as its leader describes it.  The committed voters are empty if no voter change is uncommitted."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[VoterReport, ...]
    committed_voter_ids: tuple[int, ...] = ()
    target_voter_ids: tuple[int, ...] = ()
    reassignment_status: str | None = None
    observers: tuple[ObserverReport, ...] = ()

    @property
    def voter_ids(self) -> tuple[int, ...]:
        return tuple(sorted(voter.id for voter in self.voters))


@attrs.frozen
class FoundHere:
    """What the file and the directory of a node of this machine say, as `-c FILE` names it."""

    node_id: int
    file: str
    is_down: bool
    """Whether the node does not answer."""
    voter_keys: tuple[ReplicaKey, ...] = ()
    """The voters in its log, or its static ones; empty if the log was not read."""
    addresses: tuple[tuple[int, str], ...] = ()
    """Where those voters listen, by id."""
    bootstrap: tuple[str, ...] = ()
    """`controller.quorum.bootstrap.servers` of its file."""
    is_controller: bool = True
    """Whether its file says that it may vote."""


@attrs.frozen
class Situation:
    """What was found out.  The report is that of the leader with the highest epoch."""

    claims: tuple[Claim, ...]
    report: LeaderReport | None = None
    now_ms: int | None = None
    """The clock of the asker, in ms since 1970.  A recorded situation has none."""
    clock_offset_ms: int | None = None
    """By how much the asker's clock is ahead of its monotonic clock.  None: it is not compared with the nodes'."""
    command_config: str | None = None
    """The file that tells tools how to connect, for the commands of the findings; None if they need none."""
    cluster: KafkaCluster | None = None
    """What the metadata of Kafka's controllers says; None for other quorums, and if it was not read."""
    here: FoundHere | None = None
    """The node of this machine, if one was named."""

    @cached_property
    def answers(self) -> tuple[Claim, ...]:
        return tuple(claim for claim in self.claims if claim.problem is None)

    def claim_of(self, node_id: int | None) -> Claim | None:
        """The claim of that node, whether it answers or not; None if no node reports it."""
        return next((claim for claim in self.claims if claim.node_id == node_id), None)

    @cached_property
    def epoch(self) -> int:
        """The highest claimed epoch; -1 if there is none."""
        known = [claim.epoch for claim in self.answers if claim.epoch is not None]
        return max([*known, -1 if self.report is None else self.report.epoch], default=-1)

    @cached_property
    def voter_ids(self) -> tuple[int, ...]:
        """The leader's voters, or those of the node with the longest log, or of the log on this machine.

        Empty if nobody tells them.
        """
        if self.report is not None:
            return self.report.voter_ids
        told = [claim for claim in self.claims if claim.voter_ids]
        newest = max(told, key=lambda claim: (end_of(claim), claim.epoch or 0), default=None)
        if newest is not None:
            return tuple(sorted(newest.voter_ids or ()))
        here = () if self.here is None else self.here.voter_keys
        return tuple(sorted(key.id for key in here)) or self._registered_ids

    @property
    def has_told_voters(self) -> bool:
        """Whether a node or the log on this machine names the voters."""
        return any(claim.voter_ids for claim in self.claims) or bool(self.here and self.here.voter_keys)

    @property
    def has_only_registrations(self) -> bool:
        """Whether the voters are not told, and the nodes registered with Kafka's controllers take their place."""
        return self.report is None and bool(self.voter_ids) and not self.has_told_voters

    @property
    def _registered_ids(self) -> tuple[int, ...]:
        """Controllers of Kafka's do not tell the voters, but who has registered: of these, the one that knows most."""
        return max((claim.registered_ids or () for claim in self.answers), key=len, default=())

    @cached_property
    def voter_keys(self) -> dict[int, ReplicaKey]:
        """The voters' directory ids by id, as the node with the longest log tells them.  Static voters have none."""
        told = [claim for claim in self.claims if claim.voter_keys]
        newest = max(told, key=lambda claim: (end_of(claim), claim.epoch or 0), default=None)
        here = () if self.here is None else self.here.voter_keys
        keys = here if newest is None else newest.voter_keys
        return {key.id: key for key in keys if key.directory_id != NO_DIRECTORY_ID}

    @cached_property
    def lists(self) -> dict[tuple[ReplicaKey, ...], tuple[Claim, ...]]:
        """The voter sets with directory ids that nodes know which are in them, before anybody was ever elected.

        More than one shows that the nodes were formatted with different lists.  Later, a node may know an older set.
        """
        found: dict[tuple[ReplicaKey, ...], tuple[Claim, ...]] = {}
        if self.report is not None or any(end_of(claim) >= (1, 0) for claim in self.answers):
            return found
        for claim in self.answers:
            if ReplicaKey(claim.node_id or 0, claim.directory_id or NO_DIRECTORY_ID) in claim.voter_keys:
                keys = tuple(sorted(claim.voter_keys, key=lambda key: key.id))
                found[keys] = (*found.get(keys, ()), claim)
        return found

    def has_other_disk(self, claim: Claim) -> bool:
        """Whether a node answers with another disk than the voter of its id has."""
        if len(self.lists) > 1:
            return False  # Each of them has a disk of its own list.
        known = None if claim.node_id is None else self.voter_keys.get(claim.node_id)
        own = claim.directory_id
        return known is not None and own not in (None, NO_DIRECTORY_ID) and own != known.directory_id

    @cached_property
    def leader_id(self) -> int | None:
        """The leader of the highest epoch, if anybody names it."""
        if self.report is not None and self.report.epoch == self.epoch:
            return self.report.leader_id
        named = (claim.leader_id for claim in self.answers if claim.epoch == self.epoch)
        return next((leader_id for leader_id in named if leader_id is not None), None)


def survivals(situation: Situation) -> tuple[Survival, ...]:
    """What the voter set survives now; while a voter change is not committed, first that set, then the one before.

    Without a leader, every node that answers counts as up.  Empty if no node reports the voters.
    """
    if situation.report is None:
        up = [claim.node_id for claim in situation.answers if claim.node_id is not None]
        return (survival_of(situation.voter_ids, up),) if situation.voter_ids else ()
    report = situation.report
    up = [voter.id for voter in report.voters if voter.health.is_up]
    before = (survival_of(report.committed_voter_ids, up),) if report.committed_voter_ids else ()
    return (survival_of(report.voter_ids, up), *before)


def end_of(claim: Claim) -> tuple[int, int]:
    return (-1, -1) if claim.log_end is None else (claim.log_end.epoch, claim.log_end.offset)


def runs_nevertheless(claim: Claim) -> bool:
    """Whether the node runs although it did not answer."""
    return claim.refused_login is not None or tls_problem(claim.problem) is not None
