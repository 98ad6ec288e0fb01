"""The syncs of an open file: in the kernel, on a thread, or in place.  The first failure is final.

The kernel reports a failed write-back to only one call per open file.  Of two at the same time, the other would report
success.  So the syncs of a file take turns.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from typing import NamedTuple

import trio

from kraft_trio.storage.disk.disk_threads import DiskThreads
from kraft_trio.system import kernel_syncs
from kraft_trio.system.durability import UNSUPPORTED, sync_all, sync_data
from kraft_trio.system.kernel_syncs import KernelSyncs


def sync_error(error: OSError, path: str) -> OSError:
    """The error of a sync, with the path; and with what is expected if the file system does not sync at all."""
    if error.errno not in UNSUPPORTED:
        return OSError(error.errno, error.strerror, path)
    return OSError(error.errno, f"{error.strerror}: the file system cannot sync; expected a local disk's", path)


def sync_entirely(descriptor: int, path: str) -> None:
    try:
        sync_all(descriptor)
    except OSError as error:
        raise sync_error(error, path) from error


class _InKernel(NamedTuple):
    """A sync that the kernel makes."""

    kernel: KernelSyncs
    number: int
    waiter: int
    began_ns: int


class FileSyncs:
    """Owned by a `RealFile`, whose descriptor it closes."""

    def __init__(self, path: str, descriptor: int, threads: DiskThreads) -> None:
        self._path = path
        self._descriptor = descriptor
        self._threads = threads
        self._lock = threading.Lock()
        self._failure: OSError | None = None
        self.last_ns = 0
        """How long the last one took."""
        self._in_kernel: _InKernel | None = None
        """The sync that the kernel makes.  It holds the lock."""
        self._kernel_ended = trio.lowlevel.ParkingLot()
        self.on_thread = 0
        """The syncs that threads make or shall make."""
        self._under_way = 0
        self.is_closed = False

    def close(self) -> None:
        """Close the descriptor: now, or at the end of the last sync under way.  Closing again does nothing."""
        if not self.is_closed:
            self.is_closed = True
            if not self._under_way:
                os.close(self._descriptor)

    def close_in_child(self) -> None:
        """Close it, whatever the parent had under way: in the child nothing uses it."""
        if not self.is_closed or self._under_way:
            self.is_closed = True
            os.close(self._descriptor)

    async def sync(self) -> None:
        self._under_way += 1
        try:
            if not await self._sync_in_kernel():
                await self._sync_on_thread()
        finally:
            self._end_sync()

    async def _sync_on_thread(self) -> None:
        self.on_thread += 1
        try:
            await self._threads.fsync.run(self, self._sync_data)
        finally:
            self.on_thread -= 1

    @trio.lowlevel.enable_ki_protection
    async def _sync_in_kernel(self) -> bool:
        """Have the kernel sync, and wait like the fsync thread's callers.  Returns False if it does not take that.

        Callers that come during a sync share the next one.
        """
        interrupt: KeyboardInterrupt | None = None
        before = self._in_kernel
        while (running := self._in_kernel) is not None:
            while self._in_kernel is running:
                interrupt = await self._wait_for_kernel() or interrupt
            if running is not before:
                # It began after this call.
                self._raise_outcome(interrupt)
                return True
        if interrupt is not None:
            self._raise_outcome(interrupt)
        kernel = kernel_syncs.kernel_syncs()
        if kernel is None or self.on_thread or self._failure is not None:
            # A thread must not wait for the lock while the kernel's sync has it: only this event loop gives that back.
            return False
        if not self._lock.acquire(blocking=False):
            return False
        under_way = None
        try:
            waiter = self._threads.waiters.get()
            if waiter is None:
                return False
            began_ns = time.perf_counter_ns()
            if number := kernel.begin(self._descriptor, waiter):
                under_way = self._in_kernel = _InKernel(kernel, number, waiter, began_ns)
            else:
                self._threads.waiters.put_back(waiter)
        finally:
            if under_way is None:
                self._lock.release()
        if under_way is None:
            return False
        try:
            interrupt = await self._threads.waiters.wait(waiter, lambda: self._end_in_kernel(under_way))
        finally:
            self._end_in_kernel(under_way)
        self._raise_outcome(interrupt)
        return True

    async def _wait_for_kernel(self) -> KeyboardInterrupt | None:
        """Wait for the end of the sync that the kernel makes, or for an interrupt, which this returns.  Shielded."""
        try:
            with trio.CancelScope(shield=True):
                await self._kernel_ended.park()
        except KeyboardInterrupt as error:
            return error
        return None

    def _raise_outcome(self, interrupt: KeyboardInterrupt | None) -> None:
        error_or_interrupt = self._failure or interrupt
        if error_or_interrupt is not None:
            raise error_or_interrupt

    def _end_in_kernel(self, under_way: _InKernel) -> None:
        """Note the outcome of that sync, unless it has been noted.  Blocks until it has ended."""
        if self._in_kernel is not under_way:
            return
        failure: OSError | None = OSError(errno.EIO, "the outcome of a sync is not known", self._path)
        try:
            under_way.kernel.take(under_way.number, under_way.waiter)
            failure = None
        except OSError as error:
            failure = sync_error(error, self._path)
        finally:
            self._failure = self._failure or failure
            self.last_ns = time.perf_counter_ns() - under_way.began_ns
            self._in_kernel = None
            self._lock.release()
            self._kernel_ended.unpark_all()

    async def sync_aside(self) -> None:
        self._under_way += 1
        self.on_thread += 1
        try:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._sync_data, limiter=self._threads.large_syncs)
        finally:
            self.on_thread -= 1
            self._end_sync()

    def _end_sync(self) -> None:
        self._under_way -= 1
        if self.is_closed and not self._under_way:
            os.close(self._descriptor)

    @trio.lowlevel.enable_ki_protection
    def sync_now(self) -> None:
        if self._in_kernel is not None:
            # It holds the lock.  The task that waits for it finds the outcome.
            self._end_in_kernel(self._in_kernel)
        self._sync_data()

    @trio.lowlevel.enable_ki_protection
    def _sync_data(self) -> None:
        # Ctrl-C must not hide a failure, which the kernel reports once.
        with self._lock:
            if self._failure is not None:
                raise self._failure
            began_ns = time.perf_counter_ns()
            try:
                sync_data(self._descriptor)
            except OSError as error:
                self._failure = sync_error(error, self._path)
                raise self._failure from error
            self.last_ns = time.perf_counter_ns() - began_ns
