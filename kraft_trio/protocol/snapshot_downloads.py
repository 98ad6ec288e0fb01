"""Who is being given a snapshot: what a trim spares, so that a slow replica gets to the end of it (KIP-630)."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey

MAX_DOWNLOADS = 1000
"""How many are known at once; beyond that the one that nobody has gone on with for longest is forgotten."""


@attrs.define
class _Download:
    piece_given_s: float
    heard_from_s: float


class SnapshotDownloads:
    """The downloads from one leader.  A replica's lasts from its first piece until it has caught up with the log.

    Having the snapshot is not enough: it needs the log behind it, too.  Whoever is not heard of for a while has given
    up; how long that is, the one who asks decides.  Times are in seconds, on one clock.
    """

    def __init__(self) -> None:
        self._downloads: dict[tuple[ReplicaKey | None, OffsetAndEpoch], _Download] = {}
        """Least recently heard of first."""

    def piece_given(self, reader: ReplicaKey | None, snapshot_id: OffsetAndEpoch, now_s: float) -> None:
        """`reader` is None for one that is no replica, and wants the snapshot alone."""
        self._downloads.pop((reader, snapshot_id), None)
        if len(self._downloads) >= MAX_DOWNLOADS:
            del self._downloads[next(iter(self._downloads))]
        self._downloads[reader, snapshot_id] = _Download(now_s, now_s)

    def fetched(self, reader: ReplicaKey, has_caught_up_since: Callable[[float], bool], now_s: float) -> None:
        """That replica has fetched from the log; its downloads are over once it has caught up after the last piece."""
        for key in [key for key in self._downloads if key[0] == reader]:
            download = self._downloads.pop(key)
            if not has_caught_up_since(download.piece_given_s):
                download.heard_from_s = now_s
                self._downloads[key] = download

    def under_way(self, since_s: float) -> frozenset[OffsetAndEpoch]:
        """The snapshots whose downloads were heard of then or later, and are not over."""
        return frozenset(id for (_, id), download in self._downloads.items() if download.heard_from_s >= since_s)

    def clear(self) -> None:
        """Nobody is given anything any more."""
        self._downloads.clear()
