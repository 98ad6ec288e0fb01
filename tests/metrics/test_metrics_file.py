"""metrics.prom: written while the node runs, gone when it stops, in nobody's way when the disk refuses."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from harness.ports import free_ports
from kraft_trio.config import parse_config
from kraft_trio.errors import StorageError
from kraft_trio.formatting import first_voter, format_node, random_uuid
from kraft_trio.metrics.metrics_file import read_metrics
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.running import open_node
from kraft_trio.simulation import Cluster, simulate
from kraft_trio.simulation.world import EPOCH_MS
from kraft_trio.storage.disk.real_disk import RealDisk
from tests.support.on_cluster import on_cluster

PATH = "/data/metrics.prom"
EVERY_SECOND = {"kraft.metrics.interval.ms": "1000"}


def written(cluster: Cluster, node_id: int = 1) -> bytes:
    content = cluster.machines[node_id].disk.peek(PATH)
    assert content is not None
    return content


@on_cluster(voters=3, settings=EVERY_SECOND)
async def test_the_file_shows_the_metrics_and_is_renewed(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await leader.append([b"x"])
    await cluster.wait_until_alike()
    await trio.sleep(1.5)
    for node_id, node in cluster.nodes.items():
        found = read_metrics(PATH, written(cluster, node_id))
        assert found.node_id == node_id
        assert cluster.now_s - 1.1 <= found.collected_s - EPOCH_MS / 1000 <= cluster.now_s
        now = node.metrics.values()
        assert found.values.keys() == now.keys()
        for name in ("current-state", "current-vote-directory-id", "current-leader", "high-watermark", "is-observer"):
            assert found.values[name] == now[name]
    before = read_metrics(PATH, written(cluster)).collected_s
    await trio.sleep(1.0)
    assert read_metrics(PATH, written(cluster)).collected_s == pytest.approx(before + 1.0, abs=0.01)


@on_cluster(voters=1, settings=EVERY_SECOND)
async def test_it_is_the_text_format_of_prometheus(cluster: Cluster) -> None:
    node = await cluster.wait_for_leader()
    await trio.sleep(2.0)
    families = {family.name: family for family in text_string_to_metric_families(written(cluster).decode())}
    assert families["kafka_server_raftmetrics_high_watermark"].type == "gauge"
    [state] = families["kafka_server_raftmetrics_current_state"].samples
    assert (state.labels, state.value) == ({"node_id": "1", "current_state": "leader"}, 1.0)
    [end] = families["kafka_server_raftmetrics_log_end_offset"].samples
    assert (end.labels, end.value) == ({"node_id": "1"}, node.log.end_offset)


@on_cluster(voters=1, settings=EVERY_SECOND)
async def test_it_is_removed_when_the_node_stops_and_left_by_kill_9(cluster: Cluster) -> None:
    machine = cluster.machines[1]
    await cluster.wait_for_leader()
    await machine.stop()
    assert "metrics.prom" not in machine.disk.peek_names("/data")
    await machine.start()
    await trio.sleep(2.0)
    machine.kill()
    await machine.wait_until_ended()
    assert written(cluster)


@on_cluster(voters=1, settings={"kraft.metrics.interval.ms": "0"})
async def test_an_interval_of_0_turns_it_off(cluster: Cluster) -> None:
    node = await cluster.wait_for_leader()
    await trio.sleep(3.0)
    assert cluster.machines[1].disk.peek_names("/data") == [".lock", "disk-reserve", "meta.properties"]
    assert node.metrics.values()["current-state"] == "leader", "asked for, it is there all the same"


@on_cluster(voters=1)
async def test_a_simulated_node_writes_none_unless_it_is_asked_to(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    await trio.sleep(3.0)
    assert cluster.machines[1].disk.peek_names("/data") == [".lock", "disk-reserve", "meta.properties"]


@on_cluster(voters=1, settings=EVERY_SECOND)
async def test_it_is_never_synced(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    await trio.sleep(3.0)
    assert written(cluster)
    assert cluster.machines[1].disk.durable_bytes(PATH) is None


@on_cluster(voters=1, settings=EVERY_SECOND)
async def test_a_disk_that_refuses_it_is_said_once_and_harms_nothing(cluster: Cluster) -> None:
    node = await cluster.wait_for_leader()
    disk, said = cluster.machines[1].disk, list[object]()
    cluster.trace.listeners.append(
        lambda event: said.append(event.details["reason"]) if event.cause == "metrics not written" else None
    )
    await trio.sleep(1.5)
    before = written(cluster)
    disk.fail("open", name="metrics.prom.tmp", code=errno.ENOSPC, times=3)
    await trio.sleep(2.0)
    assert await node.append([b"x"])
    assert written(cluster) == before
    assert len(said) == 1
    await trio.sleep(3.0)
    assert written(cluster) != before
    disk.fail("append", name="metrics.prom.tmp", code=errno.ENOSPC)
    await trio.sleep(1.5)
    assert len(said) == 2, "it had gone well in between"


def test_a_simulated_run_that_writes_it_is_as_deterministic() -> None:
    async def history(cluster: Cluster) -> tuple[str, bytes]:
        leader = await cluster.wait_for_leader()
        await leader.append([b"x"])
        await trio.sleep(5.0)
        return cluster.trace.digest(), written(cluster)

    assert simulate(history, seed=5, settings=EVERY_SECOND) == simulate(history, seed=5, settings=EVERY_SECOND)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense {",
        "kafka_server_raftmetrics_current_leader 1\n",
        'kraft_metrics_collected_timestamp_seconds{node_id="one"} 5\n',
        "kraft_metrics_collected_timestamp_seconds 5\n",
    ],
)
def test_what_no_node_has_written_is_refused(text: str) -> None:
    with pytest.raises(StorageError, match=r"metrics\.prom: not the metrics of a node"):
        read_metrics("metrics.prom", text.encode())


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(StorageError, match="not the metrics of a node"):
        read_metrics("metrics.prom", b"\xff\xfe")


def state_in(path: Path) -> float | str:
    return read_metrics(str(path), path.read_bytes()).values["current-state"]


async def test_on_a_real_disk_it_is_written_off_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [port] = free_ports(1)
    config = parse_config(
        {
            "node.id": "1",
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "metadata.log.dir": str(tmp_path / "data"),
            "kraft.metrics.interval.ms": "10",
        }
    ).config
    format_node(config, cluster_id=random_uuid(), voters=VoterSet([first_voter(config)]))
    threads: set[threading.Thread] = set()
    original = RealDisk.replace_now

    def replace_now(self: RealDisk, path: str, data: bytes, *, mode: int = 0o640, durable: bool = True) -> None:
        if path.endswith("metrics.prom"):
            threads.add(threading.current_thread())
            assert not durable
        original(self, path, data, mode=mode, durable=durable)

    monkeypatch.setattr(RealDisk, "replace_now", replace_now)
    path = tmp_path / "data" / "metrics.prom"
    async with open_node(config) as node:
        await node.append([b"x"])
        with trio.fail_after(30):
            while not (path.exists() and state_in(path) == "leader"):  # noqa: ASYNC110  nobody tells of a file
                await trio.sleep(0.01)
    assert not path.exists()
    assert threads
    assert threading.main_thread() not in threads
