"""What a simulated cluster is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from kraft_trio.actors.application.state_machine_driver import OnCommit
from kraft_trio.application.serde import Serde
from kraft_trio.application.state_machine import BatchStateMachine, StateMachine
from kraft_trio.simulation.invariants import INVARIANTS, Invariant

CLUSTER_ID: Final = "simulated-cluster-0000"
LISTENER: Final = "CONTROLLER"
PORT: Final = 9093
OWN_KEYS: Final = frozenset(
    {
        "node.id",
        "process.roles",
        "listeners",
        "advertised.listeners",
        "controller.listener.names",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "kraft.witness",
        "metadata.log.dir",
        "log.dir",
        "log.dirs",
    }
)
"""The configuration keys that the cluster sets for each node."""


@attrs.frozen(kw_only=True)
class Setup:
    """A simulated cluster.  Raises ValueError if no voter is given, or an id twice."""

    seed: int = 0
    voters: int | tuple[int, ...] = 3
    """The ids of the initial voters, or their number; then the ids begin at 1."""
    observers: int | tuple[int, ...] = 0
    """The ids of the observers, or their number; then the ids follow the highest voter's."""
    settings: Mapping[str, str] = attrs.field(factory=dict)
    """Configuration of every node, by key as in a `.properties` file."""
    kraft_version: int = attrs.field(default=1, validator=attrs.validators.in_((0, 1)))
    """0: `controller.quorum.voters` names the voters.  1: the bootstrap checkpoint does, with directory ids."""
    kafka_replicas: tuple[int, ...] = ()
    """Ids of nodes that pass for replicas of Apache Kafka.  It is a violation if one gets a record that it cannot
    read."""
    witnesses: tuple[int, ...] = ()
    """Ids of nodes with `kraft.witness`."""
    started: tuple[int, ...] | None = None
    """Ids of the nodes that run from the beginning; None for all.  `Machine.start` starts the others."""
    invariants: tuple[type[Invariant], ...] = INVARIANTS
    """The rules to check; a test that breaks some on purpose, such as by forged requests, leaves them out."""
    on_commit: Callable[[int], OnCommit] | None = None
    """Called with a node's id for each new process; returns the function that is awaited with each committed batch."""
    state_machine: Callable[[int], StateMachine | BatchStateMachine] | None = None
    """Called like `on_commit`; returns a state machine with snapshots.  Nodes then take snapshots and trim their
    logs."""
    serde: Serde | None = None
    checks_machine: bool = False
    """Whether the replicas of the state machine, a StateMachine, are compared with each other and with a model."""

    def __attrs_post_init__(self) -> None:
        ids = (*self.voter_ids, *self.observer_ids)
        if not self.voter_ids:
            raise ValueError("voters: none given, at least one expected")
        if self.checks_machine and self.state_machine is None:
            raise ValueError("checks_machine: given without state_machine")
        if len(set(ids)) != len(ids) or min(ids) < 0:
            raise ValueError(
                f"voters {self.voter_ids}, observers {self.observer_ids}: expected each id once, from 0 on"
            )
        if not set(self.witnesses) <= set(ids):
            raise ValueError(f"witnesses {self.witnesses}: expected ids of voters or observers, which are {ids}")
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
