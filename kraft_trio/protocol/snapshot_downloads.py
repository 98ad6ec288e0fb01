"""Tracks the downloads of snapshots, which a trim spares so that a slow replica can finish (KIP-630)."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey

MAX_DOWNLOADS = 1000
"""The largest number of downloads to remember.  Beyond it, the one idle for longest is forgotten."""


@attrs.define
class _Download:
    piece_given_s: float
    heard_from_s: float


class SnapshotDownloads:
    """The downloads from one leader.  Times are in seconds, on one clock.

    A replica's download lasts from its first piece until it has caught up with the log, because it also needs the log
    after the snapshot.  The caller of `under_way` decides when a silent replica has given up.
    """

    def __init__(self) -> None:
        self._downloads: dict[tuple[ReplicaKey | None, OffsetAndEpoch], _Download] = {}
        """The longest idle first."""

    def piece_given(self, reader: ReplicaKey | None, snapshot_id: OffsetAndEpoch, now_s: float) -> None:
        """Note a piece that was sent.  `reader` is None for a client that is not a replica."""
        self._downloads.pop((reader, snapshot_id), None)
        if len(self._downloads) >= MAX_DOWNLOADS:
            del self._downloads[next(iter(self._downloads))]
        self._downloads[reader, snapshot_id] = _Download(now_s, now_s)

    def fetched(self, reader: ReplicaKey, has_caught_up_since: Callable[[float], bool], now_s: float) -> None:
        """Note a Fetch of that replica.  Its downloads end when it has caught up after the last piece."""
        for key in [key for key in self._downloads if key[0] == reader]:
            download = self._downloads.pop(key)
            if not has_caught_up_since(download.piece_given_s):
                download.heard_from_s = now_s
                self._downloads[key] = download

    def under_way(self, since_s: float) -> frozenset[OffsetAndEpoch]:
        """The snapshots with an unfinished download that was active at `since_s` or later."""
        return frozenset(id for (_, id), download in self._downloads.items() if download.heard_from_s >= since_s)

    def clear(self) -> None:
        """Forget all downloads."""
        self._downloads.clear()
