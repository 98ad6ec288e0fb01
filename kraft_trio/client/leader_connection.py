"""A connection to the leader of a quorum, and the requests that clients send to nobody else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import attrs

from kraft_trio.client.connecting import ask, drop
from kraft_trio.errors import NetworkError, RefusedError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.api import DESCRIBE_QUORUM, FETCH, INIT_PRODUCER_ID, LIST_OFFSETS, PRODUCE
from kraft_trio.wire.apis.describe_quorum import DescribedProducer, DescribeQuorumRequest
from kraft_trio.wire.apis.fetch import FetchPartition, FetchPartitionResponse, FetchRequest
from kraft_trio.wire.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kraft_trio.wire.apis.list_offsets import ListOffsetsPartition, ListOffsetsRequest
from kraft_trio.wire.apis.produce import ProducePartition, ProducePartitionResponse, ProduceRequest
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import TRY_AGAIN, ErrorCode

_WHEN_COMMITTED: Final = -1


@attrs.frozen
class LeaderConnection:
    """A connection to the leader, and what was said about the leader when it was found.

    Every request raises NetworkError if no answer comes in time, and UnsupportedVersionError, with nothing sent, if the
    leader does not serve the API.
    """

    connection: Connection
    endpoint: Endpoint
    topic_name: str
    topic_id: UUID
    request_timeout_ms: int
    """How long one answer may take, beyond the time that the request itself asks the leader to wait."""
    nodes: tuple[Endpoint, ...] = ()
    """Where nodes of the quorum listen."""
    cluster_id: str | None = None
    epoch: int = -1
    """The epoch that the leader named.  -1 if it was not asked; requests then carry no epoch."""
    high_watermark: int = -1
    """The high watermark (exclusive) that the leader named, or -1."""
    any_replica: bool = False
    """Whether the node need not lead; `fetch` then returns what it knows to be committed."""

    async def aclose(self) -> None:
        """Close the connection; waits for nothing."""
        await drop(self.connection)

    async def init_producer_id(self) -> InitProducerIdResponse:
        """Ask for a new producer id (KIP-98)."""
        return await ask(self.connection, INIT_PRODUCER_ID, InitProducerIdRequest(), self.request_timeout_ms)

    async def produce(self, batch: bytes) -> ProducePartitionResponse:
        """Have one batch appended, and wait until it has committed."""
        timeout_ms = self.request_timeout_ms
        partition = ProducePartition(topic_name=self.topic_name, topic_id=self.topic_id, partition=0, records=batch)
        request = ProduceRequest(acks=_WHEN_COMMITTED, timeout_ms=timeout_ms, partitions=(partition,))
        response = await ask(self.connection, PRODUCE, request, 2 * timeout_ms)
        if len(response.partitions) != 1:
            raise NetworkError(f"Produce: answered for {len(response.partitions)} partitions, 1 was asked for")
        return response.partitions[0]

    async def describe_producers(self, producer_ids: Sequence[int]) -> dict[int, DescribedProducer]:
        """The given idempotent producers that the leader's log remembers; at most MAX_PRODUCERS are asked for."""
        request = DescribeQuorumRequest(self.topic_name, producer_ids=tuple(producer_ids))
        response = await ask(self.connection, DESCRIBE_QUORUM, request, self.request_timeout_ms)
        check_answer("DescribeQuorum", response.error)
        check_answer("DescribeQuorum", response.partition_error)
        return {producer.producer_id: producer for producer in response.producers}

    async def offset_at_time(self, timestamp_ms: int) -> int | None:
        """The offset of the first committed record of that time or a later one; None without one."""
        partition = ListOffsetsPartition(self.topic_name, 0, timestamp_ms, self.epoch)
        response = await ask(self.connection, LIST_OFFSETS, ListOffsetsRequest((partition,)), self.request_timeout_ms)
        if len(response.partitions) != 1:
            raise NetworkError(f"ListOffsets: answered for {len(response.partitions)} partitions, 1 was asked for")
        check_answer("ListOffsets", response.partitions[0].error)
        offset = response.partitions[0].offset
        return offset if offset >= 0 else None

    async def fetch(
        self, offset: int, *, max_bytes: int, max_wait_ms: int = 0, last_fetched_epoch: int = -1
    ) -> FetchPartitionResponse:
        """Fetch batches as a consumer, from the batch that contains `offset` on.

        At the end of the log the leader waits `max_wait_ms` for more.  The answer's error is NONE or
        OFFSET_OUT_OF_RANGE.  Raises NetworkError if another attempt may succeed, and RefusedError otherwise.
        """
        partition = FetchPartition(
            topic_name=self.topic_name,
            topic_id=self.topic_id,
            partition=0,
            fetch_offset=offset,
            max_bytes=max_bytes,
            current_leader_epoch=self.epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        request = FetchRequest(
            cluster_id=self.cluster_id,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            partitions=(partition,),
            any_replica=self.any_replica,
        )
        response = await ask(self.connection, FETCH, request, max_wait_ms + self.request_timeout_ms)
        check_answer(f"read from offset {offset}: Fetch", response.error)
        if len(response.partitions) != 1:
            raise NetworkError(f"Fetch: answered for {len(response.partitions)} partitions, 1 was asked for")
        [answer] = response.partitions
        if answer.error != ErrorCode.offset_out_of_range:
            check_answer(f"read from offset {offset}: Fetch", answer.error)
        return answer


def check_answer(what: str, error: ErrorCode) -> None:
    """Raises NetworkError for an error after which the client should try again, RefusedError for any other."""
    if error in TRY_AGAIN:
        raise NetworkError(f"{what}: {error.name.upper()}")
    if error != ErrorCode.none:
        raise RefusedError(f"{what}: {error.name.upper()}")
