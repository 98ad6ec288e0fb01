"""Clients of a user's state machine: they execute commands, each applied once, and query its state behind barriers."""

from __future__ import annotations

import copy
import random
from typing import Any, ClassVar, Final

import trio

from kraft_trio.application.outcomes import Outcome
from kraft_trio.errors import (
    BadRecordError,
    CommandFailed,
    NetworkError,
    NodeClosedError,
    NotAppendedError,
    RequestTooOldError,
    ResultLostError,
)
from kraft_trio.node import Node
from kraft_trio.simulation.clients.operations import PERHAPS, OperationKind
from kraft_trio.simulation.commands.agreement import Agreement
from kraft_trio.simulation.facts.history import EXECUTE, QUERY, Operation
from kraft_trio.simulation.world import World

MOST_TRIES: Final = 4
"""How often a client executes a command whose outcome it does not know, each time on any node."""

RETRY_S: Final = (0.05, 1.0)
"""The bounds of the delay between two tries."""

SHOWN_CHARACTERS: Final = 80

LOST: Final = (*PERHAPS, ResultLostError, RequestTooOldError, BadRecordError)


class _OnMachine(OperationKind):
    """What the kinds share: a world whose state machines are checked."""

    needs_node: ClassVar[bool] = True
    world: World
    """Set by the workload."""

    @property
    def agreement(self) -> Agreement:
        agreement = self.world.agreement
        assert agreement is not None, "only clients of a checked state machine execute commands"
        return agreement

    def a_node(self, source: random.Random) -> tuple[int, Node[Any, Any]] | None:
        nodes = list(self.world.nodes.items())
        return source.choice(nodes) if nodes else None

    def begin(self, subject: object) -> Operation:
        text = repr(subject)[:SHOWN_CHARACTERS]
        request = self.request
        from_offset = None if self.name == EXECUTE else request.history.known_end
        operation = request.history.invoke(
            self.name,
            client=request.client,
            via=request.access.via,
            subject=text,
            from_offset=from_offset,
            is_linearizable=True,
        )
        operation.command = subject
        return operation


class Execute(_OnMachine):
    """Executes a random command with a request id, and again on any node while its outcome is unknown."""

    name: ClassVar[str] = EXECUTE

    def invoke(self) -> Operation:
        self._command = self.agreement.sample.random_command(self.request.random)
        return self.begin(self._command)

    async def attempt(self, operation: Operation) -> None:
        request, source = self.request, self.request.random
        via = request.access.via
        assert via is not None
        node: Node[Any, Any] | None = self.world.running_nodes.get(via)
        if node is None:
            raise NetworkError("the node has stopped")
        request_id = node.new_request_id()
        unknown: Exception | None = None
        for _ in range(MOST_TRIES):
            if node is not None:
                try:
                    with trio.fail_after(request.within_s):
                        outcome: Outcome[Any] = Outcome(await node.execute(self._command, request_id))
                except CommandFailed as error:
                    outcome = Outcome(error=error)
                except (NotAppendedError, NodeClosedError) as error:
                    if unknown is None:
                        self.agreement.refused(request_id, str(error))
                        raise NetworkError(str(error)) from error
                    outcome = Outcome(error=error)
                except LOST as error:
                    outcome = Outcome(error=error)
                if outcome.error is None or isinstance(outcome.error, CommandFailed):
                    offset = self.agreement.acknowledged_at(request_id, outcome, via)
                    operation.result = outcome.result
                    request.history.succeed(operation, offsets=(offset,))
                    return
                unknown = outcome.error
            await trio.sleep(source.uniform(*RETRY_S))
            found = self.a_node(source)
            via, node = (via, None) if found is None else found
        request.history.lose(operation, str(unknown) or f"no answer within {request.within_s:g} s")


class Query(_OnMachine):
    """Waits for a read barrier of a node, and has that node's state machine answer a random query."""

    name: ClassVar[str] = QUERY

    def invoke(self) -> Operation:
        self._query = self.agreement.sample.random_query(self.request.random)
        return self.begin(self._query)

    async def attempt(self, operation: Operation) -> None:
        via = self.request.access.via
        assert via is not None
        node = self.world.running_nodes.get(via)
        if node is None:
            raise NetworkError("the node has stopped")
        try:
            with trio.fail_after(self.request.within_s):
                read_index = await node.tree.read_barrier()
        except (*LOST, NodeClosedError) as error:
            raise NetworkError(str(error) or f"not read within {self.request.within_s:g} s") from error
        if self.world.running_nodes.get(via) is not node:
            raise NetworkError("the node has stopped")
        checked = self.world.checked_machines[via]
        place = checked.applied_offset
        if place is None:
            place = self.world.facts.present[via].applied_end - 1
        answer = checked.machine.answer(self._query)  # type: ignore[attr-defined]
        self.agreement.answered_at(place, self._query, answer, via)
        operation.result = copy.deepcopy(answer)
        self.request.history.succeed(
            operation, end_offset=place + 1, from_offset=place + 1, is_by_lease=read_index.is_by_lease
        )


def command_kinds(world: World) -> tuple[list[type[OperationKind]], list[float]]:
    """The kinds of operations on the state machine of that world, with their weights."""
    execute = type("Execute", (Execute,), {"world": world})
    query = type("Query", (Query,), {"world": world})
    has_queries = hasattr(world.agreement.sample, "random_query") if world.agreement is not None else False
    return ([execute, query], [3.0, 1.0]) if has_queries else ([execute], [1.0])


def demanded_kind(world: World) -> type[OperationKind]:
    """The kind of operation that must succeed on each node once the faults are over, and so the clocks are right."""
    return type("Execute", (Execute,), {"world": world})
