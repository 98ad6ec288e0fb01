"""The checks of `/livez` and `/readyz`, and their text, which is etcd's."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Final

import attrs
import trio

from kraft_trio.node_tree import NodeTree

PROBE_TIMEOUT_S: Final = 1.0
"""Time in which the disk must answer."""
FRESH_S: Final = 1.0
"""The disk is not asked more often than that."""
MIN_FREE_BYTES: Final = 64 * 1024 * 1024


@attrs.frozen
class Check:
    """One check by name.  It has passed if there is no problem."""

    name: str
    problem: str | None = None
    note: str | None = None
    """What is wrong, though it is no reason to send clients elsewhere: it is the same on all nodes."""


class DiskProbe:
    """Looks at the node's directory in a thread.  If the disk hangs, one thread at most waits for it."""

    def __init__(self, directory: str, free_bytes: Callable[[str], int | None]) -> None:
        self._directory = directory
        self._free_bytes = free_bytes
        self._thread = trio.CapacityLimiter(1)
        self._looked_at_s = -inf
        self._newest: tuple[Check, ...] = ()
        self.newest_free_bytes: int | None = None
        """What the disk had left at the newest look; None if it did not answer."""

    async def checks(self) -> tuple[Check, ...]:
        if trio.current_time() - self._looked_at_s < FRESH_S:
            return self._newest
        found, free = _hanging(), None
        with trio.move_on_after(PROBE_TIMEOUT_S):
            found, free = await trio.to_thread.run_sync(self._look, abandon_on_cancel=True, limiter=self._thread)
        self._looked_at_s, self._newest, self.newest_free_bytes = trio.current_time(), found, free
        return found

    def _look(self) -> tuple[tuple[Check, ...], int | None]:
        """Return the checks, and the free bytes of the disk.  Runs in a thread; a late answer is dropped."""
        try:
            may_write = os.access(self._directory, os.W_OK | os.X_OK)
            free = self._free_bytes(self._directory)
        except OSError as error:
            return (Check("log-directory-writable", error.strerror), Check("disk-space", error.strerror)), None
        refused = None if may_write else f"{self._directory} cannot be written"
        short = None
        if free is not None and free < MIN_FREE_BYTES:
            short = f"{free} bytes left, at least {MIN_FREE_BYTES} expected"
        return (Check("log-directory-writable", refused), Check("disk-space", short)), free


def _hanging() -> tuple[Check, ...]:
    problem = f"the disk did not answer within {PROBE_TIMEOUT_S:g} s"
    return Check("log-directory-writable", problem), Check("disk-space", problem)


def liveness(tree: NodeTree[Any]) -> tuple[Check, ...]:
    """Whether the process works.  A check that fails here is a reason to restart it."""
    failure = tree.disk_failure or tree.log.poisoned
    problem = "the node has stopped" if tree.is_closed else None if failure is None else str(failure)
    return (Check("not-failed", problem),)


def readiness(tree: NodeTree[Any], disk: Sequence[Check]) -> tuple[Check, ...]:
    """Whether the node can serve.  `disk` is what DiskProbe has found."""
    why = tree.fetch_problem.reason
    never = "not known since the start" if why is None else f"not known since the start; the last Fetch failed: {why}"
    unknown = never if tree.log.high_watermark is None else None
    checks = (*liveness(tree), Check("leader-known", _leaderless(tree)), Check("high-watermark-known", unknown))
    if tree.driver is not None:
        failure = tree.driver.failure
        stopped = None if failure is None else f"stopped at offset {tree.driver.applied_offset}: {failure}"
        checks = (*checks, Check("state-machine-applies", stopped, tree.machine_complaint()))
    return (*checks, *disk)


def _leaderless(tree: NodeTree[Any]) -> str | None:
    """Why this node has no leader.  One that has lost its leader, and then a pre-vote, names it again and again."""
    view, problem = tree.election.view.value, tree.fetch_problem
    if view.leader_id is None:
        return f"no leader is known in epoch {view.epoch}"
    if view.leader_id == tree.key.id or problem.since_s is None:
        return None
    lasted_s = trio.current_time() - problem.since_s
    if lasted_s * 1000 < tree.config.fetch_timeout_ms:
        return None
    return f"no records taken from node {view.leader_id} for {lasted_s:.1f} s: {problem.reason}"


def as_text(endpoint: str, checks: Sequence[Check], *, verbose: bool) -> tuple[int, bytes]:
    """The status and the body.  Each check is listed with `verbose`, and whenever one has failed or has a note."""
    failed = any(check.problem is not None for check in checks)
    lines = [_line(check) for check in checks]
    if not failed and not verbose and all(check.note is None for check in checks):
        lines = ["ok"]
    else:
        lines.append(f"{endpoint} check {'failed' if failed else 'passed'}")
    return 503 if failed else 200, ("\n".join(lines) + "\n").encode()


def _line(check: Check) -> str:
    if check.problem is not None:
        return f"[-]{check.name} failed: {check.problem}"
    return f"[+]{check.name} ok" + ("" if check.note is None else f", but: {check.note}")
