"""A whole cluster in one process, under virtual time: real nodes, simulated network and disks, one seed for all.

`simulate` runs a function against a Cluster; the invariants are checked at every step of it.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
import trio

from kraft_trio.actors.state_machine_driver import OnCommit
from kraft_trio.application.serde import Serde
from kraft_trio.application.state_machine import StateMachine
from kraft_trio.client.log_client import LogClient
from kraft_trio.config import NodeConfig, parse_config
from kraft_trio.node import Node
from kraft_trio.protocol.roles import Leader
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey, VersionRange
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation.clients.administrator import Administrator
from kraft_trio.simulation.deterministic import run_deterministically
from kraft_trio.simulation.facts.history import History, Operation
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.invariants import INVARIANTS, Invariant
from kraft_trio.simulation.invariants.checker import Checker
from kraft_trio.simulation.machine import EPOCH_MS, Machine
from kraft_trio.simulation.network.message import Message
from kraft_trio.simulation.network.simulated_network import SimulatedNetwork
from kraft_trio.simulation.observing import captured_logs
from kraft_trio.simulation.survivability import Outlook
from kraft_trio.simulation.violation import InvariantViolated, Violation
from kraft_trio.tracing.events import NO_STATE, NodeState, Trace

if TYPE_CHECKING:
    from kraft_trio.simulation.clients.workload import Workload

T = TypeVar("T")

CLUSTER_ID: Final = "simulated-cluster-0000"
LISTENER: Final = "CONTROLLER"
OWN_KEYS: Final = frozenset(
    {
        "node.id",
        "process.roles",
        "listeners",
        "advertised.listeners",
        "controller.listener.names",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "metadata.log.dir",
        "log.dir",
        "log.dirs",
    }
)
"""The configuration that the cluster gives each node by itself."""
PORT: Final = 9093
REPORTED_EVENTS: Final = 60
"""How many of the last events of the nodes concerned the report of a violation has."""

LOOK_EVERY_S: Final = 0.01
"""How often a condition of `wait_until` is looked at, in virtual time."""


@attrs.frozen(kw_only=True)
class Setup:
    """What a simulated cluster is made of.  Raises ValueError for ids that clash, or no voter."""

    seed: int = 0
    voters: int | tuple[int, ...] = 3
    """Ids of the initial voters, or how many there are (then from 1 on)."""
    observers: int | tuple[int, ...] = 0
    """Ids of the observers, or how many there are (then from the highest voter's on)."""
    settings: Mapping[str, str] = attrs.field(factory=dict)
    """Configuration of every node, by key as in a `.properties` file."""
    kraft_version: int = attrs.field(default=1, validator=attrs.validators.in_((0, 1)))
    """0: the voters are named by `controller.quorum.voters`; 1: by the bootstrap checkpoint, with directory ids."""
    started: tuple[int, ...] | None = None
    """Ids of the nodes that run from the beginning, all by default; `Machine.start` starts another."""
    invariants: tuple[type[Invariant], ...] = INVARIANTS
    """What is checked; fewer where the test itself does what they forbid, as forging requests."""
    on_commit: Callable[[int], OnCommit] | None = None
    """Makes a node's state machine, for each process anew: given the node's id, what is awaited with each batch."""
    state_machine: Callable[[int], StateMachine] | None = None
    """The same for one that has snapshots, too: then nodes take them, and trim their logs."""
    serde: Serde | None = None

    def __attrs_post_init__(self) -> None:
        ids = (*self.voter_ids, *self.observer_ids)
        if not self.voter_ids:
            raise ValueError("voters: none given, at least one expected")
        if len(set(ids)) != len(ids) or min(ids) < 0:
            raise ValueError(
                f"voters {self.voter_ids}, observers {self.observer_ids}: expected each id once, from 0 on"
            )
        if self.started is not None and not set(self.started) <= set(ids):
            raise ValueError(f"started {self.started}: expected ids of voters or observers, which are {ids}")

    @property
    def voter_ids(self) -> tuple[int, ...]:
        return _ids(self.voters, 1)

    @property
    def observer_ids(self) -> tuple[int, ...]:
        return _ids(self.observers, max(self.voter_ids, default=0) + 1)


def _ids(given: int | tuple[int, ...], first: int) -> tuple[int, ...]:
    return tuple(range(first, first + given)) if isinstance(given, int) else tuple(given)


class Cluster:
    """The world: machines by node id, the network between them, one clock, and what watches over it.

    Made by `simulate`, which also starts every machine.  Whatever is random in it comes from the seed, by streams with
    names of their own, so that one part can change what it draws without changing every other.
    """

    def __init__(self, setup: Setup) -> None:
        """Use `simulate`."""
        self.setup = setup
        self.cluster_id = CLUSTER_ID
        self.voter_ids = setup.voter_ids
        self.observer_ids = setup.observer_ids
        self._began_at_s = trio.current_time()
        self._configs: dict[int, NodeConfig] = {}
        self.trace = Trace(lambda: round(self.now_s * 1_000_000), self._state_of)
        self.violation: Violation | None = None
        self.workload: Workload | None = None
        """The clients of the run, where somebody has set some to work."""
        self.is_fair = False
        """Whether disks, voters and addresses that the quorum could never do without are left alone."""
        self.administrator = Administrator(self)
        self.outlook = Outlook(self)
        self._moves: dict[int, int] = {}
        self.message_listeners: list[Callable[[Message], object]] = []
        """Told of every message that is sent, and again when it is delivered."""
        self.replicas: list[Replica] = []
        """Every incarnation that there has been, in the order of their making."""
        self.checker = Checker(self, setup.invariants)
        self.history = History(lambda: self.now_s, self._operation_told)
        """What clients asked for, and what became of it."""
        self.network = SimulatedNetwork(self.random("network"), on_message=self._message)
        self.machines = {node_id: Machine(self, node_id) for node_id in (*self.voter_ids, *self.observer_ids)}
        self._nursery: trio.Nursery | None = None
        keys = {node_id: machine.new_key() for node_id, machine in self.machines.items()}
        self.initial_voters = VoterSet(
            Voter(keys[node_id], Endpoints({LISTENER: self.endpoint_of(node_id)}), VersionRange(0, 1))
            for node_id in self.voter_ids
        )
        for node_id, machine in self.machines.items():
            machine.format(keys[node_id], with_voters=node_id in self.voter_ids)

    # The world's own

    def random(self, name: str) -> random.Random:
        """A stream of random numbers of that name; every call gives one that begins anew."""
        return random.Random(f"{self.setup.seed}/{name}")

    @property
    def now_s(self) -> float:
        """Virtual seconds since the run began."""
        return trio.current_time() - self._began_at_s

    @property
    def nursery(self) -> trio.Nursery:
        """Where processes run.  They end with the run."""
        assert self._nursery is not None, "the cluster is not running"
        return self._nursery

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Cluster]:
        """Run the machines until the block is left, or an invariant is violated; InvariantViolated in that case."""
        with captured_logs(self):
            async with trio.open_nursery() as self._nursery:
                for node_id in sorted(self.machines if self.setup.started is None else self.setup.started):
                    await self.machines[node_id].start()
                yield self
                self._end_run()
        if self.violation is not None:
            raise self.report(self.violation) from None

    def violate(self, violation: Violation) -> None:
        """Note a violation; the first one ends the run."""
        if self.violation is not None:
            return
        self.violation = violation
        self.trace.record("violation", cause=violation.title, facts=list(violation.facts), nodes=list(violation.nodes))
        self._end_run()

    def _end_run(self) -> None:
        """Cancel everything, paused processes included: a held task never hears of a cancellation."""
        for machine in self.machines.values():
            machine.resume()
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    def report(self, violation: Violation) -> InvariantViolated:
        """The violation with what led to it."""
        events = self.trace.last_events(violation.nodes, REPORTED_EVENTS)
        return InvariantViolated(violation, seed=self.setup.seed, last_events=events)

    def bug(self, what: str, nodes: Collection[int], error: BaseException | None = None) -> None:
        """A node has done what no fault explains: a violation of no invariant in particular."""
        where = "".join(traceback.format_exception(error)) if error is not None else ""
        facts = (what, f"nothing was done to it\n{where}".rstrip())
        self.violate(Violation(0, "nodes fail only by what is done to them", self.now_s, facts, tuple(nodes)))

    def _message(self, message: Message) -> None:
        for listener in self.message_listeners:
            listener(message)
        what = "delivered" if message.delivered else "sent"
        moment = f"{self.now_s:.6f} {what} {message.source} {message.target} {message.connection} "
        self.trace.fold(moment.encode() + message.raw)
        if self.trace.records_messages:
            self.trace.record(
                "message",
                cause=what,
                source=message.source,
                target=message.target,
                connection=message.connection,
                api=message.api.name if message.api is not None else str(message.api_key),
                request=message.is_request,
                correlation_id=message.correlation_id,
                bytes=len(message.raw),
            )
        if message.delivered:
            self.checker.message_delivered(message)
        else:
            self.checker.message_sent(message)

    def _operation_told(self, operation: Operation) -> None:
        self.trace.record(
            "operation",
            cause=operation.problem,
            client=operation.client,
            number=operation.number,
            operation=operation.kind,
            outcome=operation.outcome,
            offsets=list(operation.offsets),
            via=operation.via,
            linearizable=operation.is_linearizable,
            from_offset=operation.from_offset,
            end_offset=operation.end_offset,
        )
        self.checker.operation(operation)

    # Looking

    @property
    def nodes(self) -> dict[int, Node]:
        """The nodes that run, by id, ascending."""
        return {id: machine.node for id, machine in sorted(self.machines.items()) if machine.node is not None}

    def leader(self) -> Node | None:
        """The node that leads the highest epoch among those that run and are not paused, if any does."""
        leaders = [
            node
            for id, node in self.nodes.items()
            if isinstance(node.view.role, Leader) and not self.machines[id].is_paused
        ]
        return max(leaders, key=lambda node: node.view.epoch, default=None)

    def others(self, node: Node) -> list[Node]:
        """The initial voters that run, but this one, by id."""
        return [other for id, other in self.nodes.items() if other is not node and id in self.voter_ids]

    def key_of(self, node_id: int) -> ReplicaKey:
        """Of the incarnation that machine's disk is formatted as.  Raises KeyError."""
        replica = self.machines[node_id].replica
        assert replica is not None, f"node {node_id} is not formatted"
        return replica.key

    def replica_of(self, key: ReplicaKey) -> Replica:
        """The incarnation of that key.  Raises KeyError."""
        for replica in self.replicas:
            if replica.key == key:
                return replica
        raise KeyError(key)

    def endpoint_of(self, node_id: int) -> Endpoint:
        """Where that node listens, or will from its next start on."""
        return Endpoint(f"node-{node_id}", PORT + self._moves.get(node_id, 0))

    def move(self, node_id: int) -> None:
        """Give a node another port from its next start on; each process begins with the addresses as they are then."""
        self._moves[node_id] = self._moves.get(node_id, 0) + 1
        self._configs.clear()

    @property
    def bootstrap_servers(self) -> list[Endpoint]:
        """The addresses that clients begin with: those that the nodes do, the initial voters' if not said otherwise."""
        configured = self.config_of(self.voter_ids[0]).quorum_bootstrap_servers
        return list(configured) or [self.endpoint_of(node_id) for node_id in self.voter_ids]

    def config_of(self, node_id: int) -> NodeConfig:
        """What a node is configured with, drift of its clock aside."""
        config = self._configs.get(node_id)
        if config is None:
            config = self._configs[node_id] = self._make_config(node_id)
        return config

    def _make_config(self, node_id: int) -> NodeConfig:
        is_static = self.setup.kraft_version == 0
        if is_static:
            named = [f"{id}@{self.endpoint_of(id)}" for id in self.voter_ids]
        else:
            # Of the voters at first perhaps none is left one day.
            named = [str(self.endpoint_of(id)) for id in (*self.voter_ids, *self.observer_ids)]
        is_voter = node_id in self.voter_ids
        return parse_config(
            {
                "node.id": str(node_id),
                "process.roles": "controller" if is_voter or not is_static else "broker",
                "listeners": f"{LISTENER}://{self.endpoint_of(node_id)}",
                "controller.listener.names": LISTENER,
                "controller.quorum.voters" if is_static else "controller.quorum.bootstrap.servers": ",".join(named),
                "metadata.log.dir": "/data",
                "kraft.metrics.interval.ms": "0",
                **self.setup.settings,
            }
        ).config

    def _state_of(self, node_id: int) -> NodeState:
        machine = self.machines.get(node_id)
        replica = machine.replica if machine is not None else None
        if replica is None:
            return NO_STATE
        return NodeState.of(replica.view, replica.log_end, replica.synced_end, replica.high_watermark)

    def client(self, name: str = "client", **settings: object) -> LogClient:
        """A client on a host of its own, "client-<name>", that knows the voters' addresses; close it as any other."""
        return LogClient(
            self.bootstrap_servers,
            client_id=name,
            network=self.network.seen_from(f"client-{name}"),
            random_source=self.random(f"client-{name}"),
            wall_clock_ms=lambda: EPOCH_MS + round(self.now_s * 1000),
            **settings,  # type: ignore[arg-type]
        )

    # Waiting, in virtual time

    async def wait_until(self, condition: Callable[[], bool], *, within_s: float = 60.0) -> None:
        """Wait for the condition to hold, which is looked at often.  TooSlowError after `within_s`."""
        with trio.fail_after(within_s):
            while not condition():  # noqa: ASYNC110  nobody tells of a condition over several nodes
                await trio.sleep(LOOK_EVERY_S)

    async def wait_for_leader(self, *, other_than: Node | None = None, within_s: float = 60.0) -> Node:
        """A leader that has committed in its epoch, and that is not the process given.  TooSlowError after `within_s`.

        The leader of the highest epoch counts, whoever else believes to lead.
        """

        def leads() -> bool:
            leader = self.leader()
            return (
                leader is not None and leader is not other_than and self.replica_of(leader.key).has_committed_in_epoch
            )

        await self.wait_until(leads, within_s=within_s)
        leader = self.leader()
        assert leader is not None
        return leader

    async def wait_until_alike(self, *node_ids: int, within_s: float = 60.0) -> None:
        """Wait until these nodes' logs, by default those of all that run, are equal, durable and wholly committed."""

        def alike() -> bool:
            nodes = self.nodes
            logs = [node.log for id, node in nodes.items() if not node_ids or id in node_ids]
            ends = {(log.end, log.synced_end_offset, log.high_watermark) for log in logs}
            return len(ends) == 1 and all(log.high_watermark == log.end_offset for log in logs)

        await self.wait_until(alike, within_s=within_s)

    # The network's faults, by node id

    def partition(self, *groups: Iterable[int], silent: bool = False) -> None:
        """Let nodes reach only nodes of their own group; a `silent` partition resets no connection, it stalls them."""
        self.network.partition(*([f"node-{id}" for id in group] for group in groups), silent=silent)

    def heal(self) -> None:
        """End every partition and every fault of a link."""
        self.network.heal()


def simulate(main: Callable[[Cluster], Awaitable[T]], setup: Setup | None = None, **fields: object) -> T:
    """Run `main` against a cluster of whole nodes, started already, in virtual time; returns what it returns.

    `fields` are those of Setup, where none is given.  The same seed gives the same run.  Raises InvariantViolated when
    an invariant does not hold, wherever that comes to light, and otherwise what `main` raises.
    """
    chosen = setup if setup is not None else Setup(**fields)  # type: ignore[arg-type]

    async def run() -> T:
        failure: BaseException | None = None
        async with Cluster(chosen).running() as cluster:
            try:
                result = await main(cluster)
            except trio.Cancelled:
                raise
            except BaseException as error:
                # Held back, so that it comes out by itself, and not at all where a violation is the cause.
                failure = error
        if failure is not None:
            raise failure
        return result

    return run_deterministically(run, seed=chosen.seed)
