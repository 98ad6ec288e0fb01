"""Steps: what can be done to a simulated cluster.  Each is a value, and also a line of text.

Random faults are made of the same steps as scenario scripts, so that any history can be printed as a script.  For every
step, `parse_step(step.text) == step`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias

from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.script.line import Kind, Line

P = ParamSpec("P")

Done: TypeAlias = Coroutine[Any, Any, None]

Step: TypeAlias = Line[Cluster, Done]
"""One thing that is done to a cluster.  `take` returns when it is done, while its consequences continue; it raises
NotAsExpected if the step expects something else.  A fault that makes no sense now, such as killing a dead node, does
nothing."""

_kinds: dict[str, Kind[Cluster, ..., Done]] = {}
STEPS: Final[Mapping[str, Kind[Cluster, ..., Done]]] = MappingProxyType(_kinds)
"""Every kind of step by its verb.  `catalog` imports all modules that declare steps."""


class NotAsExpected(AssertionError):
    """A step has found something other than it states; the message says what was expected and what was found."""


def step(does: Callable[Concatenate[Cluster, P], Done]) -> Kind[Cluster, P, Done]:
    """Decorator: the function declares a step of its own name (see `line`)."""
    return step_called(does.__name__.rstrip("_").replace("_", "-"))(does)


def step_called(verb: str) -> Callable[[Callable[Concatenate[Cluster, P], Done]], Kind[Cluster, P, Done]]:
    """Decorator: the function declares a step with this verb, which must be free."""
    assert verb not in _kinds, f"two steps are called {verb!r}"

    def declare(does: Callable[Concatenate[Cluster, P], Done]) -> Kind[Cluster, P, Done]:
        _kinds[verb] = kind = Kind(verb, does)
        return kind

    return declare


async def take(step: Step, cluster: Cluster) -> None:
    """Take a step, and record it as an event of the trace."""
    cluster.trace.record("step", cause=step.text)
    await step.take(cluster)
