"""A witness of ours keeps two of Apache Kafka's own controllers going when either is lost."""

from __future__ import annotations

import functools
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import trio

from harness.kafka import GOT, HOME, java, kafka_version
from harness.waiting import wait_until
from harness.witness_cluster import JVM_SECONDS, KAFKAS, MARK, NODES, WITNESS, WitnessCluster
from scripts.controller_kills.witness_log import leaderships_s

pytestmark = pytest.mark.skipif(kafka_version() < (3, 9), reason="needs controllers that know KIP-853")


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Callable[..., WitnessCluster]]:
    made: list[WitnessCluster] = []

    def make(**options: object) -> WitnessCluster:
        made.append(WitnessCluster(tmp_path, **options))  # type: ignore[arg-type]
        return made[0]

    yield make
    for cluster in made:
        cluster.stop()


def run(main: Callable[[WitnessCluster], Awaitable[None]], cluster: WitnessCluster) -> None:
    cluster.start()
    trio.run(main, cluster)


def ask_kafka(cluster: WitnessCluster, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a tool of Kafka's, which may ask any of the three nodes first."""
    servers = ",".join(f"127.0.0.1:{cluster.ports[node_id]}" for node_id in NODES)
    options = ["--bootstrap-controller", servers, *arguments]
    return subprocess.run(
        java(f"org.apache.kafka.tools.{command}", *options, heap="128m"),
        capture_output=True,
        text=True,
        timeout=JVM_SECONDS,
        check=False,
    )


async def lose_and_regain(cluster: WitnessCluster, signal_number: signal.Signals, value: str) -> None:
    """The active controller ends; the other one takes over with the witness; then the first one is back."""
    lost = await cluster.active(f"before-{value}")
    await trio.to_thread.run_sync(cluster.end, lost, signal_number)
    assert await cluster.active(f"without-{value}") != lost
    cluster.run(lost)
    await cluster.until_all_follow()


async def compare_logs(cluster: WitnessCluster, *values: str) -> None:
    """The three logs are equal, and have the values."""
    await cluster.until_all_follow()
    for node_id in NODES:
        await trio.to_thread.run_sync(cluster.end, node_id)
    logs = {node_id: cluster.batches(node_id) for node_id in NODES}
    end = min(max(log) for log in logs.values())
    start = max(min(log) for log in logs.values())
    shared = [{at: batch for at, batch in log.items() if start <= at <= end} for log in logs.values()]
    assert shared[0] == shared[1] == shared[2]
    for value in values:
        assert f"{MARK}{value}".encode() in b"".join(shared[2].values()), value


@pytest.mark.nightly
@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_either_controller_may_be_lost(make_cluster: Callable[..., WitnessCluster], static: bool) -> None:
    async def main(cluster: WitnessCluster) -> None:
        await cluster.until_all_follow()
        await lose_and_regain(cluster, signal.SIGKILL, "killed")
        await lose_and_regain(cluster, signal.SIGTERM, "stopped")
        await compare_logs(cluster, "before-killed", "without-killed", "before-stopped", "without-stopped")

    run(main, make_cluster(static=static))


def test_the_witness_leads_only_to_give_its_log_to_the_controller_that_is_behind(
    make_cluster: Callable[..., WitnessCluster],
) -> None:
    async def main(cluster: WitnessCluster) -> None:
        active = await cluster.until_all_follow()
        led_before = len(leaderships_s(cluster.said(WITNESS)))
        [behind] = [node_id for node_id in KAFKAS if node_id != active]
        cluster.send(behind, signal.SIGSTOP)
        # The answer to the fetch that was waiting has the first record, and is read after the pause.
        await cluster.active("answered", besides=behind)
        await cluster.active("missed", besides=behind)
        await trio.to_thread.run_sync(cluster.end, active)
        cluster.send(behind, signal.SIGCONT)
        assert await cluster.active("caught-up") == behind
        assert len(leaderships_s(cluster.said(WITNESS))) == led_before + 1
        assert f"a witness hands over to node {behind}" in cluster.said(WITNESS)
        cluster.run(active)
        await compare_logs(cluster, "missed", "caught-up")

    run(main, make_cluster())


@pytest.mark.nightly
def test_a_disk_is_replaced(make_cluster: Callable[..., WitnessCluster]) -> None:
    async def main(cluster: WitnessCluster) -> None:
        active = await cluster.until_all_follow()
        [lost] = [node_id for node_id in KAFKAS if node_id != active]
        old = cluster.key_of(lost)
        await trio.to_thread.run_sync(cluster.end, lost)
        cluster.wipe(lost)
        await cluster.active("without-the-disk")
        await trio.to_thread.run_sync(cluster.format, lost, "--no-initial-controllers")
        cluster.run(lost)
        await until_made(lambda: cluster.remove_voter(active, old), "voter_not_found")
        await until_made(lambda: cluster.add_voter(active, cluster.key_of(lost)), "duplicate_voter")
        await lose_and_regain(cluster, signal.SIGKILL, "with-the-new-disk")
        await compare_logs(cluster)

    run(main, make_cluster())


@pytest.mark.nightly
def test_topics_are_created_whichever_controller_is_lost(make_cluster: Callable[..., WitnessCluster]) -> None:
    async def main(cluster: WitnessCluster) -> None:
        await cluster.until_all_follow()
        await trio.to_thread.run_sync(cluster.add_brokers)
        await create_topic(cluster, "before")
        for value in ("first", "second"):
            lost = await cluster.active(value)
            await trio.to_thread.run_sync(cluster.end, lost)
            await create_topic(cluster, f"without-the-{value}")
            cluster.run(lost)
            await cluster.until_all_follow()
        listed = await ask_broker(cluster, "--list")
        assert sorted(listed.stdout.split()) == ["before", "without-the-first", "without-the-second"]

    run(main, make_cluster())


async def create_topic(cluster: WitnessCluster, name: str) -> None:
    """Until it is there: the broker may still be starting, and look for the active controller."""
    ends_at = trio.current_time() + JVM_SECONDS
    created = await ask_broker(cluster, "--create", "--topic", name)
    while "Created topic" not in created.stdout and "already exists" not in created.stdout:
        assert trio.current_time() < ends_at, created.stdout + created.stderr
        created = await ask_broker(cluster, "--create", "--topic", name)


async def ask_broker(cluster: WitnessCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    options = ["--bootstrap-server", cluster.broker_servers, *arguments]
    command = java("org.apache.kafka.tools.TopicCommand", *options, heap="128m")
    return await trio.to_thread.run_sync(
        functools.partial(subprocess.run, command, capture_output=True, text=True, timeout=JVM_SECONDS, check=False)
    )


async def until_made(change: Callable[[], Awaitable[str]], made_before: str) -> None:
    with trio.fail_after(JVM_SECONDS):
        while (answer := await change()) not in ("none", made_before):
            assert answer in ("request_timed_out", "no answer"), answer
            await trio.sleep(0.2)


@pytest.mark.nightly
def test_kafkas_tool_raises_kraft_version_with_the_witness(make_cluster: Callable[..., WitnessCluster]) -> None:
    if kafka_version() < (4, 1):
        pytest.skip("Kafka raises kraft.version from 4.1 on")

    async def main(cluster: WitnessCluster) -> None:
        await cluster.until_all_follow()
        await trio.to_thread.run_sync(
            wait_until,
            "the witness has registered",
            lambda: "registered as a controller" in cluster.said(WITNESS),
            JVM_SECONDS,
        )
        upgraded = await trio.to_thread.run_sync(ask_kafka, cluster, "FeatureCommand", *RAISE)
        assert "kraft.version was upgraded to 1" in upgraded.stdout, upgraded.stdout + upgraded.stderr
        described = await trio.to_thread.run_sync(ask_kafka, cluster, "MetadataQuorumCommand", "describe", "--status")
        assert all(f'"id": {node_id}' in described.stdout for node_id in NODES), described.stdout + described.stderr
        await lose_and_regain(cluster, signal.SIGKILL, "upgraded")
        await compare_logs(cluster, "without-upgraded")

    run(main, make_cluster(static=True))


RAISE = ["upgrade", "--feature", "kraft.version=1"]
FALSE = {"kraft.witness": "false"}
REFUSAL = "expected kraft.witness=true"


@pytest.mark.nightly
def test_without_the_key_it_is_not_added(make_cluster: Callable[..., WitnessCluster]) -> None:
    """It continues as an observer."""

    async def main(cluster: WitnessCluster) -> None:
        active = await cluster.active("without-us")
        await until_it_observes(cluster)
        refused = await cluster.add_voter(active, cluster.key_of(WITNESS))
        assert refused == "invalid_request", refused
        described = await cluster.describe(await cluster.active("refused"))
        assert described is not None
        assert [voter.key.id for voter in described.voters] == list(KAFKAS)
        assert cluster.witness.running

    run(main, make_cluster(founders=KAFKAS, settings=FALSE))


@pytest.mark.nightly
def test_it_is_added(make_cluster: Callable[..., WitnessCluster]) -> None:
    async def main(cluster: WitnessCluster) -> None:
        active = await cluster.active("without-us")
        await until_it_observes(cluster)
        await until_made(lambda: cluster.add_voter(active, cluster.key_of(WITNESS)), "duplicate_voter")
        await lose_and_regain(cluster, signal.SIGKILL, "added")

    run(main, make_cluster(founders=KAFKAS))


async def until_it_observes(cluster: WitnessCluster) -> None:
    with trio.fail_after(JVM_SECONDS):
        while True:
            answers = [await cluster.describe(node_id) for node_id in KAFKAS]
            observers = [observer for answer in answers if answer is not None for observer in answer.observers]
            if any(observer.key.id == WITNESS and observer.log_end_offset > 0 for observer in observers):
                return
            await trio.sleep(0.2)


SNAPSHOTS = "metadata.log.max.record.bytes.between.snapshots"
TRIMMING = {SNAPSHOTS: 2000, "metadata.log.segment.bytes": 1024, "metadata.max.retention.bytes": 0}


@pytest.mark.nightly
def test_it_trims_its_log_by_the_snapshots_of_the_controllers(make_cluster: Callable[..., WitnessCluster]) -> None:
    async def main(cluster: WitnessCluster) -> None:
        await cluster.until_all_follow()
        with trio.fail_after(JVM_SECONDS):
            while min(cluster.batches(WITNESS), default=0) == 0:
                await cluster.active("more")
                await trio.sleep(0.5)
        assert "snapshot copied" in cluster.said(WITNESS)
        await lose_and_regain(cluster, signal.SIGKILL, "trimmed")
        await trio.to_thread.run_sync(cluster.end, WITNESS)
        cluster.run(WITNESS)
        await compare_logs(cluster, "without-trimmed")

    run(main, make_cluster(settings=TRIMMING, controller_settings={SNAPSHOTS: 2000}))


OLDER, NEWER = GOT / "4.1.0", HOME


@pytest.mark.nightly
@pytest.mark.skipif(
    not (OLDER / "libs").is_dir() or kafka_version() <= (4, 1, 0), reason="needs Kafka 4.1.0 and a newer one"
)
def test_controllers_are_upgraded_one_after_the_other(make_cluster: Callable[..., WitnessCluster]) -> None:
    """And then their metadata.version, which all registered controllers must support."""

    async def main(cluster: WitnessCluster) -> None:
        active = await cluster.until_all_follow()
        cluster.home = NEWER
        for node_id in sorted(KAFKAS, key=lambda node_id: node_id == active):
            await lose_one_and_regain(cluster, node_id)
        release = ".".join(map(str, kafka_version()[:2]))
        await upgrade_features(cluster, release)
        await lose_and_regain(cluster, signal.SIGKILL, "upgraded")
        await compare_logs(cluster, "without-upgraded")

    run(main, make_cluster(home=OLDER))


TO_RELEASE = ["upgrade", "--release-version"]


async def upgrade_features(cluster: WitnessCluster, release: str) -> None:
    """Until it is done: the witness may not have registered yet with a controller that knows the new features."""
    ends_at = trio.current_time() + JVM_SECONDS
    while True:
        upgraded = await trio.to_thread.run_sync(ask_kafka, cluster, "FeatureCommand", *TO_RELEASE, release)
        if "metadata.version was upgraded" in upgraded.stdout:
            return
        assert f"Controller {WITNESS} does not support this feature" in upgraded.stdout + upgraded.stderr
        assert trio.current_time() < ends_at, upgraded.stdout + upgraded.stderr


async def lose_one_and_regain(cluster: WitnessCluster, node_id: int) -> None:
    await trio.to_thread.run_sync(cluster.end, node_id, signal.SIGTERM)
    await cluster.active(f"without-{node_id}")
    cluster.run(node_id)
    await cluster.until_all_follow()


@pytest.mark.nightly
@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_without_the_key_it_is_no_voter(make_cluster: Callable[..., WitnessCluster], static: bool) -> None:
    """It ends at the first contact, and the controllers continue."""

    async def main(cluster: WitnessCluster) -> None:
        await cluster.active("without-us")
        assert await trio.to_thread.run_sync(cluster.witness.wait, JVM_SECONDS) != 0
        assert REFUSAL in cluster.said(WITNESS)

    run(main, make_cluster(static=static, settings=FALSE))
