"""The public functions and methods that wait."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import kraft_trio

OF_THE_APPLICATION = {"BatchStateMachine", "LatestByKey", "StateMachine", "StateSnapshots"}
"""What the node calls."""


def waits(function: object) -> bool:
    unwrapped = inspect.unwrap(function) if callable(function) else None
    return inspect.iscoroutinefunction(unwrapped) or inspect.isasyncgenfunction(unwrapped)


def waiting_methods(cls: type) -> Iterator[str]:
    for name, function in inspect.getmembers(cls, inspect.isfunction):
        if waits(function) and (name.startswith("__a") or not name.startswith("_")):
            yield name


def public_calls() -> Iterator[str]:
    """As `Node.append` or `run_node`."""
    for name in set(kraft_trio.__all__) - OF_THE_APPLICATION:
        public = getattr(kraft_trio, name)
        if inspect.isclass(public):
            yield from (f"{name}.{method}" for method in waiting_methods(public))
        elif waits(public):
            yield name
