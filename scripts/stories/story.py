"""The steps of a story: make nodes, run commands, let an application write, and wait for results.

Each step is printed as it happens, and each command as a person would type it in the story's directory.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType, TracebackType

import trio

from harness.command import kraft
from harness.node import stop_all
from harness.ports import free_ports
from harness.waiting import Overdue, wait_until
from kraft_trio.client.admin import AdminClient
from kraft_trio.client.quorum_description import QuorumDescription
from kraft_trio.protocol.types import Endpoint, ReplicaKey
from scripts.stories.application import Application
from scripts.stories.node import Node, StoryError

COMMAND_WITHIN_S = 120
STOP_WITHIN_S = 60
WITHIN_S = 120
"""Limit for each wait, for a busy machine; with the timeouts below, most waits take a second or two."""

TIMEOUTS = {
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "3000",
    "controller.quorum.election.backoff.max.ms": "500",
}
"""Elections are quick, and a busy machine is not taken for a lost leader."""

MAX_LAG = 10
"""The lag, in records, of a replica that follows closely while the application writes."""

NO_CHANGE: Mapping[str, str] = MappingProxyType({})


class Story:
    """One story, in its own directory.  Leaving the `with` block stops all its nodes."""

    def __init__(self, home: Path, *, before_command: Callable[[], object] = lambda: None) -> None:
        """`before_command` is called between showing a command and running it."""
        self.home = home
        self.nodes: dict[int, Node] = {}
        self.cluster_id = ""
        self._settings: dict[int, dict[str, str]] = {}
        self.written: list[str] = []
        """The records that applications have written; each was acknowledged."""
        self._before_command = before_command

    def __enter__(self) -> Story:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        stop_all(self.nodes.values(), STOP_WITHIN_S)

    # Telling

    def say(self, text: str) -> None:
        print(
            "\n" + textwrap.fill(" ".join(text.split()), 110, initial_indent="== ", subsequent_indent="   "), flush=True
        )

    def show(self, text: str) -> None:
        print(textwrap.indent(text, "  "), flush=True)

    def kraft(self, *arguments: str, refused: bool = False) -> str:
        """Show a `kraft` command, run it, show its output and return that.

        Raises StoryError unless it succeeds or, with `refused`, fails with exit code 1.
        """
        self.show_command("kraft", *arguments)
        done = self._run(*arguments)
        output = done.stdout + done.stderr
        self.show(output.rstrip())
        if done.returncode != (1 if refused else 0):
            raise StoryError(f"kraft {shlex.join(arguments)}: exit code {done.returncode}: {output}")
        return output

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return kraft(*arguments, seconds=COMMAND_WITHIN_S, cwd=self.home)

    def quorum(self, *arguments: str, refused: bool = False) -> str:
        """Run `kraft metadata-quorum` against the running nodes."""
        return self.kraft("metadata-quorum", "--bootstrap-controller", self.bootstrap, *arguments, refused=refused)

    def features(self, *arguments: str, refused: bool = False) -> str:
        """Run `kraft features` against the running nodes."""
        return self.kraft("features", "--bootstrap-controller", self.bootstrap, *arguments, refused=refused)

    def show_command(self, *command: str) -> None:
        """Show a command that the caller is about to run."""
        print(f"$ {shlex.join(command)}", flush=True)
        self._before_command()

    # Nodes

    def make_nodes(self, *node_ids: int) -> list[Node]:
        """Choose a port and a directory for each node; write nothing yet."""
        ports = free_ports(len(node_ids))
        made = [Node(node_id, self.home, port) for node_id, port in zip(node_ids, ports, strict=True)]
        self.nodes.update({node.id: node for node in made})
        return made

    def free_endpoints(self, count: int) -> list[Endpoint]:
        """Return further endpoints to listen on."""
        return [Endpoint("127.0.0.1", port) for port in free_ports(count)]

    @property
    def bootstrap(self) -> str:
        """The endpoints of the running nodes, for a command line."""
        return ",".join(str(node.endpoint) for node in self.nodes.values() if node.running)

    def make_cluster_id(self) -> None:
        self.cluster_id = self.kraft("storage", "random-uuid").strip()

    def begin_with(self, voters: Collection[Node]) -> str:
        """Format nodes as the initial voters of a new cluster; return the value of --initial-controllers."""
        self.make_cluster_id()
        ids = {node.id: self.kraft("storage", "random-uuid").strip() for node in voters}
        initial_controllers = ",".join(f"{node.id}@{node.endpoint}:{ids[node.id]}" for node in voters)
        for node in voters:
            self.format(node, "--initial-controllers", initial_controllers)
        return initial_controllers

    def configure(
        self, node: Node, properties: Mapping[str, str] = NO_CHANGE, *, without: Collection[str] = ()
    ) -> None:
        """Write the node's configuration file, or change these keys, and show the file or the change."""
        is_new = node.id not in self._settings
        settings = self._settings.setdefault(
            node.id,
            {
                "node.id": str(node.id),
                "process.roles": "controller",
                "listeners": f"CONTROLLER://{node.endpoint}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.bootstrap.servers": ",".join(str(other.endpoint) for other in self.nodes.values()),
                "metadata.log.dir": node.directory.name,
            },
        )
        settings.update(properties)
        for key in without:
            del settings[key]
        node.write_properties({**settings, **TIMEOUTS})
        print(f"{node.properties.name}:" if is_new else f"{node.properties.name}, changed:")
        for key in without:
            print(f"  (no {key})")
        for key, value in (settings if is_new else properties).items():
            print(f"  {key}={value}", flush=True)

    def format(self, node: Node, *flags: str) -> None:
        if node.id not in self._settings:
            self.configure(node)
        self.kraft("storage", "format", "-t", self.cluster_id, "-c", node.properties.name, *flags)

    def three_voters(self, nodes: Sequence[Node]) -> None:
        """Begin with a running quorum of these."""
        self.say("A quorum of three voters.")
        self.begin_with(nodes)
        self.start(*nodes)

    def follow(self, *nodes: Node) -> None:
        """Format nodes without voters, and start them: they follow as observers."""
        for node in nodes:
            self.format(node, "--no-initial-controllers")
        self.start(*nodes)

    def start(self, *nodes: Node) -> None:
        for node in nodes:
            self.show_command("kraft", "server", "start", "-c", node.properties.name)
            node.start()
            node.wait_until_listening()
            print(f"  process {node.pid}, log {node.log.name}", flush=True)

    def stop(self, node: Node) -> None:
        """Send SIGTERM.  Raises StoryError if the process does not stop in time."""
        self.show_command("kill", str(node.pid))
        if stop_all([node], STOP_WITHIN_S):
            raise StoryError(f"{node} did not stop within {STOP_WITHIN_S} s")

    def kill(self, node: Node) -> None:
        """Send SIGKILL, as if the machine were gone."""
        self.show_command("kill", "-9", str(node.pid))
        node.kill()

    def lose_leader(self, leader: Node) -> None:
        """Kill the leader, and wait for another one."""
        self.kill(leader)
        self.until("another leader", lambda quorum: quorum.leader_id != leader.id)

    def lose_disk(self, node: Node) -> None:
        """Kill the node, and remove what it has stored."""
        self.kill(node)
        self.show_command("rm", "-r", node.directory.name)
        shutil.rmtree(node.directory)

    # The application

    @contextmanager
    def application(self, *further: Endpoint) -> Iterator[Application]:
        """Run an application that writes as long as the block lasts.

        Afterwards every record must have been acknowledged and must be in the log.  The application knows the nodes
        made so far and the `further` endpoints.
        """
        print("An application begins to write records, one after the other.", flush=True)
        with Application([*(node.endpoint for node in self.nodes.values()), *further]) as application:
            yield application
        application.check()
        self.written += [value.decode() for value in application.values]
        self.say(
            f"The application wrote {len(application.values)} records all the while: every one acknowledged, the "
            f"slowest after {application.longest_wait_s * 1000:.0f} ms, and read back once, in order."
        )

    # Results

    def describe(self) -> QuorumDescription | None:
        """Return the leader's description of the quorum, or None if there is no leader."""
        endpoints = [node.endpoint for node in self.nodes.values() if node.running]
        # In another thread: a signal raises KeyboardInterrupt in the main thread, and Trio does not survive that.
        with ThreadPoolExecutor(max_workers=1) as apart:
            answer = apart.submit(trio.run, AdminClient(endpoints).describe_metadata_quorum, 1000).result()
        return answer if isinstance(answer, QuorumDescription) else None

    def until(self, what: str, holds: Callable[[QuorumDescription], bool]) -> QuorumDescription:
        """Wait until `holds` is true of the leader's description, and return it.  Raises StoryError."""
        described: QuorumDescription | None = None

        def find() -> QuorumDescription | None:
            nonlocal described
            described = self.describe()
            return described if described is not None and holds(described) else None

        try:
            return wait_until(what, find, WITHIN_S)
        except Overdue as error:
            raise StoryError(f"{error}; the leader says {described}") from error

    def until_in_step(
        self, *, voters: Collection[Node], gone: Collection[ReplicaKey] = (), observers: Collection[Node] = ()
    ) -> None:
        """Wait until the voters are exactly these nodes and the `gone` replicas, whose processes have ended.

        The leader must know the observers, and every running node must follow it closely.
        """
        expected = {node.key for node in voters} | set(gone)
        watching = {node.key for node in observers}
        alive = {node.key for node in (*voters, *observers) if node.running}

        def holds(quorum: QuorumDescription) -> bool:
            lags = {state.key: quorum.lag(state) for state in (*quorum.voters, *quorum.observers)}
            in_step = all(key in lags and 0 <= lags[key] <= MAX_LAG for key in alive | watching)
            return in_step and {state.key for state in quorum.voters} == expected

        self.until(f"voters {_keys(expected)}, observers {_keys(watching)}, in step", holds)

    def expect(
        self, *, voters: Collection[Node], gone: Collection[ReplicaKey] = (), observers: Collection[Node] = ()
    ) -> None:
        """Call `until_in_step`, then show the status."""
        self.until_in_step(voters=voters, gone=gone, observers=observers)
        self.quorum("describe", "--status")

    def until_logged(self, node: Node, text: str, times: int = 1) -> None:
        """Wait until the node has logged that many lines with the text, and show the last.  Raises Overdue."""

        def find() -> list[str] | None:
            lines = [line for line in node.log_text().splitlines() if text in line]
            return lines if len(lines) >= times else None

        lines = wait_until(f"{text!r} in the log of {node}, {times} times", find, WITHIN_S)
        print(f"{node.log.name}:\n  {lines[-1]}", flush=True)

    def until_metric(self, node: Node, name: str, value: int) -> None:
        """Wait until `kraft metrics` shows that value for a node, and show the line.  Raises Overdue."""
        command = ("metrics", "-c", node.properties.name)
        self.show_command("kraft", *command)

        def find() -> str | None:
            lines = [line for line in self._run(*command).stdout.splitlines() if line.split()[:1] == [name]]
            return lines[0] if any(line.split()[1:] == [str(value)] for line in lines) else None

        line = wait_until(f"{name} {value} of {node}", find, WITHIN_S, 0.2)
        print(f"  …\n  {line}", flush=True)

    def leader(self) -> Node:
        """Return the leader.  Raises StoryError if there is no leader for too long."""
        return self.nodes[self.until("a leader", lambda quorum: quorum.leader_id in self.nodes).leader_id]


def _keys(keys: Collection[ReplicaKey]) -> str:
    return ", ".join(sorted(map(str, keys))) or "none"
