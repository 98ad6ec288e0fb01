"""A simulated cluster with its operator, who knows what `explain` prints, and does that and no more."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
import trio

from kraft_trio.cli.directory import recover_command as recover
from kraft_trio.cli.directory import stopped_node, storage
from kraft_trio.cli.quorum import explain_command, quorum_options
from kraft_trio.protocol.features import ANY_LEVEL
from kraft_trio.protocol.roles import Leader
from kraft_trio.protocol.types import ReplicaKey, VersionRange, directory_id_from_text
from kraft_trio.protocol.types import directory_id_to_text as id_text
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.simulation.script.steps.expectations import values_of
from kraft_trio.simulation.setup import CLUSTER_ID
from kraft_trio.simulation.world import EPOCH_MS
from kraft_trio.wire.network import Network
from tests.situations.kafkas import Controller, KafkasNetwork
from tests.situations.replay import Ran, run_command
from tests.support.metadata_records import register_controller

VALUES: Final = (b"a", b"b", b"c")
KAFKAS_FEATURES: Final = {"metadata_version": VersionRange(7, 33), "kraft_version": VersionRange(0, 1)}
WITNESS_FEATURES: Final = {**KAFKAS_FEATURES, "metadata_version": ANY_LEVEL}
KAFKAS_SCRIPTS: Final = {
    "bin/kafka-server-start.sh": ["kraft", "server", "start", "-c"],
    "bin/kafka-storage.sh": ["kraft", "storage"],
}
"""What does here what Kafka's scripts do."""
QUIET_S: Final = 20.0
"""By then, a quorum has elected a leader if it can."""


@attrs.frozen
class Told:
    """One finding as it was printed."""

    severity: str
    code: str
    text: str
    command: str | None


