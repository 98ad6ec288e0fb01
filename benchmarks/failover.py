"""Time from kill -9 of the leader to the next acknowledged commit."""

from __future__ import annotations

import http.client
import json
import statistics
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence

import trio

from benchmarks import etcd_cluster
from benchmarks.children import BenchmarkError
from benchmarks.context import Context
from benchmarks.etcd_cluster import EtcdCluster
from benchmarks.kraft_client import try_to_commit
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.report import Aim, Section
from benchmarks.side_by_side import ETCD, OURS

FETCH_TIMEOUT_SECONDS = 2.0
"""The default of controller.quorum.fetch.timeout.ms; the aim is relative to it."""
GIVE_UP_SECONDS = 60.0
RETRY_SECONDS = 0.005

Attempt = Callable[[int], Awaitable[bool]]
"""Try once to commit a value through that node; False when it did not."""


async def measure(context: Context) -> Section:
    kills = context.pick(15, 4)
    seconds: dict[str, list[float]] = {}
    with context.fresh_directory("failover") as directory:
        async with KraftCluster.started(directory / "kraft", context.overrides) as kraft:
            seconds[OURS] = await _kill_leaders(context, OURS, kraft, kills, lambda node: _commit_ours(kraft, node))
        if etcd_cluster.why_unavailable() is None:
            async with EtcdCluster.started(directory / "etcd") as etcd:
                seconds[ETCD] = await _kill_leaders(
                    context, ETCD, etcd, kills, lambda member: _commit_etcd(etcd, member)
                )

    rows = [
        (system, f"{len(taken)}", f"{statistics.median(taken):.2f}", f"{min(taken):.2f}", f"{max(taken):.2f}")
        for system, taken in seconds.items()
    ]
    if ETCD not in seconds:
        rows.append((f"etcd: NOT MEASURED, {etcd_cluster.why_unavailable()}", "–", "–", "–", "–"))
    limit, worst = FETCH_TIMEOUT_SECONDS + 1, max(seconds[OURS])
    return Section(
        name="failover",
        title="Failover: kill -9 of the leader to the next commit",
        method=(
            "Three nodes with default timeouts. While it runs idle the leader is killed with SIGKILL; both others are "
            f"asked to commit a small record, again every {RETRY_SECONDS * 1000:.0f} ms, until one acknowledges it. "
            "Then the dead one is started again, and the next kill waits until all three have the same log. etcd "
            "(election timeout 1 s) for scale, through its JSON gateway."
        ),
        columns=("system", "kills", "median s", "min s", "max s"),
        rows=tuple(rows),
        aims=(Aim(f"below the fetch timeout + 1 s = {limit:.0f} s, each time", f"max {worst:.2f} s", worst < limit),),
        data={"seconds": seconds},
    )


async def _kill_leaders(
    context: Context, system: str, cluster: KraftCluster | EtcdCluster, kills: int, attempt: Attempt
) -> list[float]:
    taken = []
    for number in range(kills):
        await cluster.all_caught_up()
        leader = await cluster.leader()
        survivors = [node for node in cluster.node_ids if node != leader]
        if not await attempt(leader):
            raise BenchmarkError(f"{system}: the leader, {leader}, does not commit before it is killed")
        killed = time.perf_counter()
        await cluster.kill(leader)
        acknowledged = await _first_commit(survivors, attempt)
        taken.append(acknowledged - killed)
        context.say(f"failover {number + 1} of {kills}: {system} {taken[-1]:.2f} s")
        await cluster.start(leader)
    return taken


async def _first_commit(survivors: Sequence[int], attempt: Attempt) -> float:
    """When (time.perf_counter() seconds) the first survivor acknowledged."""
    times: list[float] = []

    async def ask(node: int) -> None:
        while not await attempt(node):  # noqa: ASYNC110 - another process: there is no event to wait for
            await trio.sleep(RETRY_SECONDS)
        times.append(time.perf_counter())
        nursery.cancel_scope.cancel()

    with trio.move_on_after(GIVE_UP_SECONDS):
        async with trio.open_nursery() as nursery:
            for node in survivors:
                nursery.start_soon(ask, node)
    if not times:
        raise BenchmarkError(f"no commit within {GIVE_UP_SECONDS:.0f} s of the leader's death")
    return min(times)


async def _commit_ours(cluster: KraftCluster, node: int) -> bool:
    return await try_to_commit(cluster.endpoint(node), b"failover")


async def _commit_etcd(cluster: EtcdCluster, member: int) -> bool:
    body = json.dumps({"key": b64encode(b"failover").decode(), "value": b64encode(b"x").decode()})

    def put() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", cluster.client_ports[member], timeout=0.5)
        try:
            connection.request("POST", "/v3/kv/put", body=body)
            response = connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        return response.status == 200

    return await trio.to_thread.run_sync(put)
