"""The threads that wait for a disk.

One dedicated thread makes the fsyncs.  It answers faster than `trio.to_thread.run_sync`, and groups requests: all
callers that ask for a sync of a file during another sync share the next one.

A caller waits for a descriptor, like for a socket.  So it runs in the pass of the event loop that sees the answer; with
the Trio token it would run one pass later.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Hashable, Sequence

import trio

from kraft_trio.system.wake_ups import close_waiter, new_waiter, take, wake


class _Request:
    """One caller's request.  The thread stores the error, if any, and then wakes the waiter."""

    __slots__ = ("error", "group", "job", "waiter")

    def __init__(self, group: Hashable, job: Callable[[], None], waiter: int) -> None:
        self.group = group
        self.job = job
        self.waiter = waiter
        self.error: BaseException | None = None


class FsyncThread:
    """Runs blocking jobs one after another on a daemon thread.  The first job starts it; `close` ends it."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._waiters: list[int] = []
        """Idle waiters, already registered with the event loop."""

    @trio.lowlevel.enable_ki_protection
    async def run(self, group: Hashable, job: Callable[[], None]) -> None:
        """Run `job` on the thread, wait until it ends, and raise what it raised.

        If several jobs of one `group` wait at the same time, only the last runs, and each caller gets its outcome.
        Cannot be cancelled: a cancelled caller waits, too, and returns as usual.  A KeyboardInterrupt during the wait
        is raised afterwards, unless the job failed.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="kraft-fsync", daemon=True)
            self._thread.start()
        waiter = self._waiters.pop() if self._waiters else new_waiter()
        request = _Request(group, job, waiter)
        self._requests.put(request)
        interrupt: KeyboardInterrupt | None = None
        try:
            await trio.lowlevel.wait_readable(waiter)
        except KeyboardInterrupt as error:
            interrupt = await self._wait_shielded(waiter) or error
        except trio.Cancelled:
            # Trio raises it again at the caller's next checkpoint.
            interrupt = await self._wait_shielded(waiter)
        self._release(waiter)
        error_or_interrupt = request.error or interrupt
        if error_or_interrupt is not None:
            raise error_or_interrupt

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

    def _release(self, waiter: int) -> None:
        # Raises, as a failed fsync does, if nothing was written: nobody may take a job for done that is not.
        take(waiter)
        if self._thread is None:
            close_waiter(waiter)
        else:
            self._waiters.append(waiter)

    def close(self) -> None:
        """End the thread after the jobs already requested.  A later `run` starts a new one."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._requests.put(None)
            thread.join()
        while self._waiters:
            close_waiter(self._waiters.pop())

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
        self.fsync = FsyncThread()
        """Syncs the log and quorum-state."""
        self.large_syncs = trio.CapacityLimiter(2)
        """Syncs of snapshots: one being written and one being fetched."""
        self.names = trio.CapacityLimiter(2)
        """Renames and removes large files."""
        self.small_files = trio.CapacityLimiter(1)
        """Writes metrics files."""

    def close(self) -> None:
        self.fsync.close()
