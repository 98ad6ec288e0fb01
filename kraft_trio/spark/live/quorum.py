"""Reads a quorum's committed log from its leader with Fetch, without being a replica.

Works with Kafka's controllers too, which differ in three ways.  They also send uncommitted records, so everything above
the high watermark is cut off here.  They require the leader's epoch.  And they take a reader of the log's start for a
new replica.
"""

from __future__ import annotations

import platform
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Final, NoReturn, TypeVar

import attrs
import trio

from kraft_trio.client.leader_connection import LeaderConnection
from kraft_trio.client.leader_finder import LeaderFinder
from kraft_trio.client.replica_snapshots import ask_for_snapshots
from kraft_trio.client.snapshot_piece import NoSnapshotError, snapshot_piece
from kraft_trio.errors import ConfigError, KraftError, NetworkError, ProtocolError, UnsupportedVersionError
from kraft_trio.protocol.types import Endpoint, OffsetAndEpoch
from kraft_trio.security.client_network import Security
from kraft_trio.spark.live.snapshot_values import values_in
from kraft_trio.storage.batches.batch import decode_records
from kraft_trio.storage.batches.batch_header import check_crc, iter_headers, peek_header, whole_batches_size
from kraft_trio.wire.api import REPLICA_SNAPSHOTS
from kraft_trio.wire.apis.describe_quorum import DescribedProducer
from kraft_trio.wire.apis.fetch import FetchPartitionResponse
from kraft_trio.wire.apis.replica_snapshots import ReplicaSnapshotsRequest
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.network import Network

T = TypeVar("T")

CLIENT_ID: Final = "kraft-spark"
FETCH_BYTES: Final = 2 * 1024 * 1024
RETRY_S: Final = 0.1


class OtherClusterError(KraftError):
    """The nodes belong to another cluster than the one read before."""


class DataLossError(KraftError):
    """Records to be read are gone: trimmed before they were read, or lost from the log."""


class BehindError(NetworkError):
    """The leader knows fewer committed records than were read before.

    A deposed leader that has not noticed says so too.  If it lasts (see `ask_leader`), the log has lost records.
    """


@attrs.frozen
class QuorumAddress:
    """Where a quorum is, and how long to wait for it.  Can be pickled."""

    bootstrap: tuple[Endpoint, ...]
    request_timeout_ms: int
    """Time limit for one answer of one node."""
    timeout_ms: int
    """Time limit for finding a leader, or for the next records."""
    security: Security = Security()
    replicas: tuple[Endpoint, ...] = ()
    """Followers and observers to fetch records from, instead of the leader."""
    topic_name: str | None = None
    """The topic that the quorum must have; None if the user names none."""

    def network(self) -> Network:
        """How this process reaches the nodes; reads the certificates.  Raises ConfigError naming the machine."""
        try:
            return self.security.network(CLIENT_ID)
        except ConfigError as error:
            raise ConfigError(
                f"option kafka.{error} (on {platform.node()}; the driver and each executor read such a file)"
            ) from error

    def known_also_at(self, nodes: tuple[Endpoint, ...]) -> QuorumAddress:
        return attrs.evolve(self, bootstrap=tuple(dict.fromkeys((*self.bootstrap, *nodes))))


@attrs.frozen
class Fetched:
    """Complete committed batches with correct CRCs, and the leader's view of its log."""

    records: bytes
    next_offset: int
    """The offset after the last batch, or the requested offset if there is none."""
    log_start_offset: int
    is_in_log: bool
    """False if the log does not have the requested offset."""

    @property
    def first_epoch(self) -> int | None:
        """The leader epoch of the first batch; None without a batch."""
        return peek_header(self.records).leader_epoch if self.records else None


