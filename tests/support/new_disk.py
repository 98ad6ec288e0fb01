"""A follower whose disk has to be replaced (KIP-853 "Disk failure recovery")."""

from __future__ import annotations

from kraft_trio.node import Node
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation import Cluster


async def replace_disk_of_a_follower(cluster: Cluster, leader: Node) -> tuple[ReplicaKey, ReplicaKey]:
    """It comes back blank, under its id: the old key and the new one."""
    machine = cluster.machines[cluster.others(leader)[0].key.id]
    old = cluster.key_of(machine.id)
    machine.kill()
    await machine.wait_until_ended()
    machine.replace_disk()
    await machine.start()
    return old, cluster.key_of(machine.id)
