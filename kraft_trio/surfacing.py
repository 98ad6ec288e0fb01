"""Which error comes out of `open_node` when a node and the block that uses it have failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import trio

from kraft_trio.errors import NodeClosedError, OutcomeUnknownError, StorageFailure, leaves


def surfacing(error: BaseException, faults: Sequence[BaseException]) -> BaseException:
    """Return the only cause if there is one, and otherwise `error`, a group of several.

    `faults` are those that ended the node, if it has not ended well.  Then what its callers got because it has stopped
    is no cause.  Several storage failures are one cause, the first.
    """
    causes = [leaf for leaf in leaves(error) if not isinstance(leaf, trio.Cancelled)]
    if faults:
        causes = [*faults, *(leaf for leaf in causes if leaf not in faults and not _is_consequence(leaf))]
    if len(causes) == 1 or (causes and all(isinstance(cause, StorageFailure) for cause in causes)):
        return causes[0]
    return error


def _is_consequence(error: BaseException) -> bool:
    """Whether the error is what a caller of a stopped node gets, or was raised because of such an error."""
    return any(isinstance(one, OutcomeUnknownError | NodeClosedError) for one in _chain(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        yield one
        seen.append(one)
        one = one.__cause__ or one.__context__
