"""A directory that has lost meta.properties, or the directory id in it, starts under no other name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import structlog.testing

from kraft_trio.errors import StorageError
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey, directory_id_to_text
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.machine import Machine
from kraft_trio.simulation.script.steps.expectations import values_of
from kraft_trio.simulation.setup import CLUSTER_ID
from kraft_trio.simulation.state_machine import RememberedValues
from kraft_trio.storage.directory.quorum_state import encode_quorum_state
from tests.support.lone_node import lone_node
from tests.support.on_cluster import on_cluster

META = "/data/meta.properties"


def without_directory_id(machine: Machine) -> bytes:
    """Remove the line from the file, and return the line."""
    lines = machine.disk.read_bytes(META).splitlines(keepends=True)
    [line] = [line for line in lines if line.startswith(b"directory.id=")]
    machine.disk.replace_now(META, b"".join(one for one in lines if one != line))
    return line


async def refusal(cluster: Cluster, node_id: int = 1) -> str:
    with pytest.raises(StorageError) as refused:
        async with lone_node(cluster, node_id):
            pytest.fail("it runs")
    return str(refused.value)


async def stopped_with_records(cluster: Cluster, node_id: int = 1) -> Machine:
    await (await cluster.wait_for_leader()).append([b"value"])
    await cluster.wait_until_alike()
    await cluster.machines[node_id].stop()
    return cluster.machines[node_id]


@on_cluster(voters=1)
async def test_a_voter_does_not_get_a_new_id_for_the_one_it_has_lost(cluster: Cluster) -> None:
    machine = await stopped_with_records(cluster)
    line = without_directory_id(machine)
    before = machine.disk.read_bytes(META)
    text = await refusal(cluster)
    assert text.startswith(f"{META}: directory.id is not there, but {machine.partition_path}/")
    assert f"add the line {line.decode().strip()};" in text
    assert machine.disk.read_bytes(META) == before
    machine.disk.replace_now(META, before + line)
    await machine.start()
    leader = await cluster.wait_for_leader()
    assert values_of(leader) == ["value"]


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: bytes(len(data)), lambda data: data[:20]])
@on_cluster(voters=1)
async def test_a_damaged_file_is_written_again_as_the_message_says(
    cluster: Cluster, damage: Callable[[bytes], bytes]
) -> None:
    machine = await stopped_with_records(cluster)
    key = cluster.key_of(1)
    machine.disk.replace_now(META, damage(machine.disk.read_bytes(META)))
    text = await refusal(cluster)
    assert "\0" not in text
    _, _, told = text.partition("restore the file from a copy, or write it again: ")
    lines = [line.partition(" (")[0] for line in told.split(", ")]
    assert lines == [
        "version=1",
        "node.id=1",
        "cluster.id=…",
        f"directory.id={directory_id_to_text(key.directory_id)}",
    ]
    machine.disk.replace_now(META, "\n".join(lines).replace("…", CLUSTER_ID).encode())
    async with lone_node(cluster, 1) as node:
        assert node.key == key


@on_cluster(voters=1)
async def test_a_file_of_a_newer_release_is_not_to_be_written_again(cluster: Cluster) -> None:
    machine = await stopped_with_records(cluster)
    machine.disk.replace_now(META, machine.disk.read_bytes(META).replace(b"version=1", b"version=2"))
    assert await refusal(cluster) == f"{META}: version=2, expected 0 or 1: start the release that wrote it"


@on_cluster(voters=1)
async def test_a_missing_file_is_written_again_as_the_message_says(cluster: Cluster) -> None:
    """A node has run there: formatting it would give the only copy another name."""
    machine = await stopped_with_records(cluster)
    key = cluster.key_of(1)
    machine.disk.remove(META)
    text = await refusal(cluster)
    assert text == (
        f"{META}: missing, expected next to {machine.partition_path}/quorum-state: a node has run here; restore the "
        "file from a copy, or write it again: version=1, node.id=1, cluster.id=… (as on the other nodes), "
        f"directory.id={directory_id_to_text(key.directory_id)} (as in {machine.partition_path}/{0:020}.log)"
    )


@on_cluster(voters=3)
async def test_the_newest_set_that_names_the_node_counts(cluster: Cluster) -> None:
    """The disk was replaced, and the log has both directory ids."""
    await cluster.wait_for_leader()
    machine = cluster.machines[3]
    first = cluster.key_of(3)
    machine.crash("all")
    await machine.wait_until_ended()
    machine.replace_disk()
    await machine.start()
    await cluster.wait_until(lambda: cluster.nodes[3].log.end_offset > 2)
    second = cluster.key_of(3)
    await machine.stop()
    line = without_directory_id(machine)
    # Not added yet: the log cannot know of the new one, and so the message names the other possibility.
    text = await refusal(cluster, 3)
    assert f"add the line directory.id={directory_id_to_text(first.directory_id)}; or format the node again, if" in text
    machine.disk.replace_now(META, machine.disk.read_bytes(META) + line)
    await machine.start()
    await cluster.administrator.remove_voter(3, at=None, within_s=10).ended.wait()
    await cluster.administrator.add_voter(3, at=None, within_s=10).ended.wait()
    await cluster.wait_until_alike()
    await machine.stop()
    without_directory_id(machine)
    assert f"add the line directory.id={directory_id_to_text(second.directory_id)};" in await refusal(cluster, 3)


@on_cluster(voters=1)
async def test_its_vote_for_itself_says_more_than_the_log(cluster: Cluster) -> None:
    machine = await stopped_with_records(cluster)
    own = ReplicaKey(1, cluster.new_key(1, 7).directory_id)
    path = f"{machine.partition_path}/quorum-state"
    machine.disk.replace_now(path, encode_quorum_state(ElectionState(9, None, own), 1, VoterSet()))
    without_directory_id(machine)
    text = await refusal(cluster)
    assert f"but {path} has that of node 1: add the line directory.id={directory_id_to_text(own.directory_id)};" in text


@on_cluster(voters=1, started=())
async def test_one_that_never_ran_has_its_id_in_the_bootstrap_checkpoint(cluster: Cluster) -> None:
    machine = cluster.machines[1]
    line = without_directory_id(machine)
    text = await refusal(cluster)
    assert f"/{0:020d}-{0:010d}.checkpoint has that of node 1: add the line {line.decode().strip()};" in text


@on_cluster(
    voters=1,
    settings={"metadata.log.max.record.bytes.between.snapshots": "1"},
    state_machine=lambda _: RememberedValues(10),
)
async def test_a_trimmed_log_leaves_it_in_a_snapshot(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await leader.append([b"value"])
    await cluster.wait_until(lambda: leader.log.snapshots.newest is not None)
    machine = cluster.machines[1]
    await machine.stop()
    names = machine.disk.peek_names(machine.partition_path)
    log, bootstrap = f"{0:020d}.log", f"{0:020d}-{0:010d}.checkpoint"
    line = without_directory_id(machine)
    machine.disk.remove(f"{machine.partition_path}/{bootstrap}")
    machine.disk.damage(f"{machine.partition_path}/{log}", 30)
    snapshots = [name for name in names if name.endswith(".checkpoint") and name != bootstrap]
    text = await refusal(cluster)
    assert f"{snapshots[-1]} has that of node 1: add the line {line.decode().strip()};" in text


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_where_nothing_names_it_a_node_gets_one(kraft_version: int) -> None:
    """Static voters have no directory ids, and nobody names an observer."""

    @on_cluster(voters=1, observers=1, kraft_version=kraft_version)
    async def gets_one(cluster: Cluster) -> None:
        node_id = 1 if kraft_version == 0 else 2
        machine = await stopped_with_records(cluster, node_id)
        without_directory_id(machine)
        with structlog.testing.capture_logs() as events:
            async with lone_node(cluster, node_id) as node:
                assert node.key.directory_id != NO_DIRECTORY_ID
        told = [event["directory_id"] for event in events if event["event"] == "new directory id"]
        assert told == [directory_id_to_text(node.key.directory_id)]

    gets_one()
