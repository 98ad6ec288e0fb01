"""Two hosts of Patroni, without PostgreSQL: python -m tests.acceptance.patroni_hosts GATEWAY...

Patroni's client of etcd keeps threads that nobody can stop, so it has a process of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from patroni.dcs.etcd3 import Etcd3  # type: ignore[import-not-found, import-untyped, unused-ignore]
from patroni.postgresql.mpp import get_mpp  # type: ignore[import-not-found, import-untyped, unused-ignore]

from harness.waiting import WAIT_SECONDS, wait_until


def host(name: str, gateways: list[str]) -> Any:
    """Its access to the store."""
    config = {"hosts": gateways, "namespace": "/service/", "scope": "rows", "name": name, "ttl": 3600}
    return Etcd3({**config, "loop_wait": 10, "retry_timeout": WAIT_SECONDS}, get_mpp({}))


def seen(host: Any, what: str, condition: Callable[[Any], object]) -> Any:
    """What a host knows of the cluster as soon as that holds; its watch may tell it late."""

    def known() -> Any:
        cluster = host.get_cluster()
        return (cluster,) if condition(cluster) else None  # an empty cluster is false

    return wait_until(f"{host._name} knows {what}", known)[0]


def converse(gateways: list[str]) -> dict[str, object]:
    """What the hosts are answered, by the question."""
    said: dict[str, object] = {}
    a, b = host("a", gateways), host("b", gateways[::-1])
    said["both initialize"] = [bool(one.initialize()) for one in (a, b)]
    said["the system id is set"] = bool(a.initialize(create_new=False, sysid="7"))
    said["both are members"] = [a.touch_member({"role": "primary"}), b.touch_member({"role": "replica"})]
    said["both want the lock"] = [bool(one.attempt_to_acquire_leader()) for one in (a, b)]
    for each in (a, b):
        cluster = seen(each, "the leader and the members", lambda now: now.leader and len(now.members) == 2)
        said[f"{each._name} sees"] = [cluster.initialize, cluster.leader.name, sorted(m.name for m in cluster.members)]
    said["the leader renews its lock"] = a.update_leader(a.get_cluster(), 100)
    said["another does not"] = b.update_leader(b.get_cluster(), 100)
    said["the log's end is seen"] = seen(b, "the log's end", lambda now: now.status.last_lsn == 100) is not None
    said["a failover is asked for"] = b.manual_failover("a", "b")
    failover = seen(a, "the failover", lambda now: now.failover).failover
    said["the leader sees it"] = [failover.leader, failover.candidate]
    said["it is changed by its version"] = a.manual_failover("", "", version=failover.version)
    said["that version is gone"] = a.manual_failover("a", "c", version=failover.version)
    b.event.clear()
    said["the leader gives up its lock"] = a.delete_leader(a.get_cluster().leader)
    said["the watch wakes the other"] = b.watch(None, WAIT_SECONDS)
    seen(b, "that nobody leads", lambda now: now.is_unlocked())
    said["now it gets the lock"] = [bool(one.attempt_to_acquire_leader()) for one in (b, a)]
    said["the cluster is deleted"] = bool(a.delete_cluster())
    seen(b, "that nothing is left", lambda now: now.initialize is None and not now.members)
    return said


if __name__ == "__main__":
    print(json.dumps(converse(sys.argv[1:])))
