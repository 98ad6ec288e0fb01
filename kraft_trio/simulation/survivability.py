"""Whether a quorum that changes its voters will have a majority for good, whatever becomes of the changes under way.

No protocol survives the loss of a majority's disks.  Random runs must not bring that about, and with voters that change
it depends on when: of five voters two disks may fail, but not any more once a third is removed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation.facts.membership import is_same_replica

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster


class Outlook:
    """Looks at every set that may be in force, by what the logs hold, and at every change that was asked for."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def committed(self) -> VoterSet:
        """The newest voter set that is committed; before the first one, the initial voters."""
        cluster = self._cluster
        for entry in cluster.checker.evidence.committed.voter_sets[-1:]:
            if entry.voters is not None:
                return entry.voters
        return cluster.initial_voters if cluster.setup.kraft_version else _static_set(cluster)

    def possible(self) -> list[VoterSet]:
        """The newest committed set, and every later one that is in the log of a replica that is not gone."""
        evidence = self._cluster.checker.evidence
        end = evidence.committed.end
        sets = [self.committed()]
        for machine in self._cluster.machines.values():
            if machine.replica is not None and machine.replica.key in evidence.processes:
                above = evidence.voters.in_log_above(machine.replica, end)
                sets += [logged.voters for logged in above if logged.voters not in sets and len(logged.voters)]
        return sets

    def can_spare(self, key: ReplicaKey) -> bool:
        """Whether that replica may be removed, lose its disk, or move to another address.

        Also where it is lost already: a set without it is no worse.
        """
        voter = self.committed().get(key.id)
        if voter is not None and voter.key == key and not self.keeps_promises(voter):
            return True
        return self.has_majority(sorted(self._cluster.machines), without=key)

    def has_majority(self, nodes: Collection[int], *, without: ReplicaKey | None = None) -> bool:
        """Whether these nodes alone would be a majority of every set that may be in force, soon or now."""
        asked = self._cluster.administrator.asked()
        added = [change.key for change in asked if not change.is_removal]
        added += self._joining()
        removed = [change.key for change in asked if change.is_removal]
        removed += [] if without is None else [without]

        def is_there(voter: Voter) -> bool:
            is_spared = without is not None and is_same_replica(voter.key, without)
            return voter.id in nodes and not is_spared and self.keeps_promises(voter)

        for voters in self.possible():
            there = [voter.key for voter in voters if is_there(voter)]
            left = sum(key not in removed for key in there)
            members = [voter.key for voter in voters]
            come = [key for key in dict.fromkeys(added) if key not in members and not is_there(Voter(key))]
            missing = len(voters) - len(there) + len(come)
            if missing and left <= missing:
                return False
        return True

    def keeps_promises(self, voter: Voter) -> bool:
        """Whether the replica still has what it promised, and listens where the set says."""
        machine = self._cluster.machines.get(voter.id)
        if machine is None or machine.replica is None or machine.has_bad_disk or machine.is_losing_disk:
            return False
        is_present = voter.key.directory_id in (NO_DIRECTORY_ID, machine.replica.key.directory_id)
        told = next((endpoint for _, endpoint in voter.endpoints), None)
        return is_present and told in (None, self._cluster.endpoint_of(voter.id))

    def members(self) -> list[int]:
        """The ids of all who are, or may become, a voter."""
        asked = [change.key.id for change in self._cluster.administrator.asked()]
        asked += [key.id for key in self._joining()]
        return sorted({*asked, *(id for voters in self.possible() for id in voters.ids)})

    def _joining(self) -> list[ReplicaKey]:
        """The replicas that may make themselves voters at any moment."""
        machines = self._cluster.machines.values()
        return [m.replica.key for m in machines if m.replica is not None and m.config.auto_join]


def _static_set(cluster: Cluster) -> VoterSet:
    return cluster.config_of(cluster.voter_ids[0]).static_voter_set()
