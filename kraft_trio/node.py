"""The calls that an application makes on a running node."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Generic
from uuid import UUID

import trio
from typing_extensions import TypeVar

from kraft_trio.actors.application.state_machine_driver import committed_batches
from kraft_trio.actors.election.leadership import Leadership, Term
from kraft_trio.application.decoding import Decoding, OnBadRecord
from kraft_trio.application.machine_adapter import check_request_header
from kraft_trio.application.machine_fault import MachineFault
from kraft_trio.application.serde import Serde
from kraft_trio.application.state_machine import Committed
from kraft_trio.errors import EncodeError, NodeClosedError, SerdeError
from kraft_trio.forked import refuse_in_child, when_forked
from kraft_trio.messages import LeadershipLost, QuorumView, Staleness
from kraft_trio.metrics.node_metrics import NodeMetrics
from kraft_trio.node_tree import NodeTree
from kraft_trio.protocol.request_ids import RANDOM_BITS, new_request_id
from kraft_trio.protocol.roles import Leader
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey, VersionRange
from kraft_trio.storage.batches.batch import NewRecord
from kraft_trio.storage.batches.new_record_check import check_new_record
from kraft_trio.surfacing import raise_in_coroutine

T = TypeVar("T", default=Any)
R = TypeVar("R", default=Any)


class Node(Generic[T, R]):
    """A running replica.  `open_node` makes it.

    T is the type of its values, and R that of the results of its state machine.  Every asynchronous method raises
    RuntimeError in another thread or `trio.run` than the node's.  So do those that wait for the state machine if its
    own `load` or `on_commit` calls them.
    """

    def __init__(self, tree: NodeTree[R], serde: Serde[T], on_bad_record: OnBadRecord) -> None:
        self.tree = tree
        self.config = tree.config
        self.cluster_id = tree.cluster_id
        self.key = tree.key
        self.log = tree.log
        self.election = tree.election
        self._serde = serde
        self._on_bad_record: OnBadRecord = on_bad_record
        self._run = trio.lowlevel.current_trio_token()
        self._is_in_child = False
        when_forked(self, Node._lose)

    def _lose(self) -> None:
        self._is_in_child = True

    @property
    def view(self) -> QuorumView:
        """The quorum as this node sees it now: epoch, role, leader, voters."""
        return self.election.view.value

    @property
    def high_watermark(self) -> int | None:
        """The end (exclusive) of the records that this node knows to be committed, or None."""
        return self.log.high_watermark

    @property
    def metrics(self) -> NodeMetrics:
        """The node's metrics, in their own registry.

        Latencies and rates count from the first access, or from the start if the node writes a metrics file.
        """
        return self.tree.metrics

    def _refuse_another_run(self, called: str) -> None:
        """Raises RuntimeError.  A task that waited for a task of another run would never be resumed."""
        if self._is_in_child:
            refuse_in_child(called)
        if not trio.lowlevel.in_trio_run() or trio.lowlevel.current_trio_token() is not self._run:
            raise RuntimeError(
                f"{called}: called outside the trio.run of the node; expected trio.from_thread.run in a "
                "thread that Trio made, or a node of kraft_trio.sync or kraft_trio.aio"
            )

    def _refuse_own_state_machine(self, called: str) -> None:
        """Raises RuntimeError in `load` or `on_commit` of the node's state machine, which this call would wait for."""
        if self.tree.driver is not None and self.tree.driver.is_waiting_for_this_task():
            raise RuntimeError(
                f"{called}: called by the node's own state machine, and would wait for it for ever; expected another "
                "task, which `load` and `on_commit` do not wait for"
            )

    async def wait_for_leader(self) -> QuorumView:
        """Wait until this node knows the leader of its epoch, which may be itself.

        Raises NodeClosedError if the node has stopped or stops meanwhile.
        """
        self._refuse_another_run("wait_for_leader")
        await trio.lowlevel.checkpoint()
        view = await self.election.view.wait_for(lambda view: self.tree.is_closed or view.leader_id is not None)
        if self.tree.is_closed:
            raise NodeClosedError("wait_for_leader: the node has stopped")
        return view

    async def changes(self) -> AsyncGenerator[QuorumView, None]:
        """Yield the present view, and then the newest one whenever it has changed.

        A reader that is slow misses views in between, but never the newest.  Raises NodeClosedError at the end if the
        node has stopped.
        """
        self._refuse_another_run("changes")
        seen: QuorumView | None = None
        while True:
            await trio.lowlevel.checkpoint()
            view = await self._wait_for_change(seen)
            if view == seen:
                raise NodeClosedError("changes: the node has stopped")
            seen = view
            yield view

    async def _wait_for_change(self, seen: QuorumView | None) -> QuorumView:
        return await self.election.view.wait_for(lambda view: self.tree.is_closed or view != seen)

    @asynccontextmanager
    async def leadership(self) -> AsyncIterator[Term]:
        """Run a block while this node leads, and cancel it as soon as that ends.

        Waits until this node leads and the application has applied the first record of its epoch.  So the application
        has everything that earlier leaders committed.  Without a state machine, that record is committed.

        If the leadership ends, the block is cancelled, and `async with` ends normally; `term.was_interrupted` is then
        true.  Another node may lead earlier than this one hears of it.  So append with `epoch=term.epoch` within the
        block: no such append takes effect after the first record of a later leader.

        Raises NodeClosedError if the node stops before it leads, and CorruptLogError if the application cannot be given
        the committed records.
        """
        self._refuse_another_run("leadership")
        self._refuse_own_state_machine("leadership")
        term: Term | None = None
        while term is None:
            await trio.lowlevel.checkpoint()
            leadership = await self._wait_to_lead()
            with leadership.while_it_lasts() as scope:
                await self._wait_for_first_record(leadership)
                term = Term(leadership)
                yield term
        term.was_interrupted = scope.cancelled_caught

    async def _wait_to_lead(self) -> Leadership:
        await self.election.view.wait_for(lambda view: self.tree.is_closed or self.election.leadership is not None)
        leadership = self.election.leadership
        if leadership is None or self.tree.is_closed:
            raise NodeClosedError("leadership: the node has stopped")
        return leadership

    async def _wait_for_first_record(self, leadership: Leadership) -> None:
        first = leadership.epoch_start_offset
        if self.tree.driver is not None:
            await self.tree.driver.wait_until_applied(first)
        while self.log.high_watermark is None or self.log.high_watermark <= first:
            await self.log.high_watermark_moved.park()

    async def resign(self) -> None:
        """Give up the leadership, if this node leads.  Returns when it leads no more.

        The voter with the longest log campaigns at once.  This node may be elected again, in a later epoch.
        """
        self._refuse_another_run("resign")
        await trio.lowlevel.checkpoint()
        view = self.view
        if isinstance(view.role, Leader) and not self.tree.is_closed:
            await self.election.tell(LeadershipLost(view.stamp, "the application has resigned"))
            await self.election.view.wait_for(lambda now: self.tree.is_closed or now.stamp != view.stamp)

    async def transfer_leadership(self, to: int, *, timeout_ms: int = 30_000) -> int:
        """Have the voter of this id lead.  Works on any node.  Returns the epoch that it leads.

        The leader waits until the voter has caught up, holds appends for a moment, and resigns in its favour.  If
        another voter wins, that one is asked again.  A cancelled call may or may not transfer the leadership.

        Raises

        - RefusedError if that node is no voter, or does not catch up in time,
        - OutcomeUnknownError if the node does not lead when the time is over, or when three leaders have resigned,
        - UnsupportedVersionError if the leader is one of Apache Kafka,
        - ValueError for a time below 1 ms,
        - NodeClosedError if this node has stopped.
        """
        self._refuse_another_run("transfer_leadership")
        _check_integer("to", to, "the id of a voter")
        _check_integer("timeout_ms", timeout_ms, "milliseconds")
        if timeout_ms < 1:
            raise ValueError(f"timeout_ms: {timeout_ms}, expected 1 or more")
        return await self.tree.transfers.transfer(to, timeout_ms)

    async def append(self, values: Sequence[T | NewRecord], *, epoch: int | None = None) -> range:
        """Append values at consecutive offsets, wait until they are committed, and return the offsets.

        A value that has a key or headers is given as a NewRecord, encoded by the node's serde already.

        Works on any node, also on followers and observers, and across changes of the leader.  Each value takes effect
        at most once.  The only timeout is the caller's cancel scope; a cancelled append may or may not take effect.

        With `epoch`, the values take effect in that epoch of this node's leadership or never (`leadership`).

        Raises EncodeError, RecordTooLargeError or RefusedError if nothing was appended, OutcomeUnknownError if it may
        have been, NodeClosedError if the node has stopped before it sent the values, and ValueError without values.
        With `epoch` also NotLeaderError: this node does not lead that epoch, and nothing was appended.
        """
        self._refuse_another_run("append")
        if self.tree.is_closed:
            raise NodeClosedError("append: the node has stopped")
        if isinstance(values, str | bytes) or not isinstance(values, Sequence):
            raise TypeError(f"values: {type(values).__name__}, expected a list of values")
        if not values:
            raise ValueError("values: none given, at least one expected")
        if epoch is not None:
            _check_integer("epoch", epoch, "the epoch of a term")
        records = self._encoded(values)
        for record in records:
            if record.headers:
                check_request_header(record)
        base_offset = await self.tree.appender.append(records, epoch)
        return range(base_offset, base_offset + len(values))

    async def execute(self, command: T | NewRecord, request_id: UUID | None = None) -> R:
        """Append a command, wait until this node's state machine has applied it, and return the result.

        Works on any node, also on followers and observers.  Without `request_id`, the command is applied at most once.
        With one, it is applied exactly once, however often and on whichever nodes it is executed with that id, also
        after a restart: each call returns the result of the first application (`new_request_id`).  The only timeout is
        the caller's cancel scope; a cancelled command may or may not be applied.

        Raises

        - NotAppendedError if the command has not been applied by this call and never will be,
        - OutcomeUnknownError if it may be, with the `request_id` to call `execute` with again,
        - CommandFailed if the state machine has refused it, on every replica,
        - RequestTooOldError if the id is so old that nobody knows whether the command was applied,
        - ResultLostError if it was applied but its result is not known here,
        - BadRecordError or CorruptLogError if this node's state machine has stopped at an earlier record,
        - ValueError if the node was opened without a StateMachine, or for an id that is not a UUID of version 7.
        """
        self._refuse_another_run("execute")
        self._refuse_own_state_machine("execute")
        if self.tree.executor is None:
            raise ValueError("execute: the node was opened without state_machine=, so commands have no results")
        [record] = self._encoded([command])
        return await self.tree.executor.execute(record, request_id)

    def new_request_id(self) -> UUID:
        """Make an id for `execute`; any other UUID of version 7 will do as well.

        The nodes remember the last 100,000 requests, and at most 64 MiB of results.  The clocks of the nodes may differ
        by up to five minutes.
        """
        return new_request_id(self.tree.environment.wall_clock_ms(), self.tree.environment.secret_bits(RANDOM_BITS))

    def _encoded(self, values: Sequence[T | NewRecord]) -> list[NewRecord]:
        """Encode values, and check records.  Raises EncodeError, and RefusedError for what is not accepted."""
        try:
            return [self._encoded_one(value) for value in values]
        except EncodeError:
            raise
        except (SerdeError, ValueError) as error:
            raise EncodeError(f"value: not appended: {error}") from error

    def _encoded_one(self, value: T | NewRecord) -> NewRecord:
        if isinstance(value, NewRecord):
            check_new_record(value)
            record, decoded = value, self._serde.decode(value.value or b"")
        else:
            record, decoded = NewRecord(self._serde.encode(value)), value
        if self.tree.machine is not None:
            self.tree.machine.check_accepted(decoded, record)
        return record

    async def committed(self, from_offset: int = 0) -> AsyncGenerator[Committed[T], None]:
        """Yield the committed values from `from_offset` (inclusive) on, and wait for more at the end.

        Reads this node's own copy of the log.  Offsets have gaps, because control records use some of them.

        Raises BadRecordError for a record that the node's serde cannot decode, CorruptLogError for committed records
        that cannot be read, and NodeClosedError at the end if the node has stopped.
        """
        self._refuse_another_run("committed")
        _check_integer("from_offset", from_offset, "an offset")
        decoding = Decoding(self._serde, self._on_bad_record, self.config.skipped_offsets)
        lists = committed_batches(self.log, from_offset, self.tree.record_decoder, lambda: self.tree.is_closed)
        async with aclosing(lists) as batches:
            async for records in batches:
                for record in records:
                    committed = decoding.decode(record)
                    if committed is not None:
                        yield committed

    async def wait_until_applied(self, offset: int) -> None:
        """Wait until the application has the record at `offset` and all before it.

        They were applied, or loaded from a snapshot.  `append` returns such offsets.

        Raises ValueError if the node was opened without a state machine, BadRecordError or CorruptLogError if earlier
        committed records cannot be decoded or read, and NodeClosedError if the node has stopped or stops meanwhile.
        """
        self._refuse_another_run("wait_until_applied")
        self._refuse_own_state_machine("wait_until_applied")
        if self.tree.driver is None:
            raise ValueError("wait_until_applied: the node was opened without state_machine= or on_commit=")
        _check_integer("offset", offset, "one of the offsets that append returns")
        await self.tree.driver.wait_until_applied(offset)

    @property
    def skipped_records(self) -> int:
        """How many committed records the serde could not decode; the state machine never got them.

        Counts from the start of the node, and stays 0 unless it was opened with `on_bad_record="skip"`.
        """
        return 0 if self.tree.machine is None else self.tree.machine.skipped_records

    async def read_barrier(self) -> int:
        """Wait until a read on this node sees every append that was acknowledged before, anywhere.

        Works on any node, also on followers and observers, and writes nothing to the log.  The leader first learns
        from a majority that nobody has replaced it.  Returns the read index (exclusive): the application has all
        records below it, or this node's log has them committed if the node was opened without `on_commit`.  The only
        timeout is the caller's cancel scope.

        Raises CorruptLogError if earlier committed records cannot be read, and NodeClosedError if the node has stopped
        or stops meanwhile.
        """
        self._refuse_another_run("read_barrier")
        self._refuse_own_state_machine("read_barrier")
        return (await self.tree.read_barrier()).offset

    @property
    def stale(self) -> Staleness:
        """How old the state may be that a read without a barrier sees."""
        heard_s = self.election.last_heard_s
        age_ms = None if heard_s is None else round((trio.current_time() - heard_s) * 1000)
        offset = self.log.high_watermark or 0 if self.tree.driver is None else self.tree.driver.applied_offset
        return Staleness(offset, age_ms)

    async def take_snapshot(self) -> OffsetAndEpoch | None:
        """Take a snapshot of the application now, and trim the log as the configuration allows.

        Returns the end offset (exclusive) and epoch of the newest snapshot.  That is an earlier one if nothing has
        committed since, and None if nothing ever has.  Calls that wait for a snapshot share the next one.  Commits
        continue meanwhile.  A cancelled call leaves a whole snapshot or none.

        Raises ValueError if the node was opened without a state machine, NodeClosedError and StorageFailure.
        """
        self._refuse_another_run("take_snapshot")
        self._refuse_own_state_machine("take_snapshot")
        if self.tree.taker is None:
            raise ValueError(
                "take_snapshot: the node was opened without state_machine= or snapshots=, so its log is never trimmed"
            )
        if self.tree.is_closed:
            raise NodeClosedError("take_snapshot: the node has stopped")
        try:
            return await self.tree.taker.take()
        except MachineFault as fault:
            error = fault.error
        raise_in_coroutine(error)

    def observer_supports(self, observer: ReplicaKey, kraft_versions: VersionRange | None) -> None:
        """Tell the leader which kraft.versions an observer supports, or None if it is gone (KIP-853).

        An upgrade that one of the observers does not support is refused.  Observers of this implementation tell it
        themselves; this call takes precedence.
        """
        if kraft_versions is None:
            self.tree.observer_versions.pop(observer, None)
        else:
            self.tree.observer_versions[observer] = kraft_versions


def _check_integer(name: str, value: object, expected: str) -> None:
    """Raises TypeError."""
    if not isinstance(value, int):
        raise TypeError(f"{name}: {value!r}, expected {expected}")
