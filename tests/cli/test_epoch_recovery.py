"""`kraft storage recover --unsafe-epoch`: a quorum in the last epoch elects again."""

from __future__ import annotations

import pytest
import trio

from kraft_trio.cli.directory.epoch_recovery import EpochRecovery, lower_epoch
from kraft_trio.cli.directory.recovery import RECORD, only_voter
from kraft_trio.errors import ConfigError, StorageError
from kraft_trio.protocol.epoch_limits import MAX_EPOCH
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.machine import Machine
from kraft_trio.simulation.script.steps.expectations import values_of
from tests.actors.election.test_epoch_limits import store_epochs, stored_epoch
from tests.cli.test_recovery import files_of, kill_all, recovered
from tests.support.lone_node import lone_node
from tests.support.on_cluster import on_cluster


async def lowered(machine: Machine, epoch: int, *, agree: bool = True) -> EpochRecovery:
    machine.disk.is_attached = True
    return await lower_epoch(
        machine.disk, machine.config, epoch, confirmed=lambda _recovery: agree, now_ms=machine.wall_clock_ms()
    )


async def run_out(cluster: Cluster) -> None:
    """A quorum with a record, stopped, all of it in the last epoch."""
    await (await cluster.wait_for_leader()).append([b"kept"])
    await cluster.wait_until_alike()
    await kill_all(cluster)
    store_epochs(cluster, *cluster.machines, epoch=MAX_EPOCH)


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_a_quorum_in_the_last_epoch_elects_again(kraft_version: int) -> None:
    @on_cluster(invariants=(), observers=1, kraft_version=kraft_version)
    async def elects_again(cluster: Cluster) -> None:
        await run_out(cluster)
        for machine in cluster.machines.values():
            await machine.start()
        with pytest.raises(trio.TooSlowError):
            await cluster.wait_for_leader(within_s=10)
        await kill_all(cluster)
        for node_id, machine in cluster.machines.items():
            recovery = await lowered(machine, 2)
            assert (recovery.epoch, recovery.new_epoch, recovery.log_end.epoch) == (MAX_EPOCH, 2, 1)
            assert stored_epoch(cluster, node_id) == 2
        for machine in cluster.machines.values():
            await machine.start()
        leader = await cluster.wait_for_leader()
        assert leader.view.epoch < 10
        await leader.append([b"new"])
        await cluster.wait_until_alike()
        values = []
        async for committed in leader.committed():
            values.append(committed.value)
            if committed.value == b"new":
                break
        assert values == [b"kept", b"new"]

    elects_again()


@on_cluster(invariants=())
async def test_nothing_is_changed_without_agreement(cluster: Cluster) -> None:
    await run_out(cluster)
    machine = cluster.machines[1]
    before = files_of(machine)
    recovery = await lowered(machine, 2, agree=False)
    assert recovery.lines()["Epoch"] == f"{MAX_EPOCH}, then 2"
    assert files_of(machine) == before
    assert machine.disk.durable_bytes(f"/data/{RECORD}") is None


@on_cluster(invariants=(), kraft_version=0)
async def test_a_preview_gives_no_directory_id(cluster: Cluster) -> None:
    await run_out(cluster)
    machine = cluster.machines[1]
    machine.disk.is_attached = True
    path = "/data/meta.properties"
    old = "".join(
        f"{line}\n" for line in machine.disk.read_bytes(path).decode().splitlines() if "directory.id" not in line
    )
    machine.disk.replace_now(path, old.encode())
    await lowered(machine, 2, agree=False)
    assert machine.disk.read_bytes(path).decode() == old


@pytest.mark.parametrize(
    ("epoch", "reason"),
    [(1, "the log ends in epoch 1; expected an epoch above"), (MAX_EPOCH, "there is nothing to lower")],
)
@on_cluster(invariants=())
async def test_an_epoch_that_cannot_be_right_is_refused(cluster: Cluster, epoch: int, reason: str) -> None:
    await run_out(cluster)
    with pytest.raises(ConfigError, match=reason):
        await lowered(cluster.machines[1], epoch)
    assert stored_epoch(cluster, 1) == MAX_EPOCH


@pytest.mark.parametrize("content", [None, b"", bytes(114), b"{}"])
@on_cluster(invariants=(), voters=1)
async def test_a_sole_voter_gets_a_new_quorum_state_for_one_that_is_lost(
    cluster: Cluster, content: bytes | None
) -> None:
    """Nobody else can have voted, so its forgotten vote does no harm."""
    await (await cluster.wait_for_leader()).append([b"kept"])
    await cluster.wait_until_alike()
    await kill_all(cluster)
    machine = cluster.machines[1]
    machine.disk.is_attached = True
    path = f"{machine.partition_path}/quorum-state"
    machine.disk.remove(path)
    if content is not None:
        machine.disk.replace_now(path, content)
    if content != b"{}":  # That message names the field.
        advice = (
            "; an only voter has the only copy: keep its directory, and run `kraft storage recover --unsafe-epoch`$"
        )
        with pytest.raises(StorageError, match=advice):
            async with lone_node(cluster, 1):
                pytest.fail("it runs")
    with pytest.raises(ConfigError, match="the log ends in epoch 1; expected an epoch above"):
        await lowered(machine, 1)
    assert (await lowered(machine, 2)).lines()["Epoch"] == "unknown, then 2"
    await machine.start()
    assert values_of(await cluster.wait_for_leader()) == ["kept"]


@on_cluster(invariants=())
async def test_voters_are_not_recovered_in_an_epoch_too_many(cluster: Cluster) -> None:
    await run_out(cluster)
    with pytest.raises(StorageError, match="lower it with --unsafe-epoch"):
        await recovered(cluster.machines[1], only_voter)
