"""What all parts of one run share: its clock, randomness, network, configuration, trace, facts and checker."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Collection
from typing import Final, cast

import trio

from kraft_trio.actors.context.restored_voters import OLD_COPY
from kraft_trio.application.state_machine import BatchStateMachine, StateMachine
from kraft_trio.client.log_client import LogClient
from kraft_trio.config import NodeConfig, parse_config
from kraft_trio.messages import QuorumView
from kraft_trio.node import Node
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey, VersionRange
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation.commands.agreement import Agreement
from kraft_trio.simulation.commands.checked_machine import CheckedMachine, checked
from kraft_trio.simulation.deterministic import current_time
from kraft_trio.simulation.facts.history import History, Operation
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.invariants.checker import Checker
from kraft_trio.simulation.network.message import Message
from kraft_trio.simulation.network.simulated_network import SimulatedNetwork
from kraft_trio.simulation.setup import CLUSTER_ID, LISTENER, PORT, Setup
from kraft_trio.simulation.violation import InvariantViolated, Violation
from kraft_trio.storage.directory.directory import random_directory_id
from kraft_trio.tracing.events import NO_STATE, NodeState, Trace, TraceEvent

REST_ON_PROMISES: Final = frozenset({1, 2, 3, 4, 5, 7, 8, 9, 19, 21, 25})
"""The invariants that hold only while every voter keeps what it acknowledged, and how it voted."""

LOSSES_TOLD: Final = frozenset({OLD_COPY, "committed records truncated", "truncation of committed records refused"})
"""The lines in which a node says that records are, or may be, lost."""

REPORTED_EVENTS: Final = 60
"""How many of the last events of the nodes concerned the report of a violation shows."""

DEAD_PORT: Final = 9
"""Where no node ever listens."""

EPOCH_MS: Final = 1_700_000_000_000
"""The time on every wall clock, in milliseconds since 1970, when a run begins."""


class World:
    """Everything in a run except the machines, which use it.

    All randomness comes from the seed, in streams with names of their own.  One part can then draw more numbers without
    changing those of another part.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.cluster_id = CLUSTER_ID
        self.voter_ids = setup.voter_ids
        self.observer_ids = setup.observer_ids
        self.node_ids = (*self.voter_ids, *self.observer_ids)
        self.began_at_s: Final = current_time()
        """Trio's time when the run began."""
        self._configs: dict[int, NodeConfig] = {}
        self._moves: dict[int, int] = {}
        self._static_voters: dict[int, tuple[int, ...]] = {}
        """By node, the static voters that its configuration file has been changed to."""
        self._written_keys: dict[int, dict[str, str]] = {}
        self._is_upgraded = False
        self._misadvertised: set[int] = set()
        self.has_stable_names = False
        """Whether new clients are given the nodes' stable endpoints."""
        self._nursery: trio.Nursery | None = None
        self.violation: Violation | None = None
        """The first violation, which ends the run."""
        self.running_nodes: dict[int, Node] = {}
        """By id, the nodes that have opened their directory; machines add and remove their own."""
        self.agreement: Agreement | None = None
        """What the replicas of a state machine that is checked agree on."""
        make = setup.state_machine
        if setup.checks_machine and make is not None:
            self.agreement = Agreement(lambda: make(0), self.violate)
        self.checked_machines: dict[int, CheckedMachine] = {}
        """By id, the state machine of the node's last process, if it is checked."""
        self.message_listeners: list[Callable[[Message], object]] = []
        """Each is called with every message when it is sent, and again when it is delivered."""
        self.initial_voters = VoterSet(
            Voter(self.new_key(node_id, 0), Endpoints({LISTENER: self.endpoint_of(node_id)}), VersionRange(0, 1))
            for node_id in self.voter_ids
        )
        self._seen: dict[int, tuple[QuorumView, tuple[int, str, int | None], tuple[int, ...]]] = {}
        """By node id, the last view of which a state was told, with the parts of a state that come from it."""
        self.trace = Trace(self._now_us, self._state_of)
        self.told_losses: list[TraceEvent] = []
        """The lines in which nodes say that records are, or may be, lost."""
        self.trace.listeners.append(self._note_told)
        self.history = History(lambda: self.now_s, self._operation_changed, self._end_of_values)
        """What clients asked for, and what they were told."""
        self.facts = RunFacts(
            self.cluster_id, setup.kraft_version, self.initial_voters, self.history, frozenset(setup.witnesses)
        )
        self.checker = Checker(self.facts, self.violate, setup.invariants)
        self.network = SimulatedNetwork(self.random("network"), on_message=self._message)
        self.network.services = {self.stable_endpoint_of(id): self.endpoint_of(id) for id in self.node_ids}

    # Time, chance, tasks

    def random(self, name: str) -> random.Random:
        """The stream of random numbers with that name.  Each call returns it from its start."""
        return random.Random(f"{self.setup.seed}/{name}")

    @property
    def now_s(self) -> float:
        """Virtual seconds since the run began."""
        return current_time() - self.began_at_s

    def _now_us(self) -> int:
        return round((current_time() - self.began_at_s) * 1_000_000)

    @property
    def nursery(self) -> trio.Nursery:
        """Where processes and clients run.  They end with the run."""
        assert self._nursery is not None, "the cluster is not running"
        return self._nursery

    # Nodes

    @property
    def nodes(self) -> dict[int, Node]:
        """The nodes that run, by id, ascending."""
        return dict(sorted(self.running_nodes.items()))

    def new_key(self, node_id: int, number: int) -> ReplicaKey:
        """The replica key of the node's disk with that number, from 0."""
        return ReplicaKey(node_id, random_directory_id(self.random(f"directory-{node_id}-{number}")))

    def key_of(self, node_id: int) -> ReplicaKey:
        """The key of the incarnation that the node's disk is formatted as.  Raises KeyError."""
        return self.facts.present[node_id].key

    def replica_of(self, key: ReplicaKey) -> Replica:
        """The incarnation of that key.  Raises KeyError."""
        return self.facts.replica_of(key)

    def endpoint_of(self, node_id: int) -> Endpoint:
        """Where that node listens, or will after its next start."""
        return Endpoint(f"node-{node_id}", PORT + self._moves.get(node_id, 0))

    @staticmethod
    def stable_endpoint_of(node_id: int) -> Endpoint:
        """An address that leads to the node wherever it listens."""
        return Endpoint(f"controller-{node_id}", PORT)

    def known_endpoint_of(self, node_id: int) -> Endpoint:
        """The address of the node that a new client is given."""
        return self.stable_endpoint_of(node_id) if self.has_stable_names else self.endpoint_of(node_id)

    def move(self, node_id: int) -> None:
        """Give a node another port from its next start on.  Each process is configured with the addresses at its
        start; only stable endpoints follow."""
        self._moves[node_id] = self._moves.get(node_id, 0) + 1
        self._configs.clear()
        self.network.services[self.stable_endpoint_of(node_id)] = self.endpoint_of(node_id)

    def write_static_voters(self, node_id: int, voter_ids: tuple[int, ...]) -> None:
        """Write these voters into the configuration file of a node, for its next start (kraft.version 0)."""
        self._static_voters[node_id] = voter_ids
        self._configs.pop(node_id, None)

    def write_keys(self, node_id: int, **keys: str) -> None:
        """Write keys into the configuration file of a node, for its next start, with _ for each dot; empty ones go."""
        self._written_keys.setdefault(node_id, {}).update({key.replace("_", "."): keys[key] for key in keys})
        self._configs.pop(node_id, None)

    def note_upgrade(self) -> None:
        """Make controllers of the observers of static voters, for their next start: the voters are in the log now."""
        self._is_upgraded = True
        self._configs.clear()

    def has_other_static_voters(self, node_id: int) -> bool:
        """Whether the static voters in the node's configuration file have been changed."""
        return self._static_voters.get(node_id, self.voter_ids) != self.voter_ids

    def misadvertise(self, node_ids: Collection[int], *, end: bool = False) -> None:
        """Have nodes announce an address where nobody listens, or end that, from their next start on."""
        self._misadvertised = self._misadvertised.difference(node_ids) if end else self._misadvertised.union(node_ids)
        self._configs.clear()

    @property
    def has_moves(self) -> bool:
        """Whether a node ever was given another address."""
        return bool(self._moves)

    @property
    def has_gossip(self) -> bool:
        """Whether voters find each other after they have moved."""
        return self.config_of(self.voter_ids[0]).voter_gossip

    @property
    def bootstrap_servers(self) -> list[Endpoint]:
        """The addresses that clients begin with: the nodes' bootstrap servers, else the initial voters."""
        ids = self.node_ids if self.setup.kraft_version else self.voter_ids
        return [self.known_endpoint_of(node_id) for node_id in ids]

    def config_of(self, node_id: int) -> NodeConfig:
        """The configuration of a node, apart from the drift of its clock."""
        config = self._configs.get(node_id)
        if config is None:
            config = self._configs[node_id] = self._make_config(node_id)
        return config

    def _make_config(self, node_id: int) -> NodeConfig:
        return parse_config(self.keys_of(node_id)).config

    def keys_of(self, node_id: int) -> dict[str, str]:
        """The keys of the node's configuration file, for its next start."""
        voter_ids = self._static_voters.get(node_id, self.voter_ids)
        is_voter = node_id in voter_ids
        is_static = self.setup.kraft_version == 0 and (is_voter or not self._is_upgraded)
        if is_static:
            named = [f"{id}@{self.endpoint_of(id)}" for id in voter_ids]
        else:
            # The initial voters may all have left the quorum one day, so the observers are named too.
            named = [str(self.endpoint_of(id)) for id in self.node_ids]
        dead = Endpoint(f"node-{node_id}", DEAD_PORT) if node_id in self._misadvertised else None
        keys = {
            "node.id": str(node_id),
            "process.roles": "controller" if is_voter or not is_static else "broker",
            "listeners": f"{LISTENER}://{self.endpoint_of(node_id)}",
            **({"advertised.listeners": f"{LISTENER}://{dead}"} if dead is not None else {}),
            "controller.listener.names": LISTENER,
            "controller.quorum.voters" if is_static else "controller.quorum.bootstrap.servers": ",".join(named),
            "metadata.log.dir": "/data",
            "kraft.metrics.interval.ms": "0",
            "kraft.log.preallocate.bytes": "0",  # A full disk is full for the next append, too.
            "kraft.witness": str(node_id in self.setup.witnesses).lower(),
            **self.setup.settings,
            **self._written_keys.get(node_id, {}),
        }
        return {key: value for key, value in keys.items() if value or key not in self._written_keys.get(node_id, {})}

    def new_state_machine(self, node_id: int) -> StateMachine | BatchStateMachine | None:
        """The state machine for the next process of that node."""
        if self.setup.state_machine is None:
            return None
        machine = self.setup.state_machine(node_id)
        if self.agreement is None:
            return machine
        checked_machine = checked(cast(StateMachine, machine), node_id, self.agreement, self.violate)
        self.checked_machines[node_id] = checked_machine
        return cast(StateMachine, checked_machine)

    def compare_machines(self) -> None:
        """Compare the states that are the newest now, and check what else is known only at the end."""
        if self.agreement is None:
            return
        for node_id in self.nodes:
            machine = self.checked_machines[node_id]
            if machine.applied_offset == self.agreement.newest_offset:
                machine.compare()
        self.agreement.finished()

    def client(self, name: str = "client", **settings: object) -> LogClient:
        """A client on the host "client-NAME" that knows the bootstrap servers.  The caller closes it."""
        return LogClient(
            self.bootstrap_servers,
            topic_name=self.config_of(self.voter_ids[0]).topic_name,
            client_id=name,
            network=self.network.seen_from(f"client-{name}"),
            random_source=self.random(f"client-{name}"),
            wall_clock_ms=lambda: EPOCH_MS + round(self.now_s * 1000),
            **settings,  # type: ignore[arg-type]
        )

    # Violations

    def violate(self, title: str, facts: tuple[str, ...], nodes: Collection[int] = (), *, invariant: int = 0) -> None:
        """End the run with a violation; after the first one, do nothing.

        A rule that rests on promises which a voter has broken is a loss, which the run continues with.
        """
        if self.violation is not None:
            return
        violation = Violation(invariant, title, self.now_s, facts, tuple(nodes))
        if invariant in REST_ON_PROMISES and self.facts.may_lose:
            self.facts.losses.append(violation)
            self.checker.mute()
            return
        self.violation = violation
        self.trace.record("violation", cause=title, facts=list(facts), nodes=list(violation.nodes))
        self.end_run()

    def demand_that_losses_are_told(self) -> None:
        """A violation if committed records were lost because promises were broken, and no node has said so."""
        if self.facts.losses and not self.told_losses:
            loss = str(self.facts.losses[0])
            self.violate("what is lost because a voter broke its promises is told", (loss, "no node has said so"))

    def _note_told(self, event: TraceEvent) -> None:
        if event.kind == "log" and event.cause in LOSSES_TOLD:
            self.told_losses.append(event)

    def bug(self, what: str, nodes: Collection[int], error: BaseException | None = None) -> None:
        """End the run because a node has done something that no fault explains."""
        where = "".join(traceback.format_exception(error)) if error is not None else ""
        facts = (what, f"nothing was done to it\n{where}".rstrip())
        self.violate("nodes fail only by what is done to them", facts, nodes)

    def report(self, violation: Violation) -> InvariantViolated:
        """The violation with the events that led to it."""
        events = self.trace.last_events(violation.nodes, REPORTED_EVENTS)
        return InvariantViolated(violation, seed=self.setup.seed, last_events=events)

    def end_run(self) -> None:
        """Cancel everything."""
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    # Looking on

    def _message(self, message: Message) -> None:
        for listener in self.message_listeners:
            listener(message)
        what = "delivered" if message.delivered else "sent"
        now_s = current_time() - self.began_at_s
        moment = f"{now_s:.6f} {what} {message.source} {message.target} {message.connection} "
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

    def _operation_changed(self, operation: Operation) -> None:
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

    def _end_of_values(self, end: int) -> int:
        return self.facts.records.end_of_values(end)

    def _state_of(self, node_id: int) -> NodeState:
        replica = self.facts.present.get(node_id)
        if replica is None:
            return NO_STATE
        view, entries = replica.view, replica.entries
        log_end = entries[-1].next_offset if entries else 0
        if view is None:
            return NodeState(log_end=log_end, synced_end=replica.synced_end, high_watermark=replica.high_watermark)
        # Views are immutable, so what was read from one stays right for that very object.
        seen = self._seen.get(node_id)
        if seen is None or seen[0] is not view:
            role = type(view.role).__name__
            seen = self._seen[node_id] = (view, (view.epoch, role, view.leader_id), view.voters.ids)
        return NodeState(*seen[1], log_end, replica.synced_end, replica.high_watermark, seen[2])
