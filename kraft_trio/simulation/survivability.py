"""Whether the quorum will keep a majority for good, whatever becomes of the voter changes under way.

No protocol survives the loss of a majority's disks, so random runs must not cause that.  When voters change, it depends
on the moment how many disks can fail: of five voters two may, but no longer once a third one is removed.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import attrs

from kraft_trio.client.admin import VoterChangeError
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet, majority_of
from kraft_trio.simulation.facts.entry import Entry
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.voter_sets import is_same_replica
from kraft_trio.simulation.world import World

REPEATED_WITHIN_S: Final = 15.0
"""How long after its answer a request may be carried out once more, because the network may deliver it twice."""

LOST_WITHIN_S: Final = 90.0
"""An unanswered request may take effect this long after its client gave up, because it may be stuck in the network or
in a paused process."""


@attrs.define(eq=False)
class AskedChange:
    """A requested change of one member, which may be made for as long as it is listed."""

    key: ReplicaKey
    is_removal: bool
    may_happen_until_s: float | None = None
    """Virtual time; None while the client waits for an answer."""


@attrs.define(eq=False)
class AskedTarget:
    """A requested reassignment to these ids.  While it is listed, it may become the target."""

    ids: tuple[int, ...]
    may_happen_until_s: float | None = None
    """Virtual time; None while the client waits for an answer."""


class Survivability:
    """Looks at every voter set that may be in force, by the logs, and at every change that was requested."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._asked: list[AskedChange] = []
        self._targets: list[AskedTarget] = []
        self.is_guarded = False
        """Whether steps leave alone the disks, voters and addresses that the quorum could never do without."""
        self.may_be_lost = False
        """Whether a step may have taken the disks of a majority: `blank-majority`, or `blank-disk` without `fair`."""

    @contextmanager
    def asking(self, key: ReplicaKey, *, is_removal: bool) -> Iterator[None]:
        """While the block runs, a client asks for this change, which may still happen for a while afterwards."""
        change = AskedChange(key, is_removal)
        self._asked.append(change)
        with self._until_it_can_happen_no_more(change):
            yield

    def asked(self) -> list[AskedChange]:
        """The requested changes that may still be made, or made once more."""
        now_s = self._world.now_s
        self._asked = [
            change for change in self._asked if change.may_happen_until_s is None or change.may_happen_until_s >= now_s
        ]
        return self._asked

    @contextmanager
    def asking_for(self, target: tuple[int, ...]) -> Iterator[None]:
        """While the block runs, a client asks for this reassignment, which may still begin for a while afterwards."""
        asked = AskedTarget(target)
        self._targets.append(asked)
        with self._until_it_can_happen_no_more(asked):
            yield

    @contextmanager
    def _until_it_can_happen_no_more(self, asked: AskedChange | AskedTarget) -> Iterator[None]:
        """Give the request its time limit when the client knows its outcome, or gives it up."""
        grace_s = LOST_WITHIN_S
        try:
            yield
            grace_s = REPEATED_WITHIN_S
        except VoterChangeError:
            grace_s = REPEATED_WITHIN_S
            raise
        finally:
            asked.may_happen_until_s = self._world.now_s + grace_s

    def targets(self) -> list[tuple[int, ...]]:
        """The ids of every target that is in the log of a replica with its disk, or may still be set."""
        now_s, facts = self._world.now_s, self._world.facts
        self._targets = [
            asked for asked in self._targets if asked.may_happen_until_s is None or asked.may_happen_until_s >= now_s
        ]
        in_logs = [
            logged.target
            for replica in facts.present.values()
            if replica.key in facts.processes
            for logged in (*facts.voters.in_log_above(replica, facts.committed.end), facts.voters.last(replica))
        ]
        in_logs += [entry.target for entry in facts.committed.voter_sets[-1:]]
        told = [tuple(key.id for key in target) for target in in_logs if target]
        return list(dict.fromkeys([*(asked.ids for asked in self._targets), *told]))

    def permits_reassignment_to(self, target: Sequence[int]) -> bool:
        """Whether the quorum would keep a majority in every order of steps to these voters.

        Always true if it is not guarded.
        """
        if not self.is_guarded:
            return True
        nodes = sorted(self._world.node_ids)
        return all(
            self.keeps_promises(Voter(self._world.key_of(id))) and not self._may_be_mistaken(id) for id in target
        ) and self.has_majority(nodes, target=tuple(target))

    def _may_be_mistaken(self, node_id: int) -> bool:
        """Whether a leader remembers a lost incarnation of that node, and might add it instead of the present one."""
        present = self._world.key_of(node_id)
        return any(
            known.id == node_id and known != present
            for node in self._world.nodes.values()
            if (progress := node.tree.election.progress) is not None
            for known in progress.observers(node.log.voters.voters)
        )

    def committed(self) -> VoterSet:
        """The newest committed voter set; before the first one, the initial voters."""
        world = self._world
        for entry in world.facts.committed.voter_sets[-1:]:
            if entry.voters is not None:
                return entry.voters
        if world.setup.kraft_version:
            return world.initial_voters
        return world.config_of(world.voter_ids[0]).static_voter_set()

    def possible(self) -> list[VoterSet]:
        """The newest committed set, and every later one in the log of a replica that still has its disk."""
        facts = self._world.facts
        end = facts.committed.end
        sets = [self.committed()]
        for node_id in self._world.node_ids:
            replica = facts.present[node_id]
            if replica.key in facts.processes:
                above = facts.voters.in_log_above(replica, end)
                sets += [logged.voters for logged in above if logged.voters not in sets and len(logged.voters)]
        return sets

    def permits_loss_of(self, key: ReplicaKey) -> bool:
        """Whether a step may take that replica's disk: always, unless the quorum is guarded."""
        return not self.is_guarded or self.can_spare(key)

    def permits_return_of(self, replica: Replica, state: ElectionState) -> bool:
        """Whether that replica may come back with an old log and this quorum-state, and nothing could be lost by that.

        It must forget no vote, and without it a majority of every set that may be in force must hold all that it may
        have acknowledged, or that is committed.
        """
        if state != replica.durable_election_state():
            return False
        lasts = [*replica.entries[-1:], *self._world.facts.committed.entries[-1:]]
        return all(self._is_kept_without(replica, entry) for entry in lasts)

    def _is_kept_without(self, replica: Replica, entry: Entry) -> bool:
        def holds(voter: Voter) -> bool:
            other = self._world.facts.present.get(voter.id)
            if other is None or other is replica or not self.keeps_promises(voter):
                return False
            held = other.entry_ending_at(entry.next_offset)
            return held is not None and held.chain == entry.chain and other.has_durably(held)

        return all(sum(map(holds, voters)) >= voters.majority for voters in self.possible())

    def permits_move_of(self, key: ReplicaKey) -> bool:
        """Whether a step may give that replica another address: always, if gossip brings the voters together again."""
        return self._world.has_gossip or self.permits_loss_of(key)

    def can_spare(self, key: ReplicaKey) -> bool:
        """Whether that replica may be removed or lose its disk; or, without gossip, move to another address.

        Also true if it is lost already: a set without it is no worse.
        """
        voter = self.committed().get(key.id)
        if voter is not None and voter.key == key and not self.keeps_promises(voter):
            return True
        return self.has_majority(sorted(self._world.node_ids), without=key)

    def surplus(self, source: random.Random) -> list[int]:
        """Nodes without whose disks no voter set that may be in force has a majority.  As few as that takes."""
        sets, kept = self.possible(), set[ReplicaKey]()
        members = [voter for voters in sets for voter in voters]
        for voter in source.sample(members, len(members)):
            more = kept | {voter.key}
            if all(sum(one.key in more for one in voters) < majority_of(len(voters)) for voters in sets):
                kept = more
        return sorted({voter.id for voter in members if voter.key not in kept})

    def is_lost(self) -> bool:
        """Whether a step has taken a majority of every voter set that may be in force."""
        return self.may_be_lost and all(
            sum(self._world.key_of(voter.id) == voter.key for voter in voters) < majority_of(len(voters))
            for voters in self.possible()
        )

    def has_majority(
        self, nodes: Collection[int], *, without: ReplicaKey | None = None, target: tuple[int, ...] | None = None
    ) -> bool:
        """Whether these nodes alone would be a majority of every set that may be in force, now or soon.

        Reassignments may add every member of their targets, `target` among them, and remove every other voter.
        """
        targets = [*self.targets(), *([] if target is None else [target])]
        asked = self.asked()
        added = [change.key for change in asked if not change.is_removal]
        added += self._joining()
        added += [self._world.key_of(id) for ids in targets for id in ids]
        removed = [change.key for change in asked if change.is_removal]
        removed += [] if without is None else [without]

        def is_there(voter: Voter) -> bool:
            is_spared = without is not None and is_same_replica(voter.key, without)
            return voter.id in nodes and not is_spared and self.keeps_promises(voter)

        for voters in self.possible():
            there = [voter.key for voter in voters if is_there(voter)]
            kept = [key for key in there if all(key.id in ids for ids in targets)]
            left = sum(key not in removed for key in kept)
            members = [voter.key for voter in voters]
            come = [key for key in dict.fromkeys(added) if key not in members and not is_there(Voter(key))]
            missing = len(voters) - len(there) + len(come)
            if missing and left <= missing:
                return False
        return True

    def keeps_promises(self, voter: Voter) -> bool:
        """Whether the replica still has the disk with its promises, and is found by gossip or where the set says."""
        replica = self._world.facts.present.get(voter.id)
        if replica is None or replica.device.is_damaged or replica.device.is_being_replaced:
            return False
        is_present = voter.key.directory_id in (NO_DIRECTORY_ID, replica.key.directory_id)
        return is_present and (self._world.has_gossip or self._is_where_listed(voter))

    def needs_gossip(self) -> bool:
        """Whether a set that may be in force has a voter that listens elsewhere."""
        return not all(self._is_where_listed(voter) for voters in self.possible() for voter in voters)

    def _is_where_listed(self, voter: Voter) -> bool:
        listed = next((endpoint for _, endpoint in voter.endpoints), None)
        return listed in (None, self._world.endpoint_of(voter.id))

    def members(self) -> list[int]:
        """The ids of all nodes that are voters or may become voters."""
        asked = [change.key.id for change in self.asked()]
        asked += [id for ids in self.targets() for id in ids]
        asked += [key.id for key in self._joining()]
        return sorted({*asked, *(id for voters in self.possible() for id in voters.ids)})

    def _joining(self) -> list[ReplicaKey]:
        """The replicas that may make themselves voters at any moment."""
        world = self._world
        return [world.key_of(id) for id in world.node_ids if world.config_of(id).auto_join]
