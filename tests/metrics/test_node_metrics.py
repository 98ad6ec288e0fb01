"""What a node says of itself, metric by metric, held against what was done to the quorum."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from kraft_trio.actors.context.request_failures import RequestFailures
from kraft_trio.actors.context.restored_voters import RestoredVoters
from kraft_trio.actors.snapshots.snapshot_fetch import SnapshotFetch
from kraft_trio.client.admin import AdminClient
from kraft_trio.limits.refusals import Refusals
from kraft_trio.metrics.definitions import METRICS, metrics_of
from kraft_trio.metrics.load import NodeLoad
from kraft_trio.metrics.node_metrics import NodeMetrics
from kraft_trio.metrics.text_format import as_text, families
from kraft_trio.node import Node
from kraft_trio.protocol.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached, leader_of
from kraft_trio.protocol.types import OffsetAndEpoch, directory_id_to_text
from kraft_trio.simulation import Cluster, simulate
from tests.support.on_cluster import on_cluster
from tests.support.voter_change_requests import beside, held, until_asked, upgrade

NOBODY = "AAAAAAAAAAAAAAAAAAAAAA"
JMX_EXPORTS = Path(__file__).parents[1] / "data" / "jmx-exporter"

KIP_595 = """
    current-leader current-epoch current-vote log-end-offset log-end-epoch high-watermark current-state
    number-unknown-voter-connections election-latency-avg election-latency-max commit-latency-avg commit-latency-max
    fetch-records-rate append-records-rate poll-idle-ratio-avg
"""
KIP_853 = """
    number-of-voters number-of-observers uncommitted-voter-change number-of-offline-voters current-vote-directory-id
    ignored-static-voters is-observer
"""


def admin_of(cluster: Cluster) -> AdminClient:
    return AdminClient(
        [cluster.endpoint_of(id) for id in cluster.voter_ids], network=cluster.network.seen_from("client-admin")
    )


def nodes(cluster: Cluster) -> list[Node]:
    return list(cluster.nodes.values())


def values_of(node: Node) -> dict[str, float | str]:
    return node.metrics.values()


def followers_of(cluster: Cluster, leader: Node) -> list[Node]:
    return [node for node in cluster.nodes.values() if node is not leader]


KIP_859 = "latest-snapshot-generated-bytes latest-snapshot-generated-age-ms"
KIP_1180 = "finalized-level"
KAFKAS = "active-controller-count"
OURS = """
    is-witness is-registered
    log-start-offset log-size-bytes number-of-failed-requests
    number-of-log-trims number-of-snapshots snapshot-download-ratio log-lines-lost
    event-loop-busy-max-ms event-loop-cpu-max-ms number-of-event-loop-stalls
    number-of-connections number-of-refused-connections number-of-cut-connections number-of-malformed-requests
    number-of-failed-tls-handshakes number-of-failed-authentications number-of-denied-requests
    number-of-expired-sessions
    number-of-refused-voter-changes number-of-refused-waits number-of-refused-epochs
    number-of-restored-voters number-of-refused-addresses state-machine-stopped
    number-of-throttled-voter-changes number-of-refused-streams number-of-paused-connections number-of-refused-batches
    number-of-shortened-log-texts certificate-expiry-timestamp-seconds
    request-memory-bytes number-of-slowed-requests number-of-producer-ids sync-latency-p99-ms
