"""What a story is told with: nodes, commands, an application that writes, and what must have come of it.

Everything is printed as it happens, each command as a person would type it in the story's directory.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import textwrap
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType, TracebackType

import trio

from kraft_trio.client.admin import AdminClient
from kraft_trio.client.quorum_description import QuorumDescription
from kraft_trio.protocol.types import Endpoint, ReplicaKey
from scripts.stories.application import Application
from scripts.stories.node import KRAFT, STOP_WITHIN_S, Node, StoryError, free_ports

COMMAND_WITHIN_S = 60
WITHIN_S = 40
"""How long what a story expects may take on a busy machine; the timeouts below make it a second or two."""

TIMEOUTS = {
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "500",
}
"""Shorter than by default, so that nobody has to wait for long."""

MAX_LAG = 10
"""By how many records a replica may be behind that follows closely, while the application writes."""

NO_CHANGE: Mapping[str, str] = MappingProxyType({})


class Story:
    """One story, in a directory of its own.  Leaving the `with` block stops every node that it has started."""

    def __init__(self, home: Path, *, before_command: Callable[[], object] = lambda: None) -> None:
        """`before_command` is called after a command was shown and before it is run."""
        self.home = home
        self.nodes: dict[int, Node] = {}
        self.cluster_id = ""
        self._settings: dict[int, dict[str, str]] = {}
        self.written: list[str] = []
        """What applications have written, every record acknowledged."""
        self._before_command = before_command

    def __enter__(self) -> Story:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            node.ask_to_stop()
        deadline = time.monotonic() + STOP_WITHIN_S
        for node in self.nodes.values():
            node.wait_until_stopped(deadline)

    # Telling

    def say(self, text: str) -> None:
        print(
            "\n" + textwrap.fill(" ".join(text.split()), 110, initial_indent="== ", subsequent_indent="   "), flush=True
        )

    def kraft(self, *arguments: str, refused: bool = False) -> str:
        """Show a `kraft` command, run it, show what it prints; that.

        Raises StoryError unless it succeeds or, with `refused`, is refused with exit code 1.
        """
        self._show("kraft", *arguments)
        done = self._run(*arguments)
        output = done.stdout + done.stderr
        print(textwrap.indent(output.rstrip(), "  "), flush=True)
        if done.returncode != (1 if refused else 0):
            raise StoryError(f"kraft {shlex.join(arguments)}: exit code {done.returncode}: {output}")
        return output

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [KRAFT, *arguments], cwd=self.home, capture_output=True, text=True, timeout=COMMAND_WITHIN_S, check=False
        )

    def quorum(self, *arguments: str, refused: bool = False) -> str:
        """`kraft metadata-quorum` with the nodes that run."""
        return self.kraft("metadata-quorum", "--bootstrap-controller", self.bootstrap, *arguments, refused=refused)

    def features(self, *arguments: str, refused: bool = False) -> str:
        """`kraft features` with the nodes that run."""
        return self.kraft("features", "--bootstrap-controller", self.bootstrap, *arguments, refused=refused)

    def _show(self, *command: str) -> None:
        print(f"$ {shlex.join(command)}", flush=True)
        self._before_command()

    # Nodes

    def make_nodes(self, *node_ids: int) -> list[Node]:
        """Machines for nodes, with a port each; nothing is written yet."""
        ports = free_ports(len(node_ids))
        made = [Node(node_id, self.home, port) for node_id, port in zip(node_ids, ports, strict=True)]
        self.nodes.update({node.id: node for node in made})
        return made

    def free_endpoints(self, count: int) -> list[Endpoint]:
        """More places to listen on."""
        return [Endpoint("127.0.0.1", port) for port in free_ports(count)]

    @property
    def bootstrap(self) -> str:
        """The nodes that run, for a command line."""
        return ",".join(str(node.endpoint) for node in self.nodes.values() if node.running)

    def make_cluster_id(self) -> None:
        self.cluster_id = self.kraft("storage", "random-uuid").strip()

    def begin_with(self, voters: Collection[Node]) -> str:
        """Format nodes as the first voters of a new cluster; the text that names them."""
        self.make_cluster_id()
        ids = {node.id: self.kraft("storage", "random-uuid").strip() for node in voters}
        initial_controllers = ",".join(f"{node.id}@{node.endpoint}:{ids[node.id]}" for node in voters)
        for node in voters:
            self.format(node, "--initial-controllers", initial_controllers)
        return initial_controllers

    def configure(
        self, node: Node, properties: Mapping[str, str] = NO_CHANGE, *, without: Collection[str] = ()
    ) -> None:
        """Write the node's file, from scratch or with these keys changed, and show it or the change."""
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

    def start(self, *nodes: Node) -> None:
        for node in nodes:
            self._show("kraft", "server", "start", "-c", node.properties.name)
            node.start()
            print(f"  process {node.pid}, log {node.log.name}", flush=True)

    def stop(self, node: Node) -> None:
        """SIGTERM.  Raises StoryError where the process has to be killed."""
        self._show("kill", str(node.pid))
        node.ask_to_stop()
        if not node.wait_until_stopped(time.monotonic() + STOP_WITHIN_S):
            raise StoryError(f"{node} did not stop within {STOP_WITHIN_S} s")

    def kill(self, node: Node) -> None:
        """SIGKILL: the machine is gone."""
        self._show("kill", "-9", str(node.pid))
        node.kill()

    def lose_disk(self, node: Node) -> None:
        self._show("rm", "-r", node.directory.name)
        shutil.rmtree(node.directory)

    # The application

    @contextmanager
    def application(self, *further: Endpoint) -> Iterator[Application]:
        """It writes as long as the block lasts; then every record must have been acknowledged, and be there.

        It knows the nodes made so far, and `further` endpoints.
        """
        print("An application begins to write records, one after the other.", flush=True)
        application = Application([*(node.endpoint for node in self.nodes.values()), *further])
        application.start()
        try:
            yield application
        except BaseException:
            application.abandon()
            raise
        application.stop()
        application.check()
        self.written += [value.decode() for value in application.values]
        self.say(
            f"The application wrote {len(application.values)} records all the while: every one acknowledged, the "
            f"slowest after {application.longest_wait_s * 1000:.0f} ms, and read back once, in order."
        )

    # What must have come of it

    def describe(self) -> QuorumDescription | None:
        """What the leader says of the quorum; None while there is none."""
        endpoints = [node.endpoint for node in self.nodes.values() if node.running]
        # In a thread of its own: a signal is answered by an exception in the main one, which Trio does not survive.
        with ThreadPoolExecutor(max_workers=1) as apart:
            answer = apart.submit(trio.run, AdminClient(endpoints).describe_metadata_quorum, 1000).result()
        return answer if isinstance(answer, QuorumDescription) else None

    def until(self, what: str, holds: Callable[[QuorumDescription], bool]) -> QuorumDescription:
        """Wait until the leader describes what is expected.  Raises StoryError when that takes too long."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            described = self.describe()
            if described is not None and holds(described):
                return described
            if time.monotonic() > deadline:
                raise StoryError(f"not within {WITHIN_S} s: {what}; the leader says {described}")
            time.sleep(0.05)

    def until_in_step(
        self, *, voters: Collection[Node], gone: Collection[ReplicaKey] = (), observers: Collection[Node] = ()
    ) -> None:
        """The voters are exactly those nodes and the `gone` replicas, which no process is any more; the observers are
        known; every one of them that runs follows the leader closely.
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
        """As `until_in_step`; then show the status."""
        self.until_in_step(voters=voters, gone=gone, observers=observers)
        self.quorum("describe", "--status")

    def until_logged(self, node: Node, text: str, times: int = 1) -> None:
        """Wait until the node has logged lines with that text so many times, and show the last.  Raises StoryError."""
        deadline = time.monotonic() + WITHIN_S
        while len(lines := [line for line in node.log_text().splitlines() if text in line]) < times:
            if time.monotonic() > deadline:
                raise StoryError(f"not within {WITHIN_S} s: {text!r} in the log of {node}, {times} times")
            time.sleep(0.05)
        print(f"{node.log.name}:\n  {lines[-1]}", flush=True)

    def until_metric(self, node: Node, name: str, value: int) -> None:
        """Wait until `kraft metrics` has that value for a node, and show that line of it.  Raises StoryError."""
        command = ("metrics", "-c", node.properties.name)
        self._show("kraft", *command)
        deadline = time.monotonic() + WITHIN_S
        while True:
            output = self._run(*command).stdout
            lines = [line for line in output.splitlines() if line.split()[:1] == [name]]
            if any(line.split()[1:] == [str(value)] for line in lines):
                print(f"  …\n  {lines[0]}", flush=True)
                return
            if time.monotonic() > deadline:
                raise StoryError(f"not within {WITHIN_S} s: {name} {value} of {node}: {output}")
            time.sleep(0.2)

    def leader(self) -> Node:
        """The node that leads.  Raises StoryError where there is none for too long."""
        return self.nodes[self.until("a leader", lambda quorum: quorum.leader_id in self.nodes).leader_id]


def _keys(keys: Collection[ReplicaKey]) -> str:
    return ", ".join(sorted(map(str, keys))) or "none"