@attrs.define
class Site:
    """The cluster, the files of its nodes, and what the operator has done to which node."""

    cluster: Cluster
    directory: Path
    done: list[tuple[str, int]] = attrs.field(factory=list)
    """What was stopped, started or formatted because of advice, by node id."""
    lists: int = 0
    """How many lists of directory ids were made."""
    told: tuple[Told, ...] = ()
    """What `explain` said last."""
    written: tuple[bytes, ...] = VALUES
    """What all voters must have in the end.  The log of Kafka's controllers has metadata records: registrations."""
    registered: list[int] = attrs.field(factory=list)
    """Who has registered with the controllers of Kafka's."""
    is_advised: bool = False
    """Whether what is done now follows advice; staging does as it likes."""

    def __attrs_post_init__(self) -> None:
        """Each process of Kafka's and each witness registers once it runs."""
        self._register(*self.cluster.nodes)
        for node_id in self.kafkas:  # What runs in its place is not Kafka's.
            self.cluster.write_keys(node_id, kraft_unsafe_kafka_directory="true")

    # What happens to the cluster

    async def write(self) -> None:
        """Commit the values that must be there in the end."""
        leader = await self.cluster.wait_for_leader()
        if self.kafkas:
            features = {id: KAFKAS_FEATURES if id in self.kafkas else WITNESS_FEATURES for id in self.registered}
            self.written = tuple(register_controller(id, **features[id]) for id in self.registered)
        for value in self.written:
            await leader.append([value])
        await self.cluster.wait_until_alike()

    @property
    def kafkas(self) -> tuple[int, ...]:
        """The nodes that are controllers of Apache Kafka's."""
        return self.cluster.setup.kafka_replicas

    async def stop(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self._note("stop", node_id)
            machine = self.cluster.machines[node_id]
            machine.kill()
            await machine.wait_until_ended()

    async def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self._note("start", node_id)
            await self.cluster.machines[node_id].start()
        self._register(*node_ids)

    def _register(self, *node_ids: int) -> None:
        own = () if not self.kafkas else (*self.kafkas, *self.cluster.setup.witnesses)
        self.registered += [id for id in node_ids if id in own and id not in self.registered]

    def blank_disk(self, *node_ids: int) -> None:
        """Put a blank disk into a stopped machine, and keep the old one."""
        for node_id in node_ids:
            self._note("format", node_id)
            machine = self.cluster.machines[node_id]
            machine.kept_disk, machine.kept_key = machine.disk, self.cluster.key_of(node_id)
            machine.replace_disk()

    def mount_again(self, *node_ids: int) -> None:
        """Put the disk of before into a stopped machine again."""
        for node_id in node_ids:
            machine = self.cluster.machines[node_id]
            disk, machine.kept_key = machine.kept_disk, None
            assert disk is not None
            machine.replace_disk(disk)

    def move_away(self, *node_ids: int) -> None:
        """Move the directory of a stopped node away."""
        for node_id in node_ids:
            machine = self.cluster.machines[node_id]
            machine.kept_disk = machine.disk
            machine.disk = SimulatedDisk(self.cluster.random(f"disk of {node_id}"), now_ms=machine.wall_clock_ms)
            machine.device.insert(machine.disk)

    def new_list(self) -> str:
        """Initial controllers with new directory ids."""
        self.lists += 1
        keys = [self.cluster.new_key(node_id, 100 * self.lists) for node_id in self.cluster.voter_ids]
        return ",".join(f"{key.id}@{self.cluster.endpoint_of(key.id)}:{id_text(key.directory_id)}" for key in keys)

    async def format(self, node_id: int, initial_controllers: str) -> None:
        """Format a node that does not run with that list."""
        self.move_away(node_id)
        listed = ("--initial-controllers", initial_controllers)
        await self._format("storage", "format", "-t", CLUSTER_ID, "-c", str(self.file_of(node_id)), *listed, on=node_id)

    async def _format(self, *arguments: str, on: int) -> Ran:
        ran = await self.kraft(*arguments, on=on)
        assert ran.code == 0, ran
        id = directory_id_from_text(ran.out.split()[-1])
        self.cluster.facts.formatted(ReplicaKey(on, id), self.cluster.machines[on].device)
        return ran

    def _note(self, what: str, node_id: int) -> None:
        if self.is_advised:
            self.done.append((what, node_id))

    @property
    def leader(self) -> int:
        leader = self.cluster.leader()
        assert leader is not None
        return leader.key.id

    @property
    def followers(self) -> list[int]:
        """The voters that run and do not lead, ascending."""
        nodes = self.cluster.nodes.items()
        return [id for id, node in nodes if not isinstance(node.view.role, Leader) and id in self.cluster.voter_ids]

    # What the operator does

    async def explain(self, *node_ids: int, with_file_of: int | None = None) -> tuple[Told, ...]:
        """Ask as `kraft metadata-quorum explain` does: these nodes, by default all."""
        asked = ",".join(str(self.cluster.endpoint_of(id)) for id in node_ids or self.cluster.machines)
        file = () if with_file_of is None else ("-c", str(self.file_of(with_file_of)))
        ran = await self.kraft("metadata-quorum", "--bootstrap-controller", asked, "explain", "--json", *file)
        return self._heard(ran)

    def _heard(self, ran: Ran) -> tuple[Told, ...]:
        assert ran.out, ran.err
        found = json.loads(ran.out)["findings"]
        self.told = tuple(Told(**finding) for finding in found)
        assert ran.code == any(one.severity == "critical" for one in self.told), ran
        return self.told

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(one.code for one in self.told)

    def says(self, text: str) -> Told:
        """The finding that says this, or whose command is this."""
        found = [one for one in self.told if text in one.text or text == one.command]
        assert found, f"{text!r} is not in {self.told}"
        return found[0]

    def command(self, code: str) -> str:
        """The command printed below the finding with that code."""
        [found] = [one.command for one in self.told if one.code == code]
        assert found is not None, f"{code} has no command"
        return found

    def command_of(self, text: str) -> str:
        """The command of the finding that says this."""
        command = self.says(text).command
        assert command is not None, text
        return command

    async def copy(self, command: str, *, on: int | None = None) -> Ran:
        """Run a printed command.  `on` is the node on whose machine; FILE stands for its file there."""
        words = shlex.split(self._of_two(command, on))
        words = [str(self.file_of(on)) if word == "FILE" and on is not None else word for word in words]
        program, *arguments = KAFKAS_SCRIPTS.get(words[0], words[:1]) + words[1:]
        if arguments[:2] in (["server", "start"], ["storage", "format"]):
            assert on is not None
            assert (words[0] in KAFKAS_SCRIPTS) == (on in self.kafkas), f"{command}: for the program of node {on}"
        assert program == "kraft", command
        if arguments[:2] == ["server", "start"]:
            assert on is not None
            assert str(self.file_of(on)) == arguments[-1], command
            await self.start(on)
            return Ran(0, "", "")
        if arguments[:2] == ["storage", "format"]:
            assert on is not None
            self._note("format", on)
            return await self._format(*arguments, on=on)
        if "explain" in arguments:
            ran = await self.kraft(*arguments, "--json", on=on)
            self._heard(ran)
            return ran
        ran = await self.kraft(*arguments, on=on)
        assert ran.code == 0, ran
        return ran

    def _of_two(self, command: str, on: int | None) -> str:
        """Of two commands, that for the node: the comment between them says for which the second one is."""
        first, _, other = command.partition("  # or, for a ")
        kind, _, second = other.partition(": ")
        return second if second and on is not None and ("Apache Kafka" in kind) == (on in self.kafkas) else first

    async def kraft(self, *arguments: str, on: int | None = None) -> Ran:
        """Run a command in the simulated network, and on the simulated disk of that node's machine."""
        network = self.network()
        disks = self.cluster.machines
        with pytest.MonkeyPatch.context() as patch:
            for name in ("client_network", "peer_network"):
                patch.setattr(quorum_options, name, lambda *_: network)
            patch.setattr(storage, "peer_network", lambda *_: network)
            for module in (stopped_node, storage, recover):
                node_id = self._file_named(arguments) if on is None else on
                if node_id is not None:
                    patch.setattr(module, "RealDisk", lambda node_id=node_id: Unclosed(disks[node_id].disk))
            patch.setattr(trio.to_thread, "run_sync", _at_once)
            patch.setattr(explain_command, "wall_clock_ms", lambda: EPOCH_MS + round(self.cluster.now_s * 1000))
            patch.setattr("kraft_trio.cli.directory.storage._check_place", lambda *_: None)
            return await run_command(arguments)

    def network(self) -> Network:
        """As the operator sees it."""
        network = self.cluster.network.seen_from("operator")
        hosts = {self.cluster.machines[id].host: Controller(self.cluster, id, self.registered) for id in self.kafkas}
        return KafkasNetwork(network, hosts) if hosts else network

    def file_of(self, node_id: int) -> Path:
        """The configuration file of the node, as it is now."""
        path = self.directory / f"node-{node_id}.properties"
        keys = self.cluster.keys_of(node_id).items()
        own = [f"{key}={value}\n" for key, value in keys if node_id not in self.kafkas or not key.startswith("kraft.")]
        path.write_text("".join(own))
        return path

    def _file_named(self, arguments: Iterable[str]) -> int | None:
        names = {str(self.directory / f"node-{id}.properties"): id for id in self.cluster.machines}
        return next((names[one] for one in arguments if one in names), None)

    # What must be so

    async def is_whole(self) -> None:
        """A leader leads, and every voter has the values."""
        cluster = self.cluster
        await cluster.wait_for_leader()
        voters = [id for id in cluster.nodes if id in cluster.voter_ids]
        await cluster.wait_until_alike(*voters)
        values = [value.decode("utf-8", "replace") for value in self.written]
        for node_id in voters:
            assert values_of(cluster.nodes[node_id])[: len(values)] == values, node_id


class Unclosed:
    """A machine's disk, which commands close after use."""

    def __init__(self, disk: Any) -> None:
        self._disk = disk
        disk.is_attached = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def close(self) -> None:
        pass


async def _at_once(function: Any, *arguments: Any, **_: Any) -> Any:
    """Time stands still meanwhile.  In a thread, because the function may call `trio.run`."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function, *arguments).result()