class QuorumLeader:
    """The leader of a quorum, seen by a reader that trusts only what the leader calls committed."""

    def __init__(self, leader: LeaderConnection) -> None:
        self._leader = leader
        self.cluster_id = leader.cluster_id
        self.topic_name = leader.topic_name
        self.epoch = leader.epoch
        self.name = f"the replica at {leader.endpoint}" if leader.any_replica else f"the leader of epoch {leader.epoch}"
        self.high_watermark: int | None = leader.high_watermark if leader.high_watermark >= 0 else None
        """Exclusive; never falls; None until a record of the leader's epoch has committed."""
        self.nodes = leader.nodes
        """The addresses of the leader and the other voters."""

    async def fetch(self, offset: int, max_bytes: int = FETCH_BYTES, max_wait_ms: int = 0) -> Fetched:
        """The committed batches from the one that holds `offset`, at most `max_bytes` but at least one batch.

        Empty at the committed end, after `max_wait_ms` without more.  Raises NetworkError if another attempt at the
        current leader may succeed; RefusedError; ProtocolError for damaged batches.
        """
        told = await self._ask(offset, max_bytes, max_wait_ms, self.epoch)
        if told.snapshot_id is not None and told.log_start_offset == offset:
            told = await self._ask_at_log_start(offset, max_bytes, max_wait_ms)
            offset = max(offset, 1)
        lost = told.error == ErrorCode.offset_out_of_range or told.diverging is not None or told.snapshot_id is not None
        if told.high_watermark >= 0:
            self.high_watermark = max(told.high_watermark, self.high_watermark or 0)
        if lost:
            return Fetched(b"", offset, told.log_start_offset, is_in_log=False)
        size, next_offset = _committed(told.records, offset, told.high_watermark)
        return Fetched(told.records[:size], next_offset, told.log_start_offset, is_in_log=True)

    async def epoch_before(self, offset: int) -> int | None:
        """The epoch of the record before `offset`, which must be above 0; None if the log does not have it."""
        return (await self.fetch(offset - 1, max_bytes=1)).first_epoch

    async def producers(self, producer_ids: Sequence[int]) -> dict[int, DescribedProducer]:
        """The given idempotent producers that the log remembers."""
        return await self._leader.describe_producers(producer_ids)

    async def log_start_offset(self) -> int:
        return (await self.fetch(0, max_bytes=1)).log_start_offset

    async def snapshot_at_or_below(self, offset: int) -> OffsetAndEpoch | None:
        """A snapshot that ends there or before.  None if the log has all records from offset 0 on.

        A node's bootstrap checkpoint at offset 0 does not count: the first leader writes its records into the log.
        Raises NetworkError if the leader tells of none.
        """
        if REPLICA_SNAPSHOTS.key in self._leader.connection.peer_versions:
            timeout_ms = self._leader.request_timeout_ms
            told = await ask_for_snapshots(
                self._leader.connection, self._leader.endpoint, ReplicaSnapshotsRequest(), timeout_ms
            )
            ids = [one.snapshot_id for one in told.snapshots if 0 < one.snapshot_id.offset <= offset]
            begins = told.log_start_offset
        else:
            # Kafka's leader tells its newest snapshot, and whether an epoch is that of the one where the log begins.
            first = await self._ask(0, 1, 0, 0)
            begins = first.log_start_offset
            newest = first.snapshot_id
            ids = [newest] if newest is not None and 0 < newest.offset <= offset else []
            if not ids and begins > 0:
                ids = [id async for id in self._where_the_log_begins(begins)]
        if not ids and begins > 0:
            raise NetworkError(f"{self.name} tells of no snapshot at or below offset {offset}")
        return max(ids, default=None)

    async def _where_the_log_begins(self, begins: int) -> AsyncIterator[OffsetAndEpoch]:
        for epoch in range(self.epoch, -1, -1):
            told = await self._ask(begins, 1, 0, epoch)
            if told.snapshot_id is None and told.diverging is None:
                yield OffsetAndEpoch(begins, epoch)
                return

    async def snapshot_values(self, id: OffsetAndEpoch) -> list[bytes]:
        """The values of the application's records in a snapshot.

        Raises NetworkError, also if the leader does not have it any more; ProtocolError for a damaged one.
        """
        data = bytearray()
        size: int | None = None
        while size is None or len(data) < size:
            try:
                piece = await snapshot_piece(self._leader, id, len(data), max_bytes=FETCH_BYTES)
            except NoSnapshotError as error:
                raise NetworkError(f"{self.name}: {error}") from error
            size = piece.size if size is None else size
            place = f"snapshot {id}: the piece at {len(data)} of {size} bytes"
            if (piece.position, piece.size) != (len(data), size):
                raise ProtocolError(f"{place} is told to be that at {piece.position} of {piece.size}")
            if not piece.unaligned_records:
                raise ProtocolError(f"{place} is empty")
            data += piece.unaligned_records
        try:
            return values_in(data, id)
        except ProtocolError as error:
            raise ProtocolError(f"snapshot {id}: {error}") from error

    async def offset_at_time(self, timestamp_ms: int) -> int | None:
        """The offset of the first committed record of that time or a later one; None without one.

        Kafka's controllers do not serve ListOffsets.  Their log is bisected, which is right unless their clocks have
        gone back.
        """
        try:
            return await self._leader.offset_at_time(timestamp_ms)
        except UnsupportedVersionError:
            return await self._bisect(timestamp_ms)

    async def _bisect(self, timestamp_ms: int) -> int | None:
        low, high = await self.log_start_offset(), self.high_watermark or 0
        batch = b""
        while low < high:
            middle = (low + high) // 2
            fetched = await self.fetch(middle, max_bytes=1)
            if not fetched.records:
                raise NetworkError(f"{self.name} does not have offset {middle}, which is committed")
            header = peek_header(fetched.records)
            if header.max_timestamp_ms >= timestamp_ms:
                high, batch = min(middle, header.base_offset), fetched.records
            else:
                low = max(middle + 1, header.next_offset)
        if not batch:
            return None
        records = decode_records(batch, 0, peek_header(batch))
        return next((record.offset for record in records if record.timestamp_ms >= timestamp_ms), high)

    async def _ask_at_log_start(self, offset: int, max_bytes: int, max_wait_ms: int) -> FetchPartitionResponse:
        """Get the first batch from Kafka's controllers, which offer their newest snapshot instead.

        They always do so at offset 0.  Above 0 they do so unless they receive the epoch of the end of the log's first
        snapshot, which is at most the epoch of the first batch.  They also return that batch for its second offset.  If
        the batch at offset 0 has only one record, it is left out: it is the LeaderChange that begins every log.
        """
        told = await self._ask(offset + 1, max_bytes, max_wait_ms, self.epoch)
        first = peek_header(told.records) if told.records else None
        if offset == 0 or (first is not None and first.base_offset <= offset):
            return told
        for epoch in range(self.epoch if first is None else first.leader_epoch, -1, -1):
            told = await self._ask(offset, max_bytes, max_wait_ms, epoch)
            if told.snapshot_id is None or told.log_start_offset != offset:
                break
        return told

    async def _ask(
        self, offset: int, max_bytes: int, max_wait_ms: int, last_fetched_epoch: int
    ) -> FetchPartitionResponse:
        return await self._leader.fetch(
            offset, max_bytes=max_bytes, max_wait_ms=max_wait_ms, last_fetched_epoch=last_fetched_epoch
        )