"""


def test_every_metric_of_the_kips_is_there_by_its_name() -> None:
    assert {metric.name for metric in METRICS} == {
        *KIP_595.split(),
        *KIP_853.split(),
        *KIP_859.split(),
        *KIP_1180.split(),
        *KAFKAS.split(),
        *OURS.split(),
    }


def test_names_in_prometheus_are_unique() -> None:
    names = [name for metric in METRICS for name in (metric.prometheus_name, *(it.name for it in metric.other_names))]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("exported", JMX_EXPORTS.glob("*.txt"), ids=lambda path: path.stem)
def test_kafkas_metrics_have_the_names_that_the_jmx_exporter_gives_them(exported: Path) -> None:
    """Each file has what a controller of Kafka 4.4 exported by one set of rules, in one release of the exporter.

    From release 1 on, it adds `_total` to the maxima, which Strimzi's rules take for counters.
    """
    values = {metric.name: "leader" if metric.label else 1.0 for metric in METRICS}
    ours = dict(samples_in(as_text(families(1, metrics_of(["controller"]), values, {}, 0)).decode()))
    kafkas = dict(samples_in(exported.read_text()))
    assert len(kafkas) > 15
    for name, labels in kafkas.items():
        assert labels.items() <= ours[name.removesuffix("_total")].items(), name


def samples_in(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    for line in text.splitlines():
        for family in text_string_to_metric_families(f"{line}\n"):
            for sample in family.samples:
                yield sample.name, sample.labels


def test_every_number_of_kafkas_raft_metrics_has_both_names() -> None:
    for metric in METRICS:
        if metric.prometheus_name.startswith("kafka_server_raftmetrics_") and not metric.label:
            assert [other.name for other in metric.other_names] == [
                metric.prometheus_name.replace("_raftmetrics_", "_raft_metrics_")
            ]


def test_a_role_has_the_metrics_that_kip_853_gives_it() -> None:
    """A controller's and a broker's go by different names, and only a controller can be an observer by mistake."""
    controller = {metric.prometheus_name for metric in metrics_of(["controller"])}
    broker = {metric.prometheus_name for metric in metrics_of(["broker"])}
    assert controller - broker == {
        "kafka_controller_kafkacontroller_ignoredstaticvoters",
        "kafka_controller_kafkacontroller_isobserver",
        "kafka_controller_kafkacontroller_activecontrollercount",
    }
    assert broker - controller == {"kafka_server_brokermetadatametrics_ignored_static_voters"}


@on_cluster(voters=3, observers=1)
async def test_leader_follower_and_observer(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await leader.append([b"a", b"b"])
    await cluster.wait_until_alike()
    await trio.sleep(1.0)
    quorum = {
        "current-leader": leader.key.id,
        "current-epoch": leader.view.epoch,
        "log-end-offset": leader.log.end_offset,
        "log-end-epoch": leader.view.epoch,
        "high-watermark": leader.log.end_offset,
        "number-of-voters": 3,
        "uncommitted-voter-change": 0,
        "number-unknown-voter-connections": 0,
        "ignored-static-voters": 0,
    }
    of_leader = leader.metrics.values()
    assert quorum.items() <= of_leader.items()
    assert of_leader["current-state"] == "leader"
    assert (of_leader["current-vote"], of_leader["current-vote-directory-id"]) == (
        leader.key.id,
        directory_id_to_text(leader.key.directory_id),
    )
    assert (of_leader["number-of-observers"], of_leader["number-of-offline-voters"]) == (1, 0)
    assert of_leader["is-observer"] == 0
    for node in followers_of(cluster, leader):
        values = node.metrics.values()
        assert quorum.items() <= values.items()
        is_observer = node.key.id not in cluster.voter_ids
        assert values["current-state"] == ("observer" if is_observer else "follower")
        assert values["is-observer"] == is_observer
        assert not {"number-of-observers", "number-of-offline-voters"} & values.keys(), "only a leader knows"


@on_cluster(voters=3)
async def test_a_vote_for_another_names_its_directory_id(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    votes = [(values["current-vote"], values["current-vote-directory-id"]) for values in map(values_of, nodes(cluster))]
    given = (leader.key.id, directory_id_to_text(leader.key.directory_id))
    assert votes.count(given) >= 2
    assert set(votes) <= {given, (-1, NOBODY)}


def voted(role: Role) -> bool:
    """Whether Kafka adds that to the name of a state."""
    return isinstance(role, Prospective | Unattached) and role.voted is not None


@on_cluster(voters=3)
async def test_states_have_the_names_of_the_roles(cluster: Cluster) -> None:
    """Seen at every transition of a voter that is cut off for a while."""
    names = {Candidate: "candidate", Resigned: "resigned"}
    await cluster.wait_for_leader()
    node = cluster.nodes[1]
    seen = {}
    node.election.view.subscribe(
        lambda view: seen.setdefault(
            type(view.role),
            {**node.metrics.values(), "expected-leader": leader_of(view.role, node.key), "votes": voted(view.role)},
        )
    )
    cluster.partition([1], [2, 3])
    await trio.sleep(10)
    cluster.heal()
    await trio.sleep(10)
    assert Prospective in seen
    for role, values in seen.items():
        name = names.get(role, role.__name__.lower())
        assert values["current-state"] == f"{name}{'-voted' if values['votes'] else ''}"
        assert values["current-leader"] == (-1 if values["expected-leader"] is None else values["expected-leader"])
        assert ("number-of-offline-voters" in values) == (role is Leader)
    assert {Follower, Leader} & seen.keys()


@on_cluster(voters=3)
async def test_a_voter_is_offline_after_the_fetch_timeout(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    metrics = leader.metrics
    first, second = (node.key.id for node in followers_of(cluster, leader))
    cluster.machines[first].kill()
    await trio.sleep(1.0)
    assert metrics.values()["number-of-offline-voters"] == 0
    await trio.sleep(1.5)
    assert metrics.values()["number-of-offline-voters"] == 1
    await cluster.machines[first].start()
    await trio.sleep(1.0)
    assert metrics.values()["number-of-offline-voters"] == 0
    assert second in cluster.nodes


@on_cluster(voters=2, observers=1)
async def test_an_observer_is_forgotten_after_five_minutes(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await trio.sleep(1.0)
    assert leader.metrics.values()["number-of-observers"] == 1
    cluster.machines[3].kill()
    await trio.sleep(290)
    assert leader.metrics.values()["number-of-observers"] == 1
    await trio.sleep(15)
    assert leader.metrics.values()["number-of-observers"] == 0


@on_cluster(voters=1, observers=1)
async def test_a_voter_change_commits_with_the_new_majority(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    metrics, added = leader.metrics, cluster.machines[2].config.as_voter(cluster.key_of(2).directory_id)
    await trio.sleep(1.0)
    history = []
    leader.log.watch(_OnAppend(lambda: history.append(metrics.values())))
    await admin_of(cluster).add_metadata_voter(added.key, added.endpoints, cluster_id=cluster.cluster_id)
    assert (metrics.values()["number-of-voters"], metrics.values()["uncommitted-voter-change"]) == (2, 0)
    assert (metrics.values()["number-of-observers"], metrics.values()["number-of-offline-voters"]) == (0, 0)
    [change] = history
    assert (change["number-of-voters"], change["uncommitted-voter-change"]) == (2, 1)


class _OnAppend:
    """A LogWatcher that calls back when something has been appended."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def appended(self, buffer: object, batches: object, path: str, position: int) -> None:
        self._call()

    def truncated(self, end_offset: int) -> None: ...

    def replaced(self, snapshot_id: OffsetAndEpoch) -> None: ...

    def trimmed(self, log_start_offset: int) -> None: ...

    def synced(self, end_offset: int) -> None: ...

    def high_watermark_advanced(self, old: int | None, new: int) -> None: ...


