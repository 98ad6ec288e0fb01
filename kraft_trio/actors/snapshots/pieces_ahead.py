"""Requests several pieces of a snapshot ahead, so that the leader reads while this replica writes."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs
import trio

from kraft_trio.actors.snapshots.snapshot_fetch import SnapshotFetch
from kraft_trio.errors import NetworkError
from kraft_trio.wire.apis.fetch_snapshot import FETCH_SNAPSHOT, FetchSnapshotRequest, FetchSnapshotResponse
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode

PIECES_AHEAD: Final = 4
"""Limit for outstanding requests, of up to a mebibyte each.  With only one, each side would wait for the other's
disk."""


class PiecesAhead:
    """The requests of one download over one connection, answered in order.  One task uses it, and calls `end`.

    The first piece tells the size of the snapshot and of a piece.  Only then are several pieces requested at a time.
    After `end`, the connection is usable if no answer was outstanding.
    """

    def __init__(self, connection: Connection, fetch: SnapshotFetch, request: FetchSnapshotRequest) -> None:
        """`request` is a request for any piece; only its position is replaced."""
        self._connection = connection
        self._fetch = fetch
        self._request = request
        self._positions: deque[int] = deque()
        """The positions of the outstanding requests."""
        self._piece_bytes: int | None = None

    @property
    def is_out_of_step(self) -> bool:
        """Whether the next piece leaves a gap, because an earlier one was shorter than expected."""
        return bool(self._positions) and self._positions[0] != self._fetch.position

    async def next(self, timeout_s: float) -> FetchSnapshotResponse:
        """Receive the next piece.  The caller handles the response's errors; its memory is valid until the next call.

        Raises NetworkError if there is no response within `timeout_s`, and what `Connection.request` raises.
        """
        await self._ask()
        self._positions.popleft()
        response: FetchSnapshotResponse | None = None
        with trio.move_on_after(timeout_s):
            response = await self._connection.finish_lent(FETCH_SNAPSHOT)
        if response is None:
            raise NetworkError(f"no answer to a FetchSnapshot in {timeout_s:g} s")
        if response.error == response.partition_error == ErrorCode.none:
            self._piece_bytes = len(response.unaligned_records)
        return response

    async def _ask(self) -> None:
        if not self._positions:
            await self._ask_for(self._fetch.position)
        size, piece_bytes = self._fetch.size_in_bytes, self._piece_bytes
        if size is None or piece_bytes is None:
            return
        while len(self._positions) < PIECES_AHEAD and self._positions[-1] + piece_bytes < size:
            await self._ask_for(self._positions[-1] + piece_bytes)

    async def _ask_for(self, position: int) -> None:
        self._positions.append(position)
        await self._connection.begin(FETCH_SNAPSHOT, attrs.evolve(self._request, position=position))

    async def end(self) -> None:
        """Close the connection if answers are outstanding, because nobody waits for them any longer."""
        if self._positions and self._connection.usable:
            with trio.CancelScope(shield=True):
                await self._connection.aclose()
