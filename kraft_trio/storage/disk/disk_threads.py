"""The threads that wait for a disk.

One dedicated thread makes the fsyncs that the kernel does not (`system/kernel_syncs.py`).  It answers faster than
`trio.to_thread.run_sync`, and groups requests: all callers that ask for a sync of a file during another sync share the
next one.

A caller waits for a descriptor, like for a socket.  So it runs in the pass of the event loop that sees the answer; with
the Trio token it would run one pass later.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Hashable, Sequence

import trio

from kraft_trio.storage.disk.failures import is_out_of_descriptors
from kraft_trio.system.wake_ups import close_waiter, new_waiter, take, wake


class _Request:
    """One caller's request.  The thread stores the error, if any, and then wakes the waiter."""

    __slots__ = ("error", "group", "job", "waiter")

    def __init__(self, group: Hashable, job: Callable[[], None], waiter: int) -> None:
        self.group = group
        self.job = job
        self.waiter = waiter
        self.error: BaseException | None = None


class Waiters:
    """Descriptors to wait for, already registered with the event loop, to be used again and again."""

    def __init__(self) -> None:
        self._idle: list[int] = []
        self._is_closed = False

    def get(self) -> int | None:
        """None if no descriptor is left.  Raises OSError."""
        if self._idle:
            return self._idle.pop()
        try:
            return new_waiter()
        except OSError as error:
            if is_out_of_descriptors(error):
                return None
            raise

    async def wait(self, waiter: int, before_reuse: Callable[[], object] = lambda: None) -> KeyboardInterrupt | None:
        """Wait until it is woken, call `before_reuse`, and return it to the others.

        The caller is protected from KeyboardInterrupt.  Cannot be cancelled: a cancelled caller waits, too, and returns
        as usual.  Returns an interrupt of the wait.
        """
        interrupt: KeyboardInterrupt | None = None
        try:
            await trio.lowlevel.wait_readable(waiter)
        except KeyboardInterrupt as error:
            interrupt = await self._wait_shielded(waiter) or error
        except trio.Cancelled:
            # Trio raises it again at the caller's next checkpoint.
            interrupt = await self._wait_shielded(waiter)
        before_reuse()
        # Raises, as a failed fsync does, if nothing was written: nobody may take a job for done that is not.
        take(waiter)
        self.put_back(waiter)
        return interrupt

    async def _wait_shielded(self, waiter: int) -> KeyboardInterrupt | None:
        """Wait in a scope, which costs as much as the rest of the wait.  Returns an interrupt instead of raising it."""
        interrupt = None
        with trio.CancelScope(shield=True):
            while True:
                try:
                    await trio.lowlevel.wait_readable(waiter)
                    break
                except KeyboardInterrupt as error:
                    interrupt = error
        return interrupt

    def put_back(self, waiter: int) -> None:
        if self._is_closed:
            close_waiter(waiter)
        else:
            self._idle.append(waiter)

    def close(self) -> None:
        """Close those that are idle now, and the others when they are put back."""
        self._is_closed = True
        while self._idle:
            close_waiter(self._idle.pop())


class FsyncThread:
    """Runs blocking jobs one after another on a daemon thread.  The first job starts it; `close` ends it."""

    def __init__(self, waiters: Waiters | None = None) -> None:
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._waiters = waiters or Waiters()

    @trio.lowlevel.enable_ki_protection
    async def run(self, group: Hashable, job: Callable[[], None]) -> None:
        """Run `job` on the thread, wait until it ends, and raise what it raised.

        If several jobs of one `group` wait at the same time, only the last runs, and each caller gets its outcome.
        Cannot be cancelled: a cancelled caller waits, too, and returns as usual.  A KeyboardInterrupt during the wait
        is raised afterwards, unless the job failed.  Without a descriptor to wait for, the job runs in the caller's
        thread, and blocks it.
        """
        waiter = self._waiters.get()
        if waiter is None:
            job()
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="kraft-fsync", daemon=True)
            self._thread.start()
        request = _Request(group, job, waiter)
        self._requests.put(request)
        interrupt = await self._waiters.wait(waiter)
        error_or_interrupt = request.error or interrupt
        if error_or_interrupt is not None:
            raise error_or_interrupt

    def close(self) -> None:
        """End the thread after the jobs already requested.  A later `run` starts a new one."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._requests.put(None)
            thread.join()
        self._waiters.close()

    def _serve(self) -> None:
        requests = self._requests
        while True:
            request = requests.get()
            if request is None:
                return
            if requests.empty():
                _run(request.job, (request,))
                continue
            waiting = [request]
            stop = False
            while not requests.empty():
                request = requests.get()
                if request is None:
                    stop = True
                    break
                waiting.append(request)
            self._run_grouped(waiting)
            if stop:
                return

    def _run_grouped(self, waiting: list[_Request]) -> None:
        groups: dict[Hashable, list[_Request]] = {}
        for request in waiting:
            groups.setdefault(request.group, []).append(request)
        for requests in groups.values():
            _run(requests[-1].job, requests)


def _run(job: Callable[[], None], requests: Sequence[_Request]) -> None:
    error: BaseException | None = None
    try:
        job()
    except BaseException as raised:
        error = raised
    for request in requests:
        request.error = error
        wake(request.waiter, 1)


class DiskThreads:
    """The threads of one RealDisk.  They are its own: Trio's default threads may all be busy.

    One kind of work never waits for another.
    """

    def __init__(self) -> None:
        self.waiters = Waiters()
        self.fsync = FsyncThread(self.waiters)
        """Syncs quorum-state, and the log where the kernel does not."""
        self.large_syncs = trio.CapacityLimiter(2)
        """Syncs of snapshots: one being written and one being fetched."""
        self.names = trio.CapacityLimiter(2)
        """Renames and removes large files."""
        self.small_files = trio.CapacityLimiter(1)
        """Writes metrics files."""

    def close(self) -> None:
        self.fsync.close()
