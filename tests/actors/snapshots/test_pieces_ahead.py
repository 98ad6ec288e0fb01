"""Pieces of a snapshot that are asked for before the ones before them have come."""

from __future__ import annotations

from collections import deque
from typing import cast

import pytest
import trio
import trio.testing

from kraft_trio.actors.snapshots.pieces_ahead import PIECES_AHEAD, PiecesAhead
from kraft_trio.actors.snapshots.snapshot_fetch import SnapshotFetch
from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode

ID = OffsetAndEpoch(10, 1)
REQUEST = FetchSnapshotRequest("cluster", 4, 100, "topic", 0, 1, ID, 0)


class Here:
    """What has come of a snapshot of 1000 bytes, or more where that is said."""

    def __init__(self, position: int = 0, size: int | None = None) -> None:
        self.position, self.size_in_bytes = position, size

    def take(self, response: FetchSnapshotResponse) -> None:
        assert response.position == self.position
        self.position += len(response.unaligned_records)
        self.size_in_bytes = response.size


class Leader:
    """A connection to one that answers with `piece_bytes` at a time, and notes how many answers are outstanding."""

    def __init__(self, size: int = 1000, piece_bytes: int = 100) -> None:
        self.size, self.piece_bytes = size, piece_bytes
        self.asked: list[int] = []
        self.most_outstanding = 0
        self.answers: bool = True
        self.usable = True
        self.error = ErrorCode.none
        self._outstanding: deque[FetchSnapshotRequest] = deque()

    async def begin(self, api: object, request: FetchSnapshotRequest) -> None:
        self.asked.append(request.position)
        self._outstanding.append(request)
        self.most_outstanding = max(self.most_outstanding, len(self._outstanding))

    async def finish_lent(self, api: object) -> FetchSnapshotResponse:
        if not self.answers:
            await trio.sleep_forever()
        request = self._outstanding.popleft()
        if self.error != ErrorCode.none:
            return FetchSnapshotResponse(partition_error=self.error)
        size = min(self.piece_bytes, request.max_bytes, self.size - request.position)
        return FetchSnapshotResponse(
            snapshot_id=ID, size=self.size, position=request.position, unaligned_records=b"x" * size
        )

    async def aclose(self) -> None:
        self.usable = False


def ahead_of(leader: Leader, here: Here) -> PiecesAhead:
    return PiecesAhead(cast("Connection", leader), cast("SnapshotFetch", here), REQUEST)


async def test_the_first_piece_alone_and_then_several_none_twice() -> None:
    leader, here = Leader(), Here()
    ahead = ahead_of(leader, here)
    here.take(await ahead.next(1))
    assert leader.asked == [0]
    while here.position < leader.size:
        here.take(await ahead.next(1))
        assert not ahead.is_out_of_step
    assert leader.asked == list(range(0, 1000, 100))
    assert leader.most_outstanding == PIECES_AHEAD
    await ahead.end()
    assert leader.usable, "nothing is outstanding"


async def test_it_goes_on_in_the_middle() -> None:
    leader, here = Leader(size=950), Here(350, 950)
    ahead = ahead_of(leader, here)
    while here.position < leader.size:
        here.take(await ahead.next(1))
    assert leader.asked == [350, 450, 550, 650, 750, 850]


async def test_the_leader_may_give_less_than_is_asked_for() -> None:
    leader, here = Leader(piece_bytes=30), Here()
    ahead = ahead_of(leader, here)
    while here.position < leader.size:
        here.take(await ahead.next(1))
    assert leader.asked == list(range(0, 1000, 30))


async def test_a_chunk_shorter_than_its_predecessors_is_out_of_step() -> None:
    leader, here = Leader(), Here()
    ahead = ahead_of(leader, here)
    for _ in range(2):
        here.take(await ahead.next(1))
    leader.piece_bytes = 40
    here.take(await ahead.next(1))
    assert here.position == 240
    assert ahead.is_out_of_step
    await ahead.end()
    assert not leader.usable


async def test_an_error_leaves_answers_behind_for_which_nobody_waits() -> None:
    leader, here = Leader(), Here()
    ahead = ahead_of(leader, here)
    for _ in range(2):
        here.take(await ahead.next(1))
    leader.error = ErrorCode.snapshot_not_found
    assert (await ahead.next(1)).partition_error == ErrorCode.snapshot_not_found
    await ahead.end()
    assert not leader.usable


async def test_an_answer_that_does_not_come(autojump_clock: trio.testing.MockClock) -> None:
    leader, here = Leader(), Here()
    leader.answers = False
    with pytest.raises(NetworkError, match="no answer to a FetchSnapshot in 2 s"):
        await ahead_of(leader, here).next(2)
