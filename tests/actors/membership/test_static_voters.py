"""Static voters that were changed by editing the file: nothing committed is lost without a word (scenario S23)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
import structlog.testing

from kraft_trio import open_node
from kraft_trio.cli.directory.static_voters_recovery import accept_static_voters
from kraft_trio.client.claims import ask_all
from kraft_trio.diagnosis.quorum_findings import findings
from kraft_trio.errors import StorageError
from kraft_trio.node import Node
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.simulation.machine import Machine
from kraft_trio.simulation.script.steps.expectations import values_of
from kraft_trio.status.own_view import own_view
from kraft_trio.storage.directory.quorum_state import QuorumStateFile, StoredVoters, encode_quorum_state
from tests.support.lone_node import lone_environment, lone_node
from tests.support.on_cluster import on_cluster, run_on_cluster
from tests.support.trimming import append, on_trimming_cluster, trimmed

VALUES = ["a", "b", "c"]


async def committed_values(cluster: Cluster) -> Node:
    node = await cluster.wait_for_leader()
    for value in VALUES:
        await node.append([value.encode()])
    await cluster.wait_until_alike()
    return node


async def edited(cluster: Cluster, voters: Sequence[int], *nodes: int) -> None:
    """Stop the nodes, and write these voters into their files."""
    for node_id in nodes:
        await cluster.machines[node_id].stop()
        cluster.write_static_voters(node_id, tuple(voters))


async def campaigns(cluster: Cluster, node_id: int) -> None:
    """Let a node persist a transition with the voters of its file, and stop it."""
    machine = cluster.machines[node_id]
    await machine.start()
    await cluster.wait_until(lambda: machine.node is not None and machine.node.view.epoch > 1)
    await machine.stop()


def stored_voters(machine: Machine) -> StoredVoters:
    file = QuorumStateFile(machine.disk, f"{machine.partition_path}/quorum-state")
    file.read()
    return file.voters


async def until_stored(cluster: Cluster, node_id: int, voters: Sequence[int]) -> None:
    await cluster.wait_until(lambda: stored_voters(cluster.machines[node_id]).ids == tuple(voters))


def write_stored(machine: Machine, *ids: int, version: int = 0, epoch: int = 1) -> None:
    voters = VoterSet(Voter(ReplicaKey(id)) for id in ids)
    content = encode_quorum_state(ElectionState(epoch), version, voters)
    machine.disk.replace_now(f"{machine.partition_path}/quorum-state", content)


ENLARGED = [
    ((1,), (1, 2, 3), "2, 3 could elect a leader without what 1 committed"),
    ((1,), (1, 2, 3, 4, 5), "2, 3, 4 could elect a leader without what 1 committed"),
    ((1,), (2,), "2 could elect a leader without what 1 committed"),
    ((1, 2), (1, 2, 3, 4, 5), "3, 4, 5 could elect a leader without what 1, 2 committed"),
    ((1, 2, 3), (1, 2, 4), "2, 4 could elect a leader without what 1, 3 committed"),
    ((1, 2, 3), (1,), "1 could elect a leader without what 2, 3 committed"),
    ((1, 2, 3), tuple(range(1, 8)), "4, 5, 6, 7 could elect a leader without what 1, 2 committed"),
]


@pytest.mark.rotating(2)
@pytest.mark.parametrize(("before", "after", "why"), ENLARGED)
def test_voters_that_may_forget_what_is_committed_are_refused(
    before: tuple[int, ...], after: tuple[int, ...], why: str
) -> None:
    async def refused(cluster: Cluster) -> None:
        await committed_values(cluster)
        await edited(cluster, after, *before)
        for node_id in before:
            machine = cluster.machines[node_id]
            path = f"{machine.partition_path}/quorum-state"
            before_it = machine.disk.peek(path)
            with pytest.raises(StorageError) as raised:
                async with lone_node(cluster, node_id):
                    pytest.fail("it runs")
            text = str(raised.value)
            named = ", ".join(map(str, before)), ", ".join(map(str, after))
            assert f"quorum-state: the voters were {named[0]}, but controller.quorum.voters names {named[1]}" in text
            assert why in text
            # Blank new voters that run have perhaps elected a leader, and would be a second quorum next to the old one.
            new = ", ".join(str(id) for id in after if id not in before)
            disks = ("blank disks", "them") if "," in new else ("a blank disk", "it")
            stop = f"if {new} began with {disks[0]}, stop {disks[1]}; " if new else ""
            assert f"would drop it; {stop}name {named[0]} again, run `kraft features upgrade`, and" in text
            assert "--unsafe-static-voters" in text
            assert machine.disk.peek(path) == before_it
            cluster.write_static_voters(node_id, before)
        for node_id in before:
            await cluster.machines[node_id].start()
        await cluster.wait_until_alike(*before)
        assert all(values_of(cluster.nodes[node_id]) == VALUES for node_id in before)

    others = tuple(set(after) - set(before))
    run_on_cluster(refused, Setup(kraft_version=0, voters=before, observers=others, started=before))


@pytest.mark.parametrize(("before", "after"), [((1,), (1, 2)), ((1, 2, 3), (1, 2, 3, 4)), ((1, 2, 3), (1, 2))])
def test_voters_that_always_meet_those_of_before_are_accepted(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    async def accepted(cluster: Cluster) -> None:
        await committed_values(cluster)
        await edited(cluster, after, *cluster.machines)
        for node_id in after:
            await cluster.machines[node_id].start()
        await (await cluster.wait_for_leader()).append([b"d"])
        await cluster.wait_until_alike(*after)
        assert all(values_of(cluster.nodes[node_id]) == [*VALUES, "d"] for node_id in after)

    others = tuple(set(after) - set(before))
    run_on_cluster(accepted, Setup(kraft_version=0, voters=before, observers=others, started=before))


@on_cluster(kraft_version=0, voters=1, observers=2, started=(1,))
async def test_two_changes_are_as_bad_as_one_if_nothing_commits_between_them(cluster: Cluster) -> None:
    """Voter 2 never runs, so 1 alone still has what was committed."""
    await committed_values(cluster)
    await edited(cluster, (1, 2), 1)
    await campaigns(cluster, 1)
    assert stored_voters(cluster.machines[1]).ids == (1,)
    await edited(cluster, (1, 2, 3), 1)
    with pytest.raises(StorageError, match=r"the voters were 1, .* names 1, 2, 3: "):
        async with lone_node(cluster, 1):
            pytest.fail("it runs")


@on_cluster(kraft_version=0, voters=1, observers=2, started=(1,))
async def test_changes_may_follow_each_other_when_each_has_committed(cluster: Cluster) -> None:
    await committed_values(cluster)
    for voters in ((1, 2), (1, 2, 3)):
        await edited(cluster, voters, *cluster.machines)
        for node_id in voters:
            await cluster.machines[node_id].start()
        await cluster.wait_for_leader()
        await cluster.wait_until_alike(*voters)
        # No transition has stored them: the log may be trimmed before the next one.
        for node_id in voters:
            await until_stored(cluster, node_id, voters)
    assert values_of(cluster.nodes[3]) == VALUES


@on_trimming_cluster(kraft_version=0, voters=1, observers=2, started=(1,))
async def test_a_second_change_is_not_refused_when_the_log_has_been_trimmed(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    await edited(cluster, (1, 2), *cluster.machines)
    for node_id in (1, 2):
        await cluster.machines[node_id].start()
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike(1, 2)
    await trimmed(leader)
    await cluster.wait_until_alike(1, 2)
    await edited(cluster, (1, 2, 3), *cluster.machines)
    async with lone_node(cluster, 1):
        pass


@on_cluster(kraft_version=0, voters=1, observers=2, started=())
async def test_a_node_with_an_empty_log_may_get_any_voters(cluster: Cluster) -> None:
    """It voted, but has acknowledged no record: it counts as one with a blank disk."""
    machine = cluster.machines[1]
    async with lone_node(cluster, 1):
        pass
    machine.disk.replace_now(f"{machine.partition_path}/{0:020d}.log", b"")
    for name in machine.disk.peek_names(machine.partition_path):
        if name.endswith(".snapshot") or name == "recovery-point":
            machine.disk.remove(f"{machine.partition_path}/{name}")
    write_stored(machine, 1)
    cluster.write_static_voters(1, (1, 2, 3))
    async with lone_node(cluster, 1) as node:
        assert node.log.voters.voters.ids == (1, 2, 3)


@on_cluster(kraft_version=0, voters=1, observers=1, started=(1,), invariants=())
async def test_an_observer_with_bootstrap_servers_alone_learns_the_voters_from_the_log(cluster: Cluster) -> None:
    await committed_values(cluster)
    machine = cluster.machines[2]
    config = attrs.evolve(machine.config, quorum_voters=(), quorum_bootstrap_servers=[cluster.endpoint_of(1)])
    async with open_node(config, environment=lone_environment(cluster, 2)) as node:
        await cluster.wait_until(lambda: (node.high_watermark or 0) > 3)
    assert stored_voters(machine).ids == ()
    cluster.write_static_voters(2, (2,))
    with pytest.raises(StorageError, match=r"the voters were 1, .* names 2: "):
        async with lone_node(cluster, 2):
            pytest.fail("it runs")


@pytest.mark.parametrize("stored", [(), (7, 8, 9)])
@on_cluster(voters=1)
async def test_voters_in_the_log_are_not_those_of_the_file(cluster: Cluster, stored: tuple[int, ...]) -> None:
    """A dynamic quorum with a static file; its quorum-state may be older than the upgrade."""
    await committed_values(cluster)
    machine = cluster.machines[1]
    await machine.stop()
    write_stored(machine, *stored, version=0 if stored else 1)
    config = attrs.evolve(
        machine.config, quorum_voters="1@one:9093,4@four:9093,5@five:9093", quorum_bootstrap_servers=()
    )
    async with open_node(config, environment=lone_environment(cluster, 1)) as node:
        assert node.log.voters.voters.ids == (1,)
        await node.append([b"d"])


@on_cluster(kraft_version=0, voters=1, observers=1, started=(1, 2))
async def test_an_observer_guards_its_copy_too(cluster: Cluster) -> None:
    await committed_values(cluster)
    await edited(cluster, (2,), 2)
    with pytest.raises(StorageError, match=r"the voters were 1, .* names 2: "):
        async with lone_node(cluster, 2):
            pytest.fail("it runs")


async def lead_without_it(cluster: Cluster) -> Node:
    """Let 2 and 3, which are blank, lead an epoch above that of 1."""
    for node_id in (2, 3):
        await cluster.machines[node_id].start()
    while (leader := await cluster.wait_for_leader()).view.epoch < 3:
        await cluster.machines[leader.key.id].stop()
        await cluster.machines[leader.key.id].start()
    return leader


@on_trimming_cluster(kraft_version=0, voters=1, observers=2, started=(1,), invariants=())
async def test_what_a_snapshot_takes_the_place_of_is_told(cluster: Cluster) -> None:
    node = await cluster.wait_for_leader()
    await append(node, *([b"value"] * 10 for _ in range(20)))
    await edited(cluster, (1, 2, 3), *cluster.machines)
    machine = cluster.machines[1]
    await accept_static_voters(machine.disk, machine.config, confirmed=lambda _: True, now_ms=0)
    snapshot_id = await trimmed(await lead_without_it(cluster))
    with structlog.testing.capture_logs() as events:
        await machine.start()
        await cluster.wait_until_alike()
    [told] = [event for event in events if event["event"] == "committed records truncated"]
    assert (told["first"], told["last"]) == (snapshot_id.offset, 200)


@pytest.mark.parametrize("ends", ["stop", "kill"])
@on_cluster(kraft_version=0, voters=1, observers=2, started=(1,), invariants=())
async def test_what_is_lost_by_force_is_told(cluster: Cluster, ends: str) -> None:
    await committed_values(cluster)
    machine = cluster.machines[1]
    if ends == "kill":
        machine.kill()
        await machine.wait_until_ended()
        machine.disk.is_attached = True
    await edited(cluster, (1, 2, 3), *cluster.machines)
    now_ms = machine.wall_clock_ms()
    recovery = await accept_static_voters(machine.disk, machine.config, confirmed=lambda _: False, now_ms=now_ms)
    assert recovery.lines()["MayBeLost"].startswith("offsets 0 to 3: ")
    assert (recovery.lines()["VotersBefore"], recovery.lines()["VotersAfter"]) == ("1", "1, 2, 3")
    assert stored_voters(machine).ids == (1,)
    await accept_static_voters(machine.disk, machine.config, confirmed=lambda _: True, now_ms=now_ms)
    assert stored_voters(machine) == StoredVoters(2, (1, 2, 3))
    with pytest.raises(StorageError, match="the voters are 1, 2, 3 already"):
        await accept_static_voters(machine.disk, machine.config, confirmed=lambda _: True, now_ms=now_ms)
    await lead_without_it(cluster)
    with structlog.testing.capture_logs() as events:
        await machine.start()
        await cluster.wait_until_alike()
    [told] = [event for event in events if event["event"] == "committed records truncated"]
    node = cluster.nodes[1]
    assert (told["log_level"], told["last"]) == ("error", 3)
    assert own_view(node.tree)["lostRecords"] == (
        f"offsets {told['first']} to 3, which this node dropped to follow node {told['leader_id']} in epoch "
        f"{told['leader_epoch']}"
    )
    network, named = cluster.network.seen_from("client"), [cluster.endpoint_of(1)]
    situation = await ask_all(network, named, timeout_ms=1000, fetch_timeout_ms=2000)
    assert [finding.code for finding in findings(situation) if "offsets" in finding.text] == ["lost-records"]
