"""What a mutant is, how it is switched on, and how it is found."""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import attrs
import trio

from kraft_trio.simulation import Cluster, InvariantViolated, Violation, simulate
from kraft_trio.simulation.campaign.watchdog import real_time_limit
from kraft_trio.simulation.invariants import INVARIANTS
from kraft_trio.simulation.script.step import NotAsExpected

from .runs import Run

Change = tuple[object, str, object]
"""An owner, the name of something in it, and what stands there instead."""

REAL_LIMIT_S = 30.0


def without_assertions(function: Callable[..., Any]) -> Any:
    """The same function without its `assert`s, because a broken rule would otherwise fail its own assertion."""

    class Removed(ast.NodeTransformer):
        def visit_Assert(self, _node: ast.Assert) -> ast.AST:
            return ast.Pass()

    tree = Removed().visit(ast.parse(textwrap.dedent(inspect.getsource(function))))
    made: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(tree), inspect.getfile(function), "exec"), function.__globals__, made)
    return made[function.__name__]


@attrs.frozen
class Found:
    """A mutant, given away."""

    seed: int
    violation: Violation
    cpu_s: float
    """Processor time, from the first seed on."""


@attrs.frozen(kw_only=True)
class Mutant:
    """One rule of the nodes, broken as a programmer could break it by mistake; the simulator is unchanged."""

    name: str
    breaks: str
    """The rule, in a line."""
    found_by: tuple[int, ...]
    """The invariants that may notice first.  0 means that progress stopped or a node ended by itself."""
    run: Run
    seeds: int
    """At least one run of this many seeds, from 0 on, must give it away."""
    changes: Callable[[], Iterable[Change]]

    @contextmanager
    def switched_on(self) -> Iterator[None]:
        """While it is open, every node has the broken rule."""
        with ExitStack() as stack:
            for owner, name, instead in self.changes():
                stack.enter_context(mock.patch.object(owner, name, instead))
            yield

    def hunt(self, *, only: int | None = None, first: int = 0) -> Found | None:
        """Run seed after seed, beginning with `first`, until an invariant is violated.

        `only` leaves all other invariants out.
        """
        began_s = time.process_time()
        for seed in sorted(range(self.seeds), key=lambda seed: seed != first):
            with self.switched_on():
                violation = violation_of(self.run, seed, only=only)
            if violation is not None:
                return Found(seed, violation, time.process_time() - began_s)
        return None


def violation_of(run: Run, seed: int, *, only: int | None = None, until_s: float = math.inf) -> Violation | None:
    """The violation in a run of that seed; None if there was none, or if the run could not do what it tests.

    The run ends early after `until_s` virtual seconds.
    """

    async def main(cluster: Cluster) -> None:
        with trio.move_on_after(until_s):
            await run.main(cluster)

    setup = attrs.evolve(run.setup, seed=seed)
    if only is not None:
        chosen = tuple(invariant for invariant in INVARIANTS if invariant.number == only)
        setup = attrs.evolve(setup, invariants=chosen)
    with real_time_limit(REAL_LIMIT_S):
        try:
            simulate(main, setup)
        except InvariantViolated as violated:
            return violated.violation
        except NotAsExpected:
            pass
    return None


MUTANTS: dict[str, Mutant] = {}
"""Every mutant by its name, in the order of the table."""


def mutant(
    *, breaks: str, found_by: tuple[int, ...], run: Run, seeds: int = 1
) -> Callable[[Callable[[], Iterable[Change]]], Callable[[], Iterable[Change]]]:
    """Decorator: a function that says what to change becomes a mutant under its own name."""

    def register(changes: Callable[[], Iterable[Change]]) -> Callable[[], Iterable[Change]]:
        name = changes.__name__.replace("_", " ")
        assert name not in MUTANTS, f"two mutants are called {name!r}"
        MUTANTS[name] = Mutant(name=name, breaks=breaks, found_by=found_by, run=run, seeds=seeds, changes=changes)
        return changes

    return register
