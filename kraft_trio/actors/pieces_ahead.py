"""The pieces of a snapshot, asked for before the ones before them have come: the leader reads while we write."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs
import trio

from kraft_trio.actors.snapshot_fetch import SnapshotFetch
from kraft_trio.errors import NetworkError
from kraft_trio.wire.apis.fetch_snapshot import FETCH_SNAPSHOT, FetchSnapshotRequest, FetchSnapshotResponse
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode

PIECES_AHEAD: Final = 4
"""How many answers may be on their way: on the wire, in the buffers of the kernels, being read; a mebibyte each.
Without them the leader waits for this replica's disk, and this replica for the leader's, in turn."""


class PiecesAhead:
    """One download's requests over one connection, answered in order; made and used by one task, ended by `end`.

    The first piece tells how long the snapshot is, and how much the leader gives at a time; only then more than one is
    asked for.  The connection can be used for other things again where `end` found no answer outstanding.
    """

    def __init__(self, connection: Connection, fetch: SnapshotFetch, request: FetchSnapshotRequest) -> None:
        """`request` asks for a piece, wherever it begins."""
        self._connection = connection
        self._fetch = fetch
        self._request = request
        self._positions: deque[int] = deque()
        """Where the pieces begin that were asked for and have not come."""
        self._piece_bytes: int | None = None

    @property
    def is_out_of_step(self) -> bool:
        """Whether what comes next does not continue what is here, as a piece was shorter than the ones before."""
        return bool(self._positions) and self._positions[0] != self._fetch.position

    async def next(self, timeout_s: float) -> FetchSnapshotResponse:
        """The answer for the piece that continues what is here; its errors are the caller's.  It holds until the next.

        Raises NetworkError where it does not come in that time, and what `Connection.request` raises.
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
        """Nobody waits for the answers that are outstanding, if any are: then the connection is closed."""
        if self._positions and self._connection.usable:
            with trio.CancelScope(shield=True):
                await self._connection.aclose()