@on_cluster(voters=2)
async def test_after_a_restart_nobody_says_whether_a_change_is_committed(cluster: Cluster) -> None:
    """The first leader's VotersRecord is in the log, and nobody is there to say whether it has committed."""
    leader = await cluster.wait_for_leader()
    [other] = followers_of(cluster, leader)
    cluster.machines[leader.key.id].kill()
    cluster.machines[other.key.id].kill()
    node = await cluster.machines[other.key.id].start()
    assert node is not None
    values = node.metrics.values()
    assert (values["high-watermark"], values.get("uncommitted-voter-change")) == (-1, None)
    await cluster.machines[leader.key.id].start()
    leader = await cluster.wait_for_leader()
    assert isinstance(leader.view.role, Leader)
    await cluster.wait_until_alike()
    assert [values_of(each)["uncommitted-voter-change"] for each in nodes(cluster)] == [0, 0]


@on_cluster(voters=1, observers=1)
async def test_a_change_that_does_not_commit_is_told_after_a_full_restart(cluster: Cluster) -> None:
    """By the leader, although it has committed nothing since: a new majority has elected it, and hears no more."""
    leader = await cluster.wait_for_leader()
    added = cluster.machines[2].config.as_voter(cluster.key_of(2).directory_id)
    await admin_of(cluster).add_metadata_voter(added.key, added.endpoints, cluster_id=cluster.cluster_id)
    for id in (1, 2):
        cluster.machines[id].kill()
    for id in (1, 2):
        await cluster.machines[id].start()
    seen: list[tuple[object, object]] = []

    def note(node: Node) -> None:
        if isinstance(node.view.role, Leader):
            values = node.metrics.values()
            seen.append((values["high-watermark"], values.get("uncommitted-voter-change")))

    for node in nodes(cluster):
        node.election.view.subscribe(lambda _view, node=node: note(node))  # type: ignore[misc]
    leader = await cluster.wait_for_leader()
    assert seen[0] == (-1, 1)
    await cluster.wait_until_alike()
    assert values_of(leader)["uncommitted-voter-change"] == 0


