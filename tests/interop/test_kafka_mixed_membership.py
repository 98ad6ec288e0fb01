"""Kafka's tools and ours change the voters of mixed quorums, and nodes of both kinds add themselves."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
import trio

from harness.command import kraft
from harness.kafka import kafka_version
from harness.waiting import wait_until
from harness.witness_cluster import KAFKAS, WITNESS, WitnessCluster
from tests.interop.kafka_tools import tool
from tests.interop.mixed_quorum import KAFKA, LONG_MS, OURS, SECONDS, MixedQuorum

pytestmark = [
    pytest.mark.skipif(kafka_version() < (4, 1), reason="needs a TestRaftServer that knows pre-votes"),
    pytest.mark.nightly,
]

Make: TypeAlias = Callable[..., MixedQuorum]
Tool: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]

STEADY = {"election": 2000, "fetch": 30_000}
TELLING = {"election": 4000, "fetch": 15_000}
"""A follower of Kafka's tells its directory id, or adds itself, after each fetch timeout."""
AUTO_JOIN = {"controller.quorum.auto.join.enable": "true"}


def kafkas(server: str, config: Path, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    names = {"metadata-quorum": "MetadataQuorumCommand", "features": "FeatureCommand"}
    config_option = ["--command-config", str(config)]
    return tool(names[command], "--bootstrap-controller", server, *config_option, *arguments)


def ours(server: str, config: Path, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return kraft(command, "--bootstrap-controller", server, "--command-config", str(config), *arguments)


TOOLS = pytest.mark.parametrize("tools", [(kafkas, ours), (ours, kafkas)], ids=["kafka's first", "ours first"])


def described(server: str) -> tuple[list[int], list[int]]:
    """The ids of the voters and of the observers."""
    done = kraft("metadata-quorum", "--bootstrap-controller", server, "describe", "--status", "--json")
    if done.returncode != 0:
        return [], []
    status = json.loads(done.stdout)
    voters, observers = (status[f"current{kind}"] for kind in ("Voters", "Observers"))
    return sorted(voter["id"] for voter in voters), sorted(observer["id"] for observer in observers)


@TOOLS
def test_ours_leads_while_voters_come_and_go(make_mixed: Make, tools: tuple[Tool, Tool]) -> None:
    """Two of Kafka's are added, and lead after our node, the first voter, has been removed."""
    quorum = make_mixed(OURS, KAFKA, KAFKA, observers=(2, 3))
    quorum.run(1, 2, 3, **STEADY)
    server = str(quorum.endpoint(1))
    wait_until("Kafka's nodes observe", lambda: described(server) == ([1], [2, 3]), SECONDS)
    for number, change in zip((2, 3), tools, strict=True):
        done = change(server, quorum.nodes[number].properties, "metadata-quorum", "add-controller")
        assert done.stdout.startswith(f"Added controller {number} "), done.stdout + done.stderr
    assert described(server) == ([1, 2, 3], [])
    quorum.write("ours leads three")
    quorum.wait_until_equal("ours leads three")

    removing = ["remove-controller", "--controller-id", "1", "--controller-directory-id", quorum.directory_ids[1]]
    done = tools[0](server, quorum.nodes[1].properties, "metadata-quorum", *removing)
    assert " KRaft controller 1 with " in done.stdout, done.stdout + done.stderr
    assert quorum.leader(besides=1) in (2, 3)
    assert quorum.write("Kafka leads two") in (2, 3)
    quorum.wait_until_equal("Kafka leads two")


@TOOLS
def test_kafka_leads_while_a_witness_comes_and_goes(
    make_cluster: Callable[..., WitnessCluster], tools: tuple[Tool, Tool]
) -> None:
    # A leader of Kafka's ends if a voter that it has removed answers BeginQuorumEpoch, which Kafka 4.1 sends often.
    cluster = make_cluster(founders=KAFKAS, controller_settings={"controller.quorum.fetch.timeout.ms": LONG_MS})
    add, remove = tools

    def changed(change: Tool, *arguments: str) -> str:
        server = ",".join(f"127.0.0.1:{cluster.ports[node_id]}" for node_id in KAFKAS)
        done = change(server, cluster.properties(WITNESS), "metadata-quorum", *arguments)
        return done.stdout + done.stderr

    def added() -> bool:
        """It is refused until the witness has caught up."""
        said = changed(add, "add-controller")
        return f"Added controller {WITNESS} " in said or "uplicate" in said.replace(" ", "")

    async def main() -> None:
        await cluster.active("before")
        for _ in range(2):
            await trio.to_thread.run_sync(wait_until, "the witness is added", added, SECONDS)
            await cluster.until_all_follow()
            removing = ["--controller-id", str(WITNESS), "--controller-directory-id", directory_id(cluster)]
            said = await trio.to_thread.run_sync(changed, remove, "remove-controller", *removing)
            assert f" KRaft controller {WITNESS} with " in said, said
            answer = await cluster.describe(await cluster.active("removed"))
            assert answer is not None
            assert sorted(voter.key.id for voter in answer.voters) == list(KAFKAS)

    cluster.start()
    trio.run(main)


def directory_id(cluster: WitnessCluster) -> str:
    lines = (cluster.folder(WITNESS) / "meta.properties").read_text().splitlines()
    [found] = [line.partition("=")[2] for line in lines if line.startswith("directory.id=")]
    return found


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Callable[..., WitnessCluster]]:
    made: list[WitnessCluster] = []

    def make(**options: object) -> WitnessCluster:
        made.append(WitnessCluster(tmp_path, **options))  # type: ignore[arg-type]
        return made[0]

    yield make
    for cluster in made:
        cluster.stop()


@pytest.mark.parametrize("kinds", [(OURS, KAFKA, KAFKA), (OURS, OURS, KAFKA)], ids="-".join)
@pytest.mark.parametrize("upgrade", [kafkas, ours], ids=["kafka's", "ours"])
def test_kraft_version_is_raised_while_ours_leads(make_mixed: Make, kinds: tuple[str, ...], upgrade: Tool) -> None:
    """Then each kind leads the voters that are now in the log, and one of them is removed."""
    quorum = make_mixed(*kinds, static=True)
    quorum.run(1, election=500, fetch=LONG_MS)
    quorum.run(2, 3, **TELLING)
    quorum.let_lead(1, **TELLING)
    quorum.write("static")
    quorum.wait_until_equal("static")
    server = str(quorum.endpoint(1))

    def upgraded() -> bool:
        """It is refused until the followers have told which versions they support."""
        said = upgrade(server, quorum.nodes[1].properties, "features", "upgrade", "--feature", "kraft.version=1")
        return said.returncode == 0

    wait_until("kraft.version is 1", upgraded, SECONDS)
    leader = quorum.write("dynamic")
    quorum.wait_until_equal("dynamic")
    quorum.end(leader, signal.SIGTERM)
    quorum.write("without it")
    quorum.run(leader, **TELLING)
    quorum.wait_until_equal("without it")
    quorum.let_lead(1, **TELLING)
    quorum.write("in this epoch")
    quorum.wait_until_equal("in this epoch")  # Ours removes none before the rest has fetched in the epoch.
    removing = ["remove-controller", "--controller-id", "3", "--controller-directory-id", quorum.directory_ids[3]]
    done = ours(server, quorum.nodes[1].properties, "metadata-quorum", *removing)
    assert " KRaft controller 3 with " in done.stdout, done.stdout + done.stderr
    assert described(server)[0] == [1, 2]
    quorum.wait_until_equal()


@pytest.mark.skipif(kafka_version() < (4, 2), reason="Kafka's nodes add themselves from 4.2 on")
def test_kafkas_nodes_add_themselves_to_ours(make_mixed: Make) -> None:
    quorum = make_mixed(OURS, KAFKA, KAFKA, observers=(2, 3), settings=AUTO_JOIN)
    quorum.run(1, **STEADY)
    quorum.leader()
    quorum.run(2, 3, **TELLING)
    server = str(quorum.endpoint(1))
    wait_until("Kafka's nodes vote", lambda: described(server) == ([1, 2, 3], []), SECONDS)
    quorum.write("joined")
    quorum.wait_until_equal("joined")

    quorum.end(3)
    quorum.replace_disk(3)
    quorum.run(3, **TELLING)

    def votes() -> bool:
        done = kraft("metadata-quorum", "--bootstrap-controller", server, "describe", "--status", "--json")
        voters = {voter["id"]: voter["directoryId"] for voter in json.loads(done.stdout)["currentVoters"]}
        return voters.get(3) == quorum.directory_ids[3]

    wait_until("the new disk votes", votes, SECONDS)
    quorum.end(1)
    assert quorum.write("without ours") in (2, 3)
    quorum.run(1, **STEADY)
    quorum.wait_until_equal("without ours")


def test_a_witness_adds_itself_to_kafkas(make_cluster: Callable[..., WitnessCluster]) -> None:
    """And again with a new disk, once its former incarnation has gone."""
    cluster = make_cluster(founders=KAFKAS, settings=AUTO_JOIN)

    async def main() -> None:
        await cluster.until_all_follow()
        old = cluster.key_of(WITNESS)
        await trio.to_thread.run_sync(cluster.end, WITNESS)
        cluster.wipe(WITNESS)
        await trio.to_thread.run_sync(cluster.format, WITNESS, "--no-initial-controllers")
        assert cluster.key_of(WITNESS) != old
        cluster.run(WITNESS)
        with trio.fail_after(SECONDS):
            await until_it_votes()
        lost = await cluster.until_all_follow()
        await trio.to_thread.run_sync(cluster.end, lost)
        assert await cluster.active("without-it") != lost

    async def until_it_votes() -> None:
        while True:
            answer = await cluster.describe(await cluster.active("meanwhile"))
            if answer is not None and cluster.key_of(WITNESS) in [voter.key for voter in answer.voters]:
                return
            await trio.sleep(0.1)

    cluster.start()
    trio.run(main)
