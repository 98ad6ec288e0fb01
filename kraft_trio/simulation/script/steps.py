"""Steps: what can be done to a simulated cluster, each an attrs value that is also a line of text.

A step class is registered under its verb; its fields say in which words it is written (see `step_syntax`).  Random
faults make the same objects that a scenario script is read into, so that any history can be printed as a script:
`parse_step(step.text) == step`, for every step (`step_catalog`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from kraft_trio.simulation.script.syntax import syntax_of, write_fields

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster


class NotAsExpected(AssertionError):
    """A step found something else than it says: what was expected, and what there is."""


class Step:
    """One thing that is done to a cluster.  Subclasses are frozen attrs classes; their docstring is the manual."""

    verb: ClassVar[str]

    keeps_time: ClassVar[bool] = False
    """Whether it happens at a time of its own: then nothing else may take time in a script that has such a step."""

    async def take(self, cluster: Cluster) -> None:
        """Do it.  A fault that makes no sense now (a node that does not run is killed) does nothing.

        Returns once it is done; what follows from it goes on by itself.  Raises NotAsExpected, if it expects anything.
        """
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The step as a line of a script."""
        return " ".join([self.verb, *write_fields(self)])

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The nodes that the step names, in the order of the line."""
        named: list[int] = []
        for name, syntax, default in syntax_of(type(self)):
            value = getattr(self, name)
            if not (syntax.is_optional and value == default):
                named += syntax.part.node_ids(value)
        return tuple(dict.fromkeys(named))

    @property
    def brings_nodes(self) -> tuple[int, ...]:
        """The nodes that are in the world from this step on, and were not before."""
        return ()

    @classmethod
    def syntax(cls) -> str:
        """How it is written: `crash N... [all|some|reordered]`."""
        return " ".join([cls.verb, *(syntax.shown for _, syntax, _ in syntax_of(cls))])

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().split("\n")[0]


async def take(step: Step, cluster: Cluster) -> None:
    """Take a step, as an event of the trace."""
    cluster.trace.record("step", cause=step.text)
    await step.take(cluster)


S = TypeVar("S", bound=Step)

_steps: dict[str, type[Step]] = {}
STEPS: Final[Mapping[str, type[Step]]] = MappingProxyType(_steps)
"""Every registered step by its verb; `step_catalog` imports all the modules that register some."""


def register(step: type[S]) -> type[S]:
    """Class decorator: make the step known under its verb.  A verb that is taken is a bug."""
    assert step.verb not in _steps, f"two steps are called {step.verb!r}"
    _steps[step.verb] = step
    return step
