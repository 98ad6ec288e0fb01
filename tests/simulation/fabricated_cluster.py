"""A cluster made of facts alone: a test says what each node does, lawful or not, and the invariants look on.

The replicas are the simulation's own, their disks keep bytes twice, as readers see them and as a crash would leave
them.  Nothing is decided here: whatever a story tells to happen happens.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from kraft_trio.messages import QuorumView, Stamp
from kraft_trio.protocol.roles import (
    Candidate,
    ElectionState,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    election_state_of,
    leader_of,
    vote_of,
)
from kraft_trio.protocol.types import Endpoints, OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation.facts.committed import NOTHING, digest_after
from kraft_trio.simulation.facts.entry import Entry
from kraft_trio.simulation.facts.history import History
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.facts.voter_sets import VoterSets
from kraft_trio.simulation.invariants import INVARIANTS, Invariant
from kraft_trio.simulation.invariants.checker import Checker
from kraft_trio.simulation.network.message import Message
from kraft_trio.simulation.violation import Violation
from kraft_trio.storage.batches.batch import (
    NewRecord,
    Record,
    decode_records,
    encode_batch,
    encode_control_batch,
    peek_header,
)
from kraft_trio.storage.batches.batch_header import patch_base_offset_and_epoch
from kraft_trio.storage.batches.control_records import ControlRecord, LeaderChange, VotersRecord
from kraft_trio.storage.directory.quorum_state import encode_quorum_state
from kraft_trio.storage.disk.partition_files import BOOTSTRAP_CHECKPOINT, QUORUM_STATE, checkpoint_name
from kraft_trio.storage.snapshots.checkpoint import encode_bootstrap_checkpoint
from kraft_trio.wire.api import FETCH, FETCH_SNAPSHOT, VOTE, Api
from kraft_trio.wire.apis.fetch import FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.apis.topics import NO_TOPIC_ID
from kraft_trio.wire.apis.vote import VoteRequest, VoteResponse
from tests.simulation.fabricated_machine import (
    CLUSTER_ID,
    DIRECTORY,
    SEGMENT,
    FabricatedBeliefs,
    FabricatedMachine,
    endpoints_of,
    key_of,
    voters_of,
)


class FabricatedCluster:
    """Nodes 1, 2, 3, voters of the bootstrap checkpoint, and observer 4; at kraft.version 0 the voters are static.

    Each verb below is one event, told to the checker as the simulation tells it.
    """

    def __init__(self, invariants: Iterable[type[Invariant]] = INVARIANTS, *, kraft_version: int = 1) -> None:
        self.now_s = 0.0
        self.violations: list[Violation] = []
        self.sites: set[tuple[str, int]] = set()
        """File and line of each place in an invariant that found a violation."""
        self.machines: dict[int, FabricatedMachine] = {}
        self.initial_voters = voters_of(1, 2, 3)
        self.history = History(lambda: self.now_s, lambda operation: self.checker.operation(operation))
        self.facts = RunFacts(CLUSTER_ID, kraft_version, self.initial_voters, self.history)
        self.checker = Checker(self.facts, self.violate, invariants)
        self._stamps = 0
        static = VoterSet(Voter(ReplicaKey(id), endpoints_of(id)) for id in (1, 2, 3))
        for node_id in (1, 2, 3, 4):
            self.machines[node_id] = FabricatedMachine(node_id, VoterSet() if kraft_version else static)
            self.format(node_id)
            if kraft_version and node_id != 4:
                checkpoint = encode_bootstrap_checkpoint(self.initial_voters, 1, 0)
                self.machines[node_id].disk.store(f"{DIRECTORY}/{BOOTSTRAP_CHECKPOINT}", checkpoint)
            self.start(node_id)

    def violate(self, title: str, facts: tuple[str, ...], nodes: Collection[int] = (), *, invariant: int = 0) -> None:
        self.violations.append(Violation(invariant, title, self.now_s, facts, tuple(nodes)))
        site = sys._getframe(2)
        self.sites.add((site.f_code.co_filename.rpartition("/")[2], site.f_lineno))

    # Machines and processes

    def format(self, node_id: int, incarnation: int = 0) -> Replica:
        """A blank disk, under a directory id of its own."""
        machine = self.machines[node_id]
        machine.insert_blank_disk()
        return self.facts.formatted(key_of(node_id, incarnation), machine.device)

    def replica(self, node_id: int) -> Replica:
        return self.facts.present[node_id]

    def start(self, node_id: int, *, log_start_offset: int = 0, voters: VoterSet | None = None) -> Replica:
        """A new process; it counts by the voters that are in force, or by those given."""
        replica = self.replica(node_id)
        replica.load()
        replica.view = replica.high_watermark = None
        replica.synced_end = replica.log_end
        replica.reset_applied()
        machine = self.machines[node_id]
        machine.device.damaged_under_process.clear()
        machine.beliefs = replica.beliefs = FabricatedBeliefs(log_start_offset, VoterSet(), None)
        sets = VoterSets()
        sets.started(replica)
        last = sets.last(replica)
        offset = None if last.is_configured else last.base_offset
        self.count_by(node_id, last.voters if voters is None else voters, offset)
        self.checker.started(replica)
        return replica

    def end(self, node_id: int, *, lose_unsynced: bool = False) -> None:
        """Kill the process, or the machine: then what is not durable is gone."""
        replica = self.replica(node_id)
        disk = self.machines[node_id].disk
        replica.beliefs = None
        if lose_unsynced:
            disk.files = dict(disk.durable)
        self.checker.ended(replica)

    def restart(self, node_id: int, *, lose_unsynced: bool = False) -> None:
        """A new process, in the role that its quorum-state asks for."""
        self.end(node_id, lose_unsynced=lose_unsynced)
        replica = self.start(node_id)
        stored = replica.durable_election_state() or ElectionState(0)
        if stored.leader_id == node_id:
            self.become(node_id, Resigned(stored.epoch))
        elif stored.leader_id is not None:
            self.follow(node_id, stored.leader_id, stored.epoch)
        elif stored.voted_key is not None and stored.voted_key.id == node_id:
            self.become(node_id, Candidate(stored.epoch))
        else:
            self.become(node_id, Unattached(stored.epoch, None, stored.voted_key))

    # Roles

    def store(self, node_id: int, state: ElectionState, *, version: int | None = None) -> None:
        content = encode_quorum_state(
            state, self.facts.kraft_version if version is None else version, self.machines[node_id].static_voters
        )
        self.machines[node_id].disk.store(f"{DIRECTORY}/{QUORUM_STATE}", content)

    def become(self, node_id: int, role: Role, *, store: bool = True, voters: VoterSet | None = None) -> None:
        """Take a role: store it first, unless told otherwise, then publish it."""
        replica = self.replica(node_id)
        if store:
            self.store(node_id, election_state_of(role, replica.key))
        self._stamps += 1
        shown = self.facts.voters.newest(replica) if voters is None else voters
        leader_id = leader_of(role, replica.key)
        new = QuorumView(Stamp(role.epoch, self._stamps), role, leader_id, Endpoints(), None, None, shown, 1, leader_id)
        old, replica.view = replica.view, new
        self.checker.role_changed(replica, old, new)

    def follow(self, node_id: int, leader_id: int, epoch: int) -> None:
        """Follow a leader, keeping a vote given in the same epoch."""
        stored = self.replica(node_id).durable_election_state()
        voted = stored.voted_key if stored is not None and stored.epoch == epoch else None
        self.become(node_id, Follower(epoch, leader_id, endpoints_of(leader_id), voted))

    def vote(self, node_id: int, candidate: ReplicaKey, epoch: int, log_end: tuple[int, int] | None = None) -> None:
        """Be asked for a vote, give it, store it, and answer; `log_end`: of an epoch and up to an offset."""
        request = self.vote_request(candidate, node_id, epoch, log_end=log_end)
        self.become(node_id, Unattached(epoch, None, candidate))
        self.vote_response(request, granted=True)

    def stand(self, node_id: int) -> int:
        """Win a pre-vote, unseen, and be a candidate in the next epoch, which is returned."""
        view = self.replica(node_id).view
        if view is None:
            self.become(node_id, Unattached(0))
            view = self.replica(node_id).view
        assert view is not None
        leader_id, voted = (
            leader_of(view.role, self.replica(node_id).key),
            vote_of(view.role, self.replica(node_id).key),
        )
        self.become(node_id, Prospective(view.epoch, leader_id, voted=voted))
        self.become(node_id, Candidate(view.epoch + 1))
        return view.epoch + 1

    def elect(self, leader_id: int, *, by: Sequence[int]) -> int:
        """A lawful election; `by` are the others that vote for the leader, and then follow it.  Returns the epoch."""
        epoch = self.stand(leader_id)
        candidate = self.replica(leader_id).key
        for node_id in by:
            self.vote(node_id, candidate, epoch)
        self.lead(leader_id, epoch, [candidate, *(self.replica(node_id).key for node_id in by)])
        self.append(leader_id, epoch, control=[LeaderChange(leader_id, (1, 2, 3), (leader_id, *by))])
        for node_id in by:
            self.follow(node_id, leader_id, epoch)
        return epoch

    def lead(
        self, node_id: int, epoch: int, granting: Iterable[ReplicaKey] = (), start_offset: int | None = None
    ) -> None:
        start = self.replica(node_id).log_end if start_offset is None else start_offset
        self.become(node_id, Leader(epoch, start, frozenset(granting)))

    # Logs

    def append(
        self,
        node_id: int,
        epoch: int,
        *values: bytes,
        control: Sequence[ControlRecord] = (),
        base_offset: int | None = None,
        by_leader: bool | None = None,
        voters: VoterSet | None = None,
    ) -> Entry:
        """Write one batch behind the log's end; the set in force is then the last in the log, or the one given."""
        replica = self.replica(node_id)
        encoded = (
            encode_control_batch(control, timestamp_ms=0)
            if control
            else encode_batch([NewRecord(value) for value in values], timestamp_ms=0)
        )
        batch = bytearray(encoded)
        patch_base_offset_and_epoch(batch, 0, replica.log_end if base_offset is None else base_offset, epoch)
        return self.append_bytes(node_id, bytes(batch), by_leader=by_leader, voters=voters)[-1]

    def append_bytes(
        self, node_id: int, batches: bytes, *, by_leader: bool | None = None, voters: VoterSet | None = None
    ) -> Sequence[Entry]:
        replica, disk = self.replica(node_id), self.machines[node_id].disk
        position = len(disk.files.get(SEGMENT, b""))
        disk.files[SEGMENT] = disk.files.get(SEGMENT, b"") + batches
        count, start = 0, 0
        while start < len(batches):
            start += peek_header(batches, start).size_in_bytes
            count += 1
        entries = replica.append(batches, count, SEGMENT, position)
        for entry in entries:
            if entry.voters is not None:
                self.count_by(node_id, entry.voters, entry.base_offset)
                self.machines[node_id].beliefs.target = entry.target
        if voters is not None:
            self.count_by(node_id, voters)
        self.checker.appended(replica, entries, replica.is_leader if by_leader is None else by_leader)
        return entries

    def change_voters(
        self,
        node_id: int,
        epoch: int,
        voters: VoterSet,
        *,
        uses: VoterSet | None = None,
        target: tuple[ReplicaKey, ...] = (),
    ) -> Entry:
        """Append a VotersRecord; the node then counts by that set, or by the one it is said to use."""
        return self.append(node_id, epoch, control=[VotersRecord(voters, target)], voters=uses)

    def count_by(self, node_id: int, voters: VoterSet, offset: int | None = -1) -> None:
        """The node takes that set, of the record at that offset, for the one in force; -1 for the bootstrap set's."""
        beliefs = self.machines[node_id].beliefs
        beliefs.voters, beliefs.voters_offset = voters, offset

    def copy(self, source: int, target: int, up_to: int | None = None) -> None:
        """The target fetches what the source has beyond its end, up to an offset, and syncs it."""
        content = self.machines[source].disk.files.get(SEGMENT, b"")
        for entry in self.replica(source).entries_from(self.replica(target).log_end):
            if up_to is not None and entry.next_offset > up_to:
                break
            self.append_bytes(target, content[entry.position : entry.position + entry.size])
        self.sync(target)

    def sync(self, node_id: int) -> None:
        disk, replica = self.machines[node_id].disk, self.replica(node_id)
        if SEGMENT in disk.files:
            disk.durable[SEGMENT] = disk.files[SEGMENT]
        replica.synced_end = replica.log_end
        self.checker.synced(replica, replica.log_end)

    def truncate(self, node_id: int, offset: int, *, voters: VoterSet | None = None, voters_offset: int = -1) -> None:
        """Drop what is at that offset and above; the node then counts by the set it did, or by the one given."""
        replica, disk = self.replica(node_id), self.machines[node_id].disk
        removed = replica.truncate(offset)
        if removed:
            disk.files[SEGMENT] = disk.files[SEGMENT][: removed[0].position]
        if voters is not None:
            self.count_by(node_id, voters, voters_offset)
        self.checker.truncated(replica, offset, removed)

    def commit(self, node_id: int, high_watermark: int, *, old: int | None = -1) -> None:
        """The node takes everything below for committed; `old` is what it says that it knew before."""
        replica = self.replica(node_id)
        before = replica.high_watermark if old == -1 else old
        replica.high_watermark = high_watermark
        self.checker.high_watermark_advanced(replica, before, high_watermark)

    def commit_everywhere(self, leader_id: int, followers: Sequence[int]) -> None:
        """The lawful way: all copy and sync, then all fetch from the end of the leader's log."""
        leader = self.replica(leader_id)
        assert leader.view is not None
        self.sync(leader_id)
        for node_id in followers:
            self.copy(leader_id, node_id)
            self.fetch(node_id, leader_id, leader.view.epoch)
        self.commit(leader_id, leader.log_end)
        for node_id in followers:
            self.commit(node_id, leader.log_end)

    def apply(self, node_id: int, *records: tuple[int, bytes]) -> None:
        """The state machine is given these offsets and values; what is committed and not applied yet by default."""
        replica = self.replica(node_id)
        if records:
            self._apply(replica, [Record(offset, 0, None, value) for offset, value in records])
            return
        content = self.machines[node_id].disk.files.get(SEGMENT, b"")
        for entry in replica.entries_from(replica.applied_end):
            if not entry.is_control and entry.next_offset <= (replica.high_watermark or 0):
                header = peek_header(content, entry.position)
                self._apply(replica, decode_records(content, entry.position, header))

    def _apply(self, replica: Replica, records: Sequence[Record]) -> None:
        replica.apply(records)
        self.checker.applied(replica, records[0].offset, records)

    def load(self, node_id: int, end_offset: int) -> None:
        """The state machine is given a snapshot that ends there (exclusive)."""
        self.checker.loaded(self.replica(node_id), end_offset)

    def restore(self, node_id: int, end_offset: int, *values: bytes) -> None:
        """These are all the values that the snapshot has given to the state machine."""
        self.load(node_id, end_offset)
        self.checker.restored(self.replica(node_id), end_offset, functools.reduce(digest_after, values, NOTHING))

    def trim(self, node_id: int, start_offset: int) -> None:
        """The log now begins there."""
        replica = self.replica(node_id)
        replica.trim(start_offset)
        self.checker.trimmed(replica, start_offset)

    def put_snapshot(self, node_id: int, snapshot_id: OffsetAndEpoch, content: bytes | None = None) -> None:
        whole = encode_bootstrap_checkpoint(self.initial_voters, 1, 0)
        path = f"{DIRECTORY}/{checkpoint_name(snapshot_id)}"
        self.machines[node_id].disk.store(path, whole if content is None else content)

    def rot(self, node_id: int, snapshot_id: OffsetAndEpoch) -> None:
        """The medium damages a snapshot, under the process where there is one."""
        self.machines[node_id].damage(f"{DIRECTORY}/{checkpoint_name(snapshot_id)}", b"rotten")

    def notice(self, node_id: int, snapshot_id: OffsetAndEpoch) -> None:
        """The process comes upon a damaged snapshot."""
        self.machines[node_id].beliefs.noticed.add(snapshot_id)

    # Messages

    def request(self, api: Api[Any, Any], value: object, source: str, target: str) -> Message:
        """One that is sent and arrives."""
        message = Message(0, self.now_s, source, target, 0, True, api.key, api.max_version, 0, b"")
        message._value = value
        self.checker.message_sent(message)
        message.delivered = True
        self.checker.message_delivered(message)
        return message

    def response(self, request: Message, value: object) -> None:
        message = Message(
            0, self.now_s, request.target, request.source, 0, False, request.api_key, request.version, 0, b"", request
        )
        message._value = value
        self.checker.message_sent(message)
        message.delivered = True
        self.checker.message_delivered(message)

    def vote_request(
        self,
        candidate: ReplicaKey,
        voter: int,
        epoch: int,
        *,
        pre_vote: bool = False,
        log_end: tuple[int, int] | None = None,
    ) -> Message:
        """It says how far the candidate's log goes, or what it is told to say."""
        log = self.replica(candidate.id)
        last_epoch, end = log_end or (log.entries[-1].epoch if log.entries else 0, log.log_end)
        directory_id = key_of(voter).directory_id
        value = VoteRequest(CLUSTER_ID, voter, "log", 0, candidate, epoch, directory_id, end, last_epoch, pre_vote)
        return self.request(VOTE, value, f"node-{candidate.id}", f"node-{voter}")

    def vote_response(self, request: Message, *, granted: bool) -> None:
        self.response(request, VoteResponse(vote_granted=granted))

    def fetch(
        self,
        node_id: int,
        leader_id: int,
        epoch: int,
        *,
        offset: int | None = None,
        key: ReplicaKey | None = None,
        believed: int | None = None,
    ) -> Message:
        """A replica's Fetch, which the leader, if it is one, then believes; `believed`: or something else."""
        replica = self.replica(node_id)
        at = replica.log_end if offset is None else offset
        named = replica.key if key is None else key
        partition = FetchPartition(
            "log", NO_TOPIC_ID, 0, at, 1000, epoch, replica_directory_id=named.directory_id, high_watermark=-1
        )
        message = self.request(
            FETCH,
            FetchRequest(CLUSTER_ID, named.id, partitions=(partition,)),
            f"node-{node_id}",
            f"node-{leader_id}",
        )
        self.machines[leader_id].beliefs.synced_ends[replica.key] = at if believed is None else believed
        return message

    def fetch_response(self, request: Message, epoch: int, high_watermark: int) -> None:
        leader_id = int(request.target.removeprefix("node-"))
        partition = FetchPartitionResponse(
            "log", NO_TOPIC_ID, 0, high_watermark=high_watermark, leader_id=leader_id, leader_epoch=epoch
        )
        self.response(request, FetchResponse(partitions=(partition,)))

    def fetch_snapshot(self, node_id: int, leader_id: int) -> None:
        value = FetchSnapshotRequest(CLUSTER_ID, node_id, 1000, "log", 0, 1, OffsetAndEpoch(1, 1), 0)
        self.request(FETCH_SNAPSHOT, value, f"node-{node_id}", f"node-{leader_id}")
