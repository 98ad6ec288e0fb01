"""After the loss of a majority's disks: nobody may lead, and the survivors and `explain` must say which disks miss."""

from __future__ import annotations

from typing import Final

import trio

from kraft_trio.client.claims import ask_all
from kraft_trio.diagnosis.quorum_findings import findings
from kraft_trio.protocol.types import ReplicaKey, directory_id_to_text
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.script.recovery.demands import ELECTION_TIMEOUTS, Demands

LOSS: Final = "the loss of a majority's disks is told, and the survivors are spared"

_A_MAJORITY_IS_BLANK: Final = "a majority of the voters has blank disks"
_HARMFUL: Final = ("Stop it", "Stop the", "ormat a", "ormat it")
"""Advice that would cost the survivors, which have the only copy."""


async def demand_that_loss_is_told(demands: Demands) -> None:
    """End all faults, and demand that the survivors say whose disks miss, and `explain` spares them."""
    cluster = demands.cluster
    await demands.end_faults(demands.everyone)
    if cluster.workload is not None:
        await cluster.workload.stop()
    within_s = ELECTION_TIMEOUTS * demands.longest_timeout_s
    await demands.become(lambda: _survivors_tell(cluster), within_s)
    leader = cluster.leader()
    if leader is not None:
        await demands.violated(LOSS, (_A_MAJORITY_IS_BLANK, f"{leader.key} leads"), demands.everyone)
    with trio.fail_after(within_s):
        await _explain(demands)
    cluster.checker.finished()


def _missing(cluster: Cluster, voters: VoterSet) -> list[ReplicaKey]:
    return [voter.key for voter in voters if voter.key != cluster.key_of(voter.id)]


def _survivors_tell(cluster: Cluster) -> bool:
    """Whether each voter that has its disk reports all the others whose disks are missing."""
    for node in cluster.nodes.values():
        voters = node.log.voters.voters
        must_tell = voters.is_voter(node.key) and node.key.id not in cluster.setup.witnesses
        if must_tell and list(node.tree.other_disks.among(voters)) != _missing(cluster, voters):
            return False
    return len(cluster.nodes) == len(cluster.machines)


async def _explain(demands: Demands) -> None:
    """Ask as `kraft metadata-quorum explain` does."""
    cluster = demands.cluster
    if not any(len(node.log.voters.voters) for node in cluster.nodes.values()):
        return  # Nobody is left who knows the voters.
    endpoints = [cluster.endpoint_of(node) for node in demands.everyone]
    timeout_ms = round(1000 * demands.longest_timeout_s)
    network = cluster.network.seen_from("explain")
    situation = await ask_all(network, endpoints, timeout_ms=timeout_ms, fetch_timeout_ms=timeout_ms)
    found = findings(situation)
    texts = " | ".join(finding.text for finding in found)
    told = " ".join(finding.text for finding in found if finding.code == "other-disks")
    for key in _missing(cluster, cluster.survivability.committed()):
        if directory_id_to_text(key.directory_id) not in told:
            facts = (f"the disk of {key} is missing", f"explain says: {texts}")
            await demands.violated(LOSS, facts, demands.everyone)
    if any(word in finding.text for finding in found for word in _HARMFUL):
        await demands.violated(LOSS, (_A_MAJORITY_IS_BLANK, f"explain advises: {texts}"), demands.everyone)