@asynccontextmanager
async def quorum_leader(address: QuorumAddress, network: Network | None = None) -> AsyncIterator[QuorumLeader]:
    """A connection to the leader, closed at the end of the block.

    Raises NetworkError with each node's answer if nobody leads or can be reached; ConfigError for another topic, and
    for files that cannot be read.
    """
    finder = LeaderFinder(
        address.bootstrap,
        CLIENT_ID,
        request_timeout_ms=address.request_timeout_ms,
        network=address.network() if network is None else network,
    )
    async with aclosing(await finder.find()) as leader:
        check_topic(address.topic_name, leader)
        yield QuorumLeader(leader)


def check_topic(expected: str | None, leader: LeaderConnection) -> None:
    """Raise ConfigError for another topic than the user names."""
    if expected is not None and leader.topic_name != expected:
        raise ConfigError(f"topic {expected}: the quorum at {leader.endpoint} has only the topic {leader.topic_name}")


async def not_found(_leader: QuorumLeader, loss: str) -> NoReturn:
    """For questions that do not depend on a position, so nothing can be lost."""
    raise NetworkError(loss)


async def ask_leader(
    address: QuorumAddress,
    question: Callable[[QuorumLeader], Awaitable[T]],
    timeout_ms: int | None = None,
    when_lost: Callable[[QuorumLeader, str], Awaitable[T]] = not_found,
    on_retry: Callable[[], object] = lambda: None,
) -> T:
    """The answer of the current leader, retried for `timeout_ms` (by default the address's).

    Calls `on_retry` before each further attempt.  If only BehindErrors occur for that long, ask `when_lost` of the last
    leader instead.  Raises NetworkError naming the nodes and their answers when the time is over; all other errors at
    once.
    """
    patience_ms = address.timeout_ms if timeout_ms is None else timeout_ms
    network = address.network()
    began_at = trio.current_time()
    behind_since: float | None = None
    while True:
        try:
            async with quorum_leader(address, network) as leader:
                try:
                    return await question(leader)
                except BehindError as error:
                    behind_since = trio.current_time() if behind_since is None else behind_since
                    if trio.current_time() < behind_since + address.timeout_ms / 1000:
                        raise
                    loss = f"for {address.timeout_ms} ms: {error}"
                return await when_lost(leader, loss)
        except BehindError:
            pass  # Waited out, however long it took until there was a leader.
        except NetworkError as error:
            behind_since = None
            if _is_over(began_at, patience_ms):
                raise NetworkError(f"quorum not reached within {patience_ms} ms: {error}") from error
        on_retry()
        await trio.sleep(RETRY_S)