@on_cluster(voters=3, kraft_version=0)
async def test_static_voters_are_ignored_from_kraft_version_1_on(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await trio.sleep(5.0)
    ignored = "controller.quorum.voters is ignored: the log names the voters"
    assert [values_of(node)["ignored-static-voters"] for node in nodes(cluster)] == [0, 0, 0]
    said: list[tuple[int | None, object]] = []
    cluster.trace.listeners.append(
        lambda event: said.append((event.node, event.details["ignored"])) if event.cause == ignored else None
    )
    await admin_of(cluster).update_features({"kraft.version": 1}, timeout_ms=10_000)
    await leader.append([b"a"])
    await cluster.wait_until_alike()
    assert [values_of(node)["ignored-static-voters"] for node in nodes(cluster)] == [1, 1, 1]
    assert sorted(said) == [(1, [1, 2, 3]), (2, [1, 2, 3]), (3, [1, 2, 3])], "each says it once"
    said.clear()
    await cluster.machines[3].stop()
    node = await cluster.machines[3].start()
    assert node is not None
    await trio.sleep(1.0)
    assert values_of(node)["ignored-static-voters"] == 1
    assert said == [(3, [1, 2, 3])]


@on_cluster(voters=3, kraft_version=0)
async def test_a_feature_level_is_finalized_once_committed(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await trio.sleep(5.0)
    async with trio.open_nursery() as nursery:
        with held(cluster, leader):
            upgraded = beside(nursery, upgrade, cluster, leader)
            await until_asked()
            assert leader.log.voters.kraft_version == 1
            assert values_of(leader)["finalized-level"] == 0
        await upgraded.wait()
    assert values_of(leader)["finalized-level"] == 1
    assert 'kafka_server_metadataloader_finalizedlevel{featureName="kraftVersion",node_id="' in (
        leader.metrics.exposition().decode()
    )


@on_cluster(voters=1, observers=0, settings={"process.roles": "controller,broker"})
async def test_a_node_of_both_roles_has_the_names_of_both(cluster: Cluster) -> None:
    node = await cluster.wait_for_leader()
    text = node.metrics.exposition().decode()
    assert 'kafka_controller_kafkacontroller_ignoredstaticvoters{node_id="1"} 0.0' in text
    assert 'kafka_server_brokermetadatametrics_ignored_static_voters{node_id="1"} 0.0' in text


@on_cluster(voters=3)
async def test_voters_without_an_endpoint_of_our_listener_are_counted(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    assert leader.metrics.values()["number-unknown-voter-connections"] == 0
    config = attrs.evolve(
        leader.config,
        listeners=[attrs.evolve(listener, name="OTHER") for listener in leader.config.listeners],
        advertised_listeners=[],
        controller_listener_names=["OTHER"],
    )
    metrics = NodeMetrics(
        key=leader.key,
        config=config,
        log=leader.log,
        view=leader.election.view,
        progress=lambda: None,
        snapshot_fetch=SnapshotFetch(cluster.machines[leader.key.id].disk, leader.log),
        snapshot_taker=None,
        wall_clock_ms=lambda: 0,
        failures=RequestFailures(lambda _error: None),
        restored=RestoredVoters(lambda: 0),
        load=lambda: NodeLoad(Refusals()),
    )
    assert metrics.values()["number-unknown-voter-connections"] == 2, "all but itself"


@on_cluster(voters=3)
async def test_an_election_is_timed_on_every_voter_that_campaigned(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    survivors = followers_of(cluster, leader)
    metrics = {node.key.id: node.metrics for node in survivors}
    assert all("election-latency-avg" not in each.values() for each in metrics.values())
    began: dict[int, float] = {}
    for node in survivors:
        node.election.view.subscribe(
            lambda view, id=node.key.id: (
                began.setdefault(id, cluster.now_s) if isinstance(view.role, Prospective) else None
            )
        )
    cluster.machines[leader.key.id].kill()
    new = await cluster.wait_for_leader(other_than=leader)
    values = metrics[new.key.id].values()
    assert new.key.id in began
    assert 0 < values["election-latency-avg"] <= values["election-latency-max"]
    assert values["election-latency-max"] <= (cluster.now_s - began[new.key.id]) * 1000
    for id, each in metrics.items():
        assert ("election-latency-avg" in each.values()) == (id in began)
    await trio.sleep(61)
    assert "election-latency-avg" not in metrics[new.key.id].values(), "it is long past"


@on_cluster(voters=3)
async def test_going_back_to_the_same_leader_is_no_election(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    follower = followers_of(cluster, leader)[0]
    metrics = follower.metrics
    roles: set[type] = set()
    follower.election.view.subscribe(lambda view: roles.add(type(view.role)))
    cluster.partition([follower.key.id], [id for id in cluster.voter_ids if id != follower.key.id])
    await trio.sleep(6.0)
    cluster.heal()
    await trio.sleep(6.0)
    assert cluster.leader() is leader
    assert Prospective in roles
    assert follower.view.leader_id == leader.key.id
    assert "election-latency-avg" not in metrics.values()


@on_cluster(voters=3)
async def test_commits_are_timed_by_the_leader_alone(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await trio.sleep(1.0)
    for node in nodes(cluster):
        assert "commit-latency-avg" not in values_of(node)
    longest = 0.0
    for size in (1, 5, 3):
        began = cluster.now_s
        await leader.append([b"x"] * size)
        longest = max(longest, cluster.now_s - began)
    values = values_of(leader)
    assert 0 < values["commit-latency-avg"] <= values["commit-latency-max"] <= longest * 1000
    for node in followers_of(cluster, leader):
        assert "commit-latency-avg" not in values_of(node)


@on_cluster(voters=3)
async def test_an_append_that_waits_for_its_majority_waits_long(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    metrics = leader.metrics
    cluster.partition([leader.key.id], [node.key.id for node in followers_of(cluster, leader)], silent=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leader.append, [b"x"])
        await trio.sleep(1.0)
        assert "commit-latency-avg" not in metrics.values()
        cluster.heal()
    assert metrics.values()["commit-latency-max"] >= 1000


@on_cluster(voters=3)
async def test_what_was_never_committed_is_not_timed_in_a_later_epoch(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    metrics = leader.metrics
    others = [node.key.id for node in followers_of(cluster, leader)]
    cluster.partition([leader.key.id], others)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leader.append, [b"x"])
        await cluster.wait_for_leader(other_than=leader)
        await trio.sleep(5.0)
        cluster.heal()
        await trio.sleep(5.0)
    await cluster.wait_until_alike()
    assert cluster.leader() is not leader
    assert "commit-latency-avg" not in metrics.values()


@on_cluster(voters=3)
async def test_records_are_counted_as_appended_or_as_fetched(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    all_metrics = {node.key.id: node.metrics for node in nodes(cluster)}
    began = cluster.now_s
    for _ in range(10):
        await leader.append([b"x", b"y", b"z"])
    await cluster.wait_until_alike()
    await trio.sleep(5.0)
    expected = pytest.approx(30 / (cluster.now_s - began))
    for id, metrics in all_metrics.items():
        values = metrics.values()
        rates = values["append-records-rate"], values["fetch-records-rate"]
        assert rates == ((expected, 0) if id == leader.key.id else (0, expected))


@on_cluster(voters=1)
async def test_every_node_has_a_registry_of_its_own(cluster: Cluster) -> None:
    node = await cluster.wait_for_leader()
    assert node.metrics is node.metrics
    assert node.metrics.registry.get_sample_value("kafka_server_raftmetrics_current_leader", {"node_id": "1"}) == 1
    assert (
        node.metrics.registry.get_sample_value(
            "kafka_server_raftmetrics_current_state", {"node_id": "1", "current_state": "leader"}
        )
        == 1
    )
    await cluster.machines[1].stop()
    restarted = await cluster.machines[1].start()
    assert restarted is not None
    assert restarted.metrics.registry is not node.metrics.registry
    assert node.metrics.values()["log-end-offset"] <= restarted.metrics.values()["log-end-offset"]


def test_asking_for_metrics_changes_nothing_in_a_simulated_run() -> None:
    async def history(cluster: Cluster, *, asks: bool) -> str:
        leader = await cluster.wait_for_leader()
        for _ in range(3):
            if asks:
                for node in nodes(cluster):
                    node.metrics.exposition()
            await leader.append([b"x"])
        cluster.machines[leader.key.id].kill()
        await cluster.wait_for_leader(other_than=leader)
        return cluster.trace.digest()

    async def with_metrics(cluster: Cluster) -> str:
        return await history(cluster, asks=True)

    async def without(cluster: Cluster) -> str:
        return await history(cluster, asks=False)

    assert simulate(with_metrics, seed=3) == simulate(without, seed=3)


@on_cluster(witnesses=(2,))
async def test_witness_is_told_from_other_voters(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    assert {node.key.id: values_of(node)["is-witness"] for node in nodes(cluster)} == {1: 0, 2: 1, 3: 0}
    assert all("is-registered" not in values_of(node) for node in nodes(cluster)), "no controller was met"
