"""Which error comes out of `open_node` when a node and the block that uses it have failed, and how it is raised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

import trio

from kraft_trio.errors import NodeClosedError, OutcomeUnknownError, StorageFailure, leaves


class StopIterationRaised(RuntimeError):
    """The state machine has raised StopIteration, which no coroutine can raise.  `__cause__` is that error."""


def surfacing(error: BaseException, faults: Sequence[BaseException]) -> BaseException:
    """Return the only cause if there is one, and otherwise `error`, a group of several.

    `faults` are those that ended the node, if it has not ended well.  Then what its callers got because it has stopped
    is no cause.  Several storage failures are one cause, the first.
    """
    causes = [leaf for leaf in leaves(error) if not isinstance(leaf, trio.Cancelled)]
    if faults:
        causes = [*faults, *(leaf for leaf in causes if not _is_one_of(leaf, faults) and not _is_consequence(leaf))]
    if len(causes) == 1 or (causes and all(isinstance(cause, StorageFailure) for cause in causes)):
        return causes[0]
    return error


def _is_one_of(error: BaseException, errors: Sequence[BaseException]) -> bool:
    """An application's error may compare equal to another one."""
    return any(error is one for one in errors)


def _is_consequence(error: BaseException) -> bool:
    """Whether the error is what a caller of a stopped node gets, or was raised because of such an error."""
    return any(isinstance(one, OutcomeUnknownError | NodeClosedError) for one in _chain(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and not _is_one_of(one, seen):
        yield one
        seen.append(one)
        one = one.__cause__ or one.__context__


def raise_as_it_is(error: BaseException) -> NoReturn:
    """Raise an error that was raised before, with the cause and the context that it had then."""
    before = [(name, getattr(error, name)) for name in ("__cause__", "__context__", "__suppress_context__")]
    try:
        raise error
    finally:
        for name, value in before:
            object.__setattr__(error, name, value)  # a frozen dataclass lets nobody else do that


def raise_in_coroutine(error: BaseException) -> NoReturn:
    """Raise an error as it is, except for StopIteration."""
    if isinstance(error, StopIteration):
        raise StopIterationRaised(f"the state machine raised {error!r}") from error
    raise_as_it_is(error)
