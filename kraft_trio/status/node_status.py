"""What one node reports about itself: its own view of the quorum, its vital signs, and its newest events, as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kraft_trio.errors import CorruptSnapshotError
from kraft_trio.node_tree import NodeTree
from kraft_trio.status.health import DiskProbe
from kraft_trio.status.own_view import own_view
from kraft_trio.tracing.event_feed import EventFeed

if TYPE_CHECKING:
    from kraft_trio.security.credentials import NodeCredentials


class NodeStatus:
    """Makes the status that the node's listeners give to clients who may describe the cluster."""

    def __init__(self, tree: NodeTree[Any], feed: EventFeed) -> None:
        self._tree = tree
        self._feed = feed
        self.probe = DiskProbe(tree.log.directory, tree.environment.disk.free_bytes)

    async def fields(self) -> dict[str, Any]:
        """Waits for the disk, but not long."""
        if self._tree.environment.has_virtual_time:  # where no thread can be waited for
            free_bytes = self._tree.environment.disk.free_bytes(self._tree.log.directory)
        else:
            await self.probe.checks()
            free_bytes = self.probe.newest_free_bytes
        return {**own_view(self._tree), "vitals": self._vitals(free_bytes)}

    async def text(self) -> str:
        """The same with the newest events, and the time on the clock that theirs is of."""
        fields = await self.fields()
        return json.dumps({**fields, "atMs": self._tree.environment.wall_clock_ms(), "events": self._feed.newest()})

    def _vitals(self, free_bytes: int | None) -> dict[str, Any]:
        """How the node's machine does.  None means what this node does not know.

        The page has a column for each, in `voterRow` of `dashboard/page/views.js`.
        """
        values = self._tree.metrics.values()
        expires_s = None if self._tree.credentials is None else _expiry_of(self._tree.credentials)
        return {
            "syncP99Ms": values.get("sync-latency-p99-ms"),
            "freeBytes": free_bytes,
            "snapshots": len(self._tree.log.snapshots.ids),
            "snapshotAgeMs": self._snapshot_age_ms(),
            "certificateExpiresMs": None if expires_s is None else expires_s * 1000,
        }

    def _snapshot_age_ms(self) -> int | None:
        """Time since the last record that the newest snapshot covers; None without a snapshot."""
        snapshots = self._tree.log.snapshots
        newest = snapshots.newest
        if newest is None or newest in snapshots.corrupt:
            return None
        try:
            timestamp_ms = snapshots.file(newest).timestamp_ms
        except (OSError, CorruptSnapshotError):
            return None
        return max(0, self._tree.environment.wall_clock_ms() - timestamp_ms) if timestamp_ms > 0 else None


def _expiry_of(credentials: NodeCredentials) -> int | None:
    """In seconds since 1970; None without certificates."""
    from kraft_trio.security.certificates import first_expiry  # imports cryptography

    expiries = [first_expiry(one.certificates) for one in credentials.all]
    return min((expiry for expiry in expiries if expiry is not None), default=None)
