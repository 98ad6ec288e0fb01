"""Async test functions that run against a simulated cluster, under virtual time and with the invariants checked."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any

import attrs
import trio

from kraft_trio.simulation import Cluster, Setup, simulate
from kraft_trio.tracing.events import TraceEvent

LIMIT_S = 600
"""How long a test may take, in virtual time."""

MOST_ROLES = 1000
"""How many roles the nodes may take in one virtual second."""


QUIET_SEARCH = {"controller.quorum.retry.backoff.ms": "100"}
"""Nodes that know no leader ask for one more seldom than by default: half of the work before the first election."""


def on_cluster(**fields: Any) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Let pytest run an async test whose first parameter is a Cluster, made by the fields of a Setup.

    TooSlowError after LIMIT_S.
    """
    setup = Setup(**fields)

    def decorate(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        _, *parameters = inspect.signature(test).parameters.values()

        @wraps(test)
        def run(**arguments: Any) -> None:
            run_on_cluster(partial(test, **arguments), setup)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


class _RoleCounter:
    """Fails the node that takes one role too many, because LIMIT_S is far away for a node that never rests."""

    def __init__(self) -> None:
        self._second = 0
        self._roles = 0

    def note(self, event: TraceEvent) -> None:
        if event.kind != "log" or event.cause != "role":
            return
        second = event.time_us // 1_000_000
        if second != self._second:
            self._second, self._roles = second, 0
        self._roles += 1
        assert self._roles <= MOST_ROLES, f"{self._roles} roles in one second"


def run_on_cluster(test: Callable[[Cluster], Awaitable[None]], setup: Setup) -> None:
    """Run a test against the cluster of that Setup.  TooSlowError after LIMIT_S."""

    async def limited(cluster: Cluster) -> None:
        cluster.trace.listeners.append(_RoleCounter().note)
        with trio.fail_after(LIMIT_S):
            await test(cluster)

    simulate(limited, attrs.evolve(setup, settings={**QUIET_SEARCH, **setup.settings}))