def _is_over(began_at: float, patience_ms: int) -> bool:
    return trio.current_time() + RETRY_S > began_at + patience_ms / 1000


def check_cluster(expected: str | None, leader: QuorumLeader) -> None:
    """Raise OtherClusterError if both ids are known and differ."""
    found = leader.cluster_id
    if expected is not None and found is not None and expected != found:
        raise OtherClusterError(
            f"the checkpoint is of cluster {expected}, the nodes at bootstrapControllers are of cluster {found}: "
            "give the nodes of the first, or another checkpointLocation"
        )


def _committed(records: bytes, offset: int, high_watermark: int) -> tuple[int, int]:
    """How many bytes are whole batches below the high watermark, and the offset after them.

    Raises ProtocolError for damaged batches and for gaps between batches.
    """
    size = whole_batches_size(records)
    if records and not size:
        raise ProtocolError(f"Fetch at offset {offset}: {len(records)} bytes without one whole batch")
    committed_size, next_offset, epoch = 0, offset, 0
    for position, header in iter_headers(records[:size]):
        if header.next_offset > high_watermark:
            break
        check_crc(records, position, header)
        has_next = header.base_offset <= next_offset < header.next_offset
        is_whole_next = header.base_offset == next_offset or not committed_size
        if not (has_next and is_whole_next) or header.leader_epoch < epoch:
            raise ProtocolError(
                f"Fetch at offset {offset}: the batch at {header.base_offset}, of epoch {header.leader_epoch}, is "
                f"where offset {next_offset} is expected, in epoch {epoch} or above"
            )
        committed_size, epoch = position + header.size_in_bytes, header.leader_epoch
        next_offset = header.next_offset
    return committed_size, next_offset
