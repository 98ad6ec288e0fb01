"""Steps of processes and machines.

Each step names any number of nodes, and skips those it does not apply to, such as dead nodes for `kill`.
"""

from __future__ import annotations

from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.machine import Machine
from kraft_trio.simulation.script.parts import Lose, Nodes
from kraft_trio.simulation.script.step import step


def _machines(cluster: Cluster, nodes: Nodes) -> list[Machine]:
    return [cluster.machines[node] for node in nodes]


@step
async def crash(cluster: Cluster, nodes: Nodes, lose: Lose = "all") -> None:
    """Cuts the power and loses unsynced writes: all, some (the last one torn), or out of order."""
    for machine in _machines(cluster, nodes):
        machine.crash(lose)
    for machine in _machines(cluster, nodes):
        await machine.wait_until_ended()


@step
async def kill(cluster: Cluster, nodes: Nodes) -> None:
    """Ends the processes like kill -9."""
    for machine in _machines(cluster, nodes):
        machine.kill()
    for machine in _machines(cluster, nodes):
        await machine.wait_until_ended()


@step
async def stop(cluster: Cluster, nodes: Nodes) -> None:
    """Stops the processes like SIGTERM."""
    for machine in _machines(cluster, nodes):
        if machine.is_running:
            await machine.stop()


@step
async def start(cluster: Cluster, nodes: Nodes) -> None:
    """Starts the processes that are not running."""
    for machine in _machines(cluster, nodes):
        await machine.start()


@step
async def restart(cluster: Cluster, nodes: Nodes) -> None:
    """Kills the processes that run, then starts all of them."""
    await kill.does(cluster, nodes)
    await start.does(cluster, nodes)


@step
async def pause(cluster: Cluster, nodes: Nodes) -> None:
    """Freezes the processes like SIGSTOP; messages to them wait."""
    for machine in _machines(cluster, nodes):
        machine.pause()


@step
async def resume(cluster: Cluster, nodes: Nodes) -> None:
    """Resumes paused processes."""
    for machine in _machines(cluster, nodes):
        machine.resume()
