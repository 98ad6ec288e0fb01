"""The thread that waits for the device: one per disk, woken through a queue, answering through the Trio token.

A dedicated thread answers faster than `trio.to_thread.run_sync`, and being one it groups by itself: whoever asks for
the sync of a file while another sync is under way is served, with everyone else who asked meanwhile, by the next one.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Hashable

import attrs
import outcome
import trio


@attrs.frozen(eq=False)
class _Request:
    group: Hashable
    job: Callable[[], None]
    task: trio.lowlevel.Task
    token: trio.lowlevel.TrioToken


class FsyncThread:
    """Runs blocking jobs one after another on one daemon thread, started by the first of them, ended by `close`."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def run(self, group: Hashable, job: Callable[[], None]) -> None:
        """Run `job` on the thread and wait until it has ended; raises what it raised.

        Of the jobs of one `group` that wait at the same time only one is run, after all of them were asked for, and
        each caller gets its outcome.  Cannot be cancelled: a cancelled caller waits too, and returns as usual.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="kraft-fsync", daemon=True)
            self._thread.start()
        self._requests.put(_Request(group, job, trio.lowlevel.current_task(), trio.lowlevel.current_trio_token()))
        await trio.lowlevel.wait_task_rescheduled(lambda _raise_cancel: trio.lowlevel.Abort.FAILED)

    def close(self) -> None:
        """End the thread once the jobs already asked for are done.  A later `run` starts a new one."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._requests.put(None)
            thread.join()

    def _serve(self) -> None:
        while True:
            request = self._requests.get()
            if request is None:
                return
            waiting = [request]
            stop = False
            while not self._requests.empty():
                request = self._requests.get()
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
            result = outcome.capture(requests[-1].job)
            for request in requests:
                # Each caller needs an outcome of its own: one can be unwrapped only once.
                own = outcome.Error(result.error) if isinstance(result, outcome.Error) else outcome.Value(None)
                try:
                    request.token.run_sync_soon(trio.lowlevel.reschedule, request.task, own)
                except trio.RunFinishedError:
                    pass
