"""The faults of a simulated disk's calls: calls that fail, and calls at which power is lost."""

from __future__ import annotations

import errno
from collections.abc import Callable

import attrs

Hook = Callable[[str, str], None]
"""Called before every call with its name (as in `Disk` and `DiskFile`) and path.  The call raises what the hook
raises."""

CallPredicate = Callable[[str, str], bool]
"""Whether a call, given by its name and path, is the right one."""


@attrs.define
class _Failure:
    operation: str
    name: str
    code: int
    times: int


@attrs.define
class _CrashPoint:
    is_here: CallPredicate | int
    after: bool
    crash: Callable[[], object]


class DiskFaults:
    """Every call of the disk goes through `call` before it takes effect, and through `done` afterwards."""

    def __init__(self) -> None:
        self.hook: Hook | None = None
        self.calls = 0
        """The number of calls so far, including reads and failed calls."""
        self.has_failed = False
        """Whether a call has failed, as `fail` asked."""
        self._failures: list[_Failure] = []
        self._crash_points: list[_CrashPoint] = []

    def fail(self, operation: str, name: str, code: int, times: int) -> None:
        if times < 1:
            raise ValueError(f"times: {times}, expected 1 or more")
        self._failures.append(_Failure(operation, name, code, times))

    def crash_at(self, point: CallPredicate | int, crash: Callable[[], object], *, after: bool) -> None:
        if isinstance(point, int) and point <= self.calls:
            raise ValueError(f"point: call {point}, expected one to come: {self.calls} have been made")
        self._crash_points.append(_CrashPoint(point, after, crash))

    @property
    def is_pending(self) -> bool:
        return bool(self._failures or self._crash_points or self.hook)

    def clear(self) -> None:
        self.hook = None
        self._failures.clear()
        self._crash_points.clear()

    def call(self, operation: str, path: str) -> None:
        """A call begins.  Raises OSError if it is to fail."""
        self.calls += 1
        if self.hook is not None:
            self.hook(operation, path)
        if self._crash_points:
            self._reach(operation, path, after=False)
        if self._failures:
            self._fail(operation, path)

    def done(self, operation: str, path: str) -> None:
        """A call has taken effect, and its caller does not know yet."""
        if self._crash_points:
            self._reach(operation, path, after=True)

    def _reach(self, operation: str, path: str, *, after: bool) -> None:
        for point in self._crash_points:
            if point.after is not after:
                continue
            here = point.is_here
            if here == self.calls if isinstance(here, int) else here(operation, path):
                self._crash_points.remove(point)
                point.crash()
                return

    def _fail(self, operation: str, path: str) -> None:
        for failure in self._failures:
            if failure.operation == operation and path.endswith(failure.name):
                failure.times -= 1
                if not failure.times:
                    self._failures.remove(failure)
                self.has_failed = True
                raise OSError(failure.code, f"injected: {errno.errorcode[failure.code]}", path)
