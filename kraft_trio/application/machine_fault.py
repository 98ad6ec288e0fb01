"""Carries what a state machine has raised out of the node, unchanged.

On its way through nurseries, generators and coroutines, such an error would change: a group of one error loses its
group, StopIteration becomes RuntimeError, and BadRecordError looks like the node's own.  So it travels inside another
one, and `open_node` takes it out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence

import attrs
import trio

from kraft_trio.application.state_machine import StateSnapshots
from kraft_trio.errors import BadRecordError, StorageError, StorageFailure, leaves
from kraft_trio.storage.batches.batch import NewRecord, Record


class MachineFault(Exception):
    """The state machine has raised `error`, which ends the node."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"the state machine raised {type(error).__name__}: {error}")
        self.error = error


def in_fault(error: BaseException) -> BaseException:
    """What an asynchronous method of the state machine lets out in place of this error.

    A cancellation stays visible for Trio, also in a group with other errors.
    """
    if isinstance(error, MachineFault | trio.Cancelled):
        return error
    if isinstance(error, BaseExceptionGroup):
        cancelled, others = error.split(trio.Cancelled)
        if cancelled is not None:
            return error if others is None else cancelled.derive([*cancelled.exceptions, MachineFault(others)])
    return MachineFault(error)


def out_of_fault(error: BaseException) -> BaseException:
    """The error with what the state machine has raised in place of each MachineFault."""
    if isinstance(error, MachineFault):
        return error.error
    if not isinstance(error, BaseExceptionGroup) or not any(isinstance(one, MachineFault) for one in leaves(error)):
        return error
    group = error.derive([out_of_fault(one) for one in error.exceptions])
    group.__cause__, group.__context__ = error.__cause__, error.__context__
    group.__suppress_context__ = error.__suppress_context__
    return group.with_traceback(error.__traceback__)


def saved(save: Callable[[], Iterable[NewRecord | bytes]]) -> Iterator[NewRecord | bytes]:
    """Call `save`, and return an iterator over its records.  Both raise MachineFault."""
    try:
        records = iter(save())
    except BaseException as error:
        raise MachineFault(error) from error
    return _each(records)


def _each(records: Iterator[NewRecord | bytes]) -> Iterator[NewRecord | bytes]:
    while True:
        try:
            record = next(records)
        except StopIteration:
            return
        except BaseException as error:
            raise MachineFault(error) from error
        yield record


async def loaded(load: Awaitable[None]) -> None:
    """Wait for a call of `load`.  What it raises is a fault, unless reading the snapshot has failed."""
    try:
        await load
    except (StorageError, StorageFailure):
        raise
    except BaseException as error:
        raise in_fault(error) from error


@attrs.frozen
class FaultsOfCommits:
    """An `on_commit` of the application's own."""

    _on_commit: Callable[[Sequence[Record]], Awaitable[None]]

    async def __call__(self, records: Sequence[Record]) -> None:
        try:
            await self._on_commit(records)
        except BadRecordError:
            raise
        except BaseException as error:
            raise in_fault(error) from error


@attrs.frozen
class FaultsOfSnapshots:
    """StateSnapshots of the application's own."""

    _snapshots: StateSnapshots

    def save(self) -> Iterable[NewRecord | bytes]:
        return saved(self._snapshots.save)

    async def load(self, end_offset: int, records: AsyncIterator[Sequence[Record]]) -> None:
        await loaded(self._snapshots.load(end_offset, records))
