"""`kraft storage recover`: a quorum out of one replica, or at other addresses, and what it takes to agree to it."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from pathlib import Path

import pytest

from kraft_trio.cli import run
from kraft_trio.cli.directory.recovery import EPOCH_STEP, RECORD, Change, Recovery, only_voter, other_endpoints, recover
from kraft_trio.client.admin import AdminClient
from kraft_trio.errors import AlreadyLockedError, ConfigError, CorruptLogError, KraftError, StorageError
from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.machine import Machine
from kraft_trio.storage.checks.quarantine import DAMAGED, note_damage
from tests.support.on_cluster import on_cluster

CLUSTER_ID = "fMCL8kv1SWm87L_Md-I2hg"
OTHERS = ("2@host-2:9093:ILZ5MPTeRWakmJu99uBJCA", "3@host-3:9093:3Db5QLSqSZieL3rJBUUegA")


async def recovered(machine: Machine, change: Change = only_voter, *, agree: bool = True) -> Recovery:
    """Recover the replica on a machine whose process has ended; the invariants are not meant for that."""
    machine.disk.is_attached = True
    return await recover(
        machine.disk, machine.config, change, confirmed=lambda _recovery: agree, now_ms=machine.wall_clock_ms()
    )


async def kill_all(cluster: Cluster) -> None:
    for machine in cluster.machines.values():
        machine.kill()
        await machine.wait_until_ended()


def files_of(machine: Machine) -> dict[str, bytes | None]:
    """The log and the election state, as they would be read after a power failure."""
    names = ("00000000000000000000.log", "quorum-state")
    return {name: machine.disk.durable_bytes(f"{machine.partition_path}/{name}") for name in names}


def contents(directory: Path) -> dict[str, bytes | None]:
    """Of every file below it; None for a directory."""
    return {str(path): None if path.is_dir() else path.read_bytes() for path in directory.rglob("*")}


@on_cluster(invariants=())
async def test_one_replica_leads_on_with_what_it_has(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await leader.append([b"kept"])
    await cluster.wait_until_alike()
    await kill_all(cluster)
    recovery = await recovered(cluster.machines[3])
    assert recovery.log_end == OffsetAndEpoch(leader.log.end.offset, 1)
    assert (recovery.before.ids, recovery.after.ids) == ((1, 2, 3), (3,))
    assert recovery.new_epoch == 2 * EPOCH_STEP + 2

    node = await cluster.machines[3].start()
    await cluster.wait_for_leader()
    await node.append([b"new"])
    assert node.view.voters.ids == (3,)
    assert node.view.epoch > recovery.new_epoch
    values = []
    async for committed in node.committed():
        values.append(committed.value)
        if committed.value == b"new":
            break
    assert values == [b"kept", b"new"]


@on_cluster(invariants=())
async def test_the_quorum_grows_again(cluster: Cluster) -> None:
    """The lost voters come back blank, and are added."""
    await (await cluster.wait_for_leader()).append([b"kept"])
    await cluster.wait_until_alike()
    await kill_all(cluster)
    await recovered(cluster.machines[2])
    await cluster.machines[2].start()
    for node_id in (1, 3):
        cluster.machines[node_id].replace_disk()
        await cluster.machines[node_id].start()
    client = AdminClient([cluster.endpoint_of(2)], network=cluster.network.seen_from("client-admin"))
    for node_id in (1, 3):
        listeners = cluster.config_of(node_id).advertised_endpoints()
        await client.add_metadata_voter(cluster.key_of(node_id), listeners, cluster_id=cluster.cluster_id)
    await cluster.wait_until_alike()
    assert {node.view.voters.ids for node in cluster.nodes.values()} == {(1, 2, 3)}
    cluster.machines[2].kill()
    await (await cluster.wait_for_leader()).append([b"more"])


@on_cluster(invariants=())
async def test_all_addresses_have_changed(cluster: Cluster) -> None:
    """Told to one replica, the others learn them from it, once it leads; its log was as new as any."""
    leader = await cluster.wait_for_leader()
    await leader.append([b"kept"])
    await cluster.wait_until_alike()
    await kill_all(cluster)
    for node_id in cluster.voter_ids:
        cluster.move(node_id)
    moved = {id: Endpoints({"CONTROLLER": cluster.endpoint_of(id)}) for id in cluster.voter_ids}
    recovery = await recovered(cluster.machines[1], other_endpoints(moved))
    assert [voter.key for voter in recovery.after] == [voter.key for voter in recovery.before]
    for machine in cluster.machines.values():
        await machine.start()
    new = await cluster.wait_for_leader()
    await new.append([b"new"])
    await cluster.wait_until_alike()
    for node in cluster.nodes.values():
        assert {voter.id: voter.endpoints for voter in node.view.voters} == moved


@on_cluster(invariants=())
async def test_nothing_is_changed_without_agreement(cluster: Cluster) -> None:
    await (await cluster.wait_for_leader()).append([b"value"])
    await cluster.wait_until_alike()
    await kill_all(cluster)
    machine = cluster.machines[2]
    before = files_of(machine)
    await recovered(machine, agree=False)
    assert files_of(machine) == before
    assert machine.disk.durable_bytes(f"/data/{RECORD}") is None


@on_cluster(invariants=())
async def test_damage_that_a_read_has_found_is_told_before(cluster: Cluster) -> None:
    """The replica would not start with it."""
    await (await cluster.wait_for_leader()).append([b"value"])
    await cluster.wait_until_alike()
    for machine in cluster.machines.values():
        await machine.stop()
    machine = cluster.machines[2]
    machine.disk.is_attached = True
    note_damage(machine.disk, machine.partition_path, "found by the test")
    await recovered(machine, agree=False)
    assert machine.disk.exists(f"{machine.partition_path}/{DAMAGED}"), "nothing changes"
    machine.disk.damage(f"{machine.partition_path}/00000000000000000000.log", 80)
    with pytest.raises(CorruptLogError, match="a read found damage: found by the test; it is still there"):
        await recovered(machine, agree=False)


@on_cluster(invariants=())
async def test_two_replicas_never_recover_in_one_epoch(cluster: Cluster) -> None:
    """Else two records could stand at one offset of one epoch (invariant RestartedLeaderResigns)."""
    await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    await kill_all(cluster)
    epochs = [(await recovered(machine)).new_epoch for machine in cluster.machines.values()]
    assert epochs == [2 * EPOCH_STEP, 2 * EPOCH_STEP + 1, 2 * EPOCH_STEP + 2]
    endpoints = {1: Endpoints({"CONTROLLER": Endpoint("elsewhere", 1)})}
    again = await recovered(cluster.machines[1], other_endpoints(endpoints))
    assert again.new_epoch == 4 * EPOCH_STEP


@on_cluster(invariants=())
async def test_a_record_of_it_is_kept(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    await kill_all(cluster)
    recovery = await recovered(cluster.machines[3])
    text = cluster.machines[3].disk.durable_bytes(f"/data/{RECORD}")
    assert text is not None
    begun, done = [json.loads(line) for line in text.splitlines()]
    assert (begun["step"], done["step"]) == ("begun", "done")
    assert {**begun, "step": "done"} == done
    assert (done["recovery"], done["logEndOffset"], done["newEpoch"]) == (
        "only voter",
        leader.log.end.offset,
        recovery.new_epoch,
    )
    assert [voter["voter"] for voter in done["votersBefore"]] == [str(cluster.key_of(id)) for id in (1, 2, 3)]
    assert done["votersAfter"] == [
        {"voter": str(cluster.key_of(3)), "endpoints": [f"CONTROLLER://{cluster.endpoint_of(3)}"]}
    ]


@on_cluster(invariants=())
async def test_after_a_crash_in_the_middle_it_can_be_done_again(cluster: Cluster) -> None:
    """The power fails at every call to the disk in turn."""
    await (await cluster.wait_for_leader()).append([b"value"])
    await cluster.wait_until_alike()
    await kill_all(cluster)
    machine = cluster.machines[1]
    whole = machine.disk
    for point in itertools.count(1):
        machine.disk = whole.copy()
        calls = itertools.count(1)
        machine.disk.crash_at(lambda _operation, _path, calls=calls, point=point: next(calls) == point, lose="all")
        try:
            await recovered(machine)
            break
        except (KraftError, OSError):
            pass
        finally:
            machine.disk.clear_faults()
        with contextlib.suppress(StorageError):  # "is the only voter already", where the crash came late enough
            await recovered(machine)
        with pytest.raises(StorageError, match="is the only voter already: start it"):
            await recovered(machine)
    assert point > 10
    machine.device.insert(machine.disk)
    node = await machine.start()
    await cluster.wait_for_leader()
    assert node is not None
    assert node.view.voters.ids == (1,)


@on_cluster()
async def test_a_running_node_is_left_alone(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    machine = cluster.machines[1]
    with pytest.raises(AlreadyLockedError):
        await recover(machine.disk, machine.config, only_voter, confirmed=lambda _: True, now_ms=0)


@on_cluster(kraft_version=0)
async def test_static_voters_are_changed_in_the_configuration(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    await kill_all(cluster)
    with pytest.raises(StorageError, match=r"kraft\.version is 0: change the voters in controller\.quorum\.voters"):
        await recovered(cluster.machines[1])


@on_cluster(observers=1)
async def test_other_addresses_are_of_voters_and_differ(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    await kill_all(cluster)

    def at(node_id: int, endpoint: Endpoint, name: str = "CONTROLLER") -> Change:
        return other_endpoints({node_id: Endpoints({name: endpoint})})

    for machine_id, change, kind, message in (
        (1, at(7, Endpoint("host", 1)), ConfigError, "no voter has id 7: the voters are 1, 2, 3"),
        (1, at(2, cluster.endpoint_of(2)), StorageError, "the voters have these endpoints already"),
        (1, at(2, Endpoint("host", 1), "OTHER"), ConfigError, "voter 2: listeners OTHER: expected CONTROLLER"),
        (4, at(2, Endpoint("host", 1)), StorageError, "is not a voter: nobody would elect it"),
    ):
        with pytest.raises(kind, match=message):
            await recovered(cluster.machines[machine_id], change)


class TestCommand:
    @pytest.fixture
    def config(self, tmp_path: Path) -> Path:
        """Of node 1 of three voters, formatted."""
        path = tmp_path / "node-1.properties"
        path.write_text(
            "node.id=1\nlisteners=CONTROLLER://new-host-1:9093\n"
            "controller.quorum.bootstrap.servers=host-1:9093\n"
            f"metadata.log.dir={tmp_path / 'data'}\n"
        )
        initial = ",".join(("1@host-1:9093:b8tRS7h4TJ2Vt43Dp85v2A", *OTHERS))
        assert run(["storage", "format", "-t", CLUSTER_ID, "-c", str(path), "-I", initial]) == 0
        return path

    def test_first_it_says_what_it_would_do(self, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
        capsys.readouterr()
        assert run(["storage", "recover", "-c", str(config), "--unsafe-only-voter"]) == 1
        out, err = capsys.readouterr()
        assert out.splitlines() == [
            f"Directory:              {config.parent / 'data'}",
            "Replica:                1-b8tRS7h4TJ2Vt43Dp85v2A",
            f"ClusterId:              {CLUSTER_ID}",
            "LogEnd:                 offset 0 (exclusive), epoch 0",
            "Epoch:                  0, then 2000",
            "VotersBefore:           1-b8tRS7h4TJ2Vt43Dp85v2A at CONTROLLER://host-1:9093, "
            "2-ILZ5MPTeRWakmJu99uBJCA at CONTROLLER://host-2:9093, "
            "3-3Db5QLSqSZieL3rJBUUegA at CONTROLLER://host-3:9093",
            "VotersAfter:            1-b8tRS7h4TJ2Vt43Dp85v2A at CONTROLLER://new-host-1:9093",
            "MayBeLost:              offsets 0 and above: anything the other voters committed there",
            "MayBeMadeCommitted:     no record",
        ]
        assert err == (
            f"kraft: error: nothing was changed; --cluster-id {CLUSTER_ID} confirms that you accept what may be lost\n"
        )

    def test_with_the_cluster_id_it_does_it(self, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
        command = ["storage", "recover", "-c", str(config), "--unsafe-only-voter", "-t", CLUSTER_ID]
        assert run(command) == 0
        directory = config.parent / "data"
        assert capsys.readouterr().out.endswith(f"Recovered {directory}: only voter; noted in {directory / RECORD}\n")
        assert run(command) == 1
        assert "1-b8tRS7h4TJ2Vt43Dp85v2A is the only voter already: start it" in capsys.readouterr().err

    def test_a_forgotten_variable_does_not_lead_to_another_directory(
        self, config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Such as that of the original, while FILE describes a copy with the same ids."""
        original = config.parent / "original"
        shutil.copytree(config.parent / "data", original)
        before = contents(config.parent)
        monkeypatch.setenv("KRAFT_METADATA_LOG_DIR", str(original))
        command = ["storage", "recover", "--unsafe-only-voter", "-t", CLUSTER_ID]
        capsys.readouterr()
        assert run([*command, "-c", str(config)]) == 1
        assert capsys.readouterr().err.startswith(f"kraft: error: {config}: contradicted by KRAFT_METADATA_LOG_DIR; ")
        assert contents(config.parent) == before
        monkeypatch.setenv("KRAFT_CONFIG", str(config))
        assert run(command) == 0
        assert (original / RECORD).exists()

    def test_the_directory_tells_of_it_ever_after(self, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
        command = ["storage", "recover", "-c", str(config), "--unsafe-only-voter", "-t", CLUSTER_ID]
        info = ["storage", "info", "-c", str(config)]
        assert run(info) == 0
        assert "Recovered" not in capsys.readouterr().out
        assert run(command) == 0
        capsys.readouterr()
        assert run(info) == 0
        [told] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Recovered: ")]
        assert told.endswith("+00:00: only voter, at offset 0 of epoch 0, from then on epoch 2000")
        record = config.parent / "data" / RECORD
        begun, done = record.read_text().splitlines()
        record.write_text(f"{begun}\n{done}\n{begun}\n")
        assert run(info) == 0
        assert capsys.readouterr().out.splitlines()[-1].endswith("; begun, but not noted as done")
        record.write_text(f"{begun}\nnot a line of it\n")
        assert run(info) == 1
        assert f"{record}: line 2 does not describe a recovery: JSONDecodeError" in capsys.readouterr().err

    @pytest.mark.parametrize("confirmation", [[], ["-t", "nd6XarTiRhefV_HoP0mp1A"]])
    def test_until_it_is_confirmed_not_a_byte_changes(
        self, config: Path, confirmation: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Nor is a file made, although opening the log cuts a torn tail and writes what it derives from the log."""
        log = config.parent / "data" / "__cluster_metadata-0" / "00000000000000000000.log"
        log.write_bytes(b"a write that was not finished")
        before = contents(config.parent)
        capsys.readouterr()
        command = ["storage", "recover", "-c", str(config), "--unsafe-only-voter"]
        assert run([*command, *confirmation]) == 1
        assert contents(config.parent) == before
        out, _err = capsys.readouterr()
        assert "LogEnd:                 offset 0 (exclusive), epoch 0\n" in out
        assert "cut" not in out
        assert run([*command, "-t", CLUSTER_ID]) == 0
        assert b"not finished" not in log.read_bytes()

    def test_the_record_is_in_the_log(self, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
        moved = "2@CONTROLLER://elsewhere:1,2@OTHER://elsewhere:2"
        command = ["storage", "recover", "-c", str(config), "-t", CLUSTER_ID, "--unsafe-endpoints", moved]
        assert run(command) == 0
        log = config.parent / "data" / "__cluster_metadata-0" / "00000000000000000000.log"
        capsys.readouterr()
        assert run(["dump-log", str(log)]) == 0
        dumped = capsys.readouterr().out
        assert "partitionLeaderEpoch: 2000" in dumped
        assert "elsewhere" in dumped

    @pytest.mark.parametrize(
        ("options", "exit_code", "message"),
        [
            ([], 2, "give one of --unsafe-only-voter, --unsafe-endpoints, --unsafe-epoch and --unsafe-static"),
            (["--unsafe-only-voter", "--unsafe-endpoints", "1@C://h:1"], 2, "give one of --unsafe-only-voter,"),
            (["--unsafe-epoch", "0"], 2, "'0' is not a whole number from 1"),
            (["--unsafe-endpoints", ""], 1, "'' is not ID@NAME://HOST:PORT"),
            (["--unsafe-endpoints", "1@"], 1, "'1@' is not ID@NAME://HOST:PORT"),
            (["--unsafe-endpoints", "x@CONTROLLER://h:1"], 1, "'x' is not a replica id"),
            (["--unsafe-endpoints", "1@h:1"], 1, "'h:1' is not NAME://host:port"),
            (["--unsafe-endpoints", "1@C://0.0.0.0:1"], 1, "means every interface"),
            (
                ["--unsafe-only-voter", "-t", "wrong"],
                1,
                f"--cluster-id wrong: the directory belongs to cluster {CLUSTER_ID}",
            ),
        ],
    )
    def test_what_makes_no_sense_changes_nothing(
        self, config: Path, options: list[str], exit_code: int, message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["storage", "recover", "-c", str(config), *options]) == exit_code
        assert message in capsys.readouterr().err
        assert not (config.parent / "data" / RECORD).exists()

    def test_a_directory_without_a_log(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "node.properties"
        path.write_text(f"node.id=1\nlisteners=CONTROLLER://host:1\nmetadata.log.dir={tmp_path / 'data'}\n")
        command = ["storage", "recover", "-c", str(path), "--unsafe-only-voter"]
        assert run(command) == 1
        assert "there is no such directory" in capsys.readouterr().err
        assert run(["storage", "format", "-t", CLUSTER_ID, "-c", str(path), "-N"]) == 0
        assert run(command) == 1
        assert "there is no log to recover from" in capsys.readouterr().err
