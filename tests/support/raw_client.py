"""Requests of any kind to one node of a cluster, as a peer or a client would send them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, TypeVar
from uuid import UUID

import attrs

from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, ReplicaKey, VersionRange
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.invariants import INVARIANTS, NothingFromStrangers, OldCopiesAreTold
from kraft_trio.simulation.setup import CLUSTER_ID
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.wire.api import DESCRIBE_QUORUM, FETCH, INIT_PRODUCER_ID, PRODUCE, VOTE, Api
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft_trio.wire.apis.fetch import FetchPartition, FetchPartitionResponse, FetchRequest
from kraft_trio.wire.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kraft_trio.wire.apis.produce import ProducePartition, ProducePartitionResponse, ProduceRequest
from kraft_trio.wire.apis.vote import VoteRequest, VoteResponse
from kraft_trio.wire.connection import Connection

TOPIC = "__cluster_metadata"
TOPIC_ID = UUID(int=1)
CLIENT = "client"
"""The host that it is on."""
STRANGER = ReplicaKey(9, UUID(int=1009))
"""A replica that the cluster does not have."""

FORGED: Final = tuple(
    invariant for invariant in INVARIANTS if invariant not in (NothingFromStrangers, OldCopiesAreTold)
)
"""What still holds where a test asks in the name of replicas.

They may not have begun the epoch that they seem to name, nor lack what they had acknowledged.
"""

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


def batch_of(
    *values: bytes, producer_id: int = -1, producer_epoch: int = 0, base_sequence: int = -1, timestamp_ms: int = 0
) -> bytes:
    """One batch, an idempotent producer's where it names one."""
    return encode_batch(
        [NewRecord(value=value) for value in values],
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch if producer_id >= 0 else -1,
        base_sequence=base_sequence,
    )


@attrs.frozen
class RawClient:
    """One connection to one node."""

    connection: Connection

    @classmethod
    @asynccontextmanager
    async def connected(
        cls,
        cluster: Cluster,
        node_id: int,
        endpoint: Endpoint | None = None,
        client_id: str = "test",
        *,
        host: str = CLIENT,
    ) -> AsyncIterator[RawClient]:
        """To where that node listens, or to another listener of its own."""
        stream = await cluster.network.seen_from(host).connect(endpoint or cluster.endpoint_of(node_id))
        client = cls(await Connection.negotiated(stream, client_id, 2**24))
        try:
            yield client
        finally:
            await client.connection.aclose()

    async def ask(self, api: Api[RequestT, ResponseT], request: RequestT) -> ResponseT:
        return await self.connection.request(api, request)

    async def produce(
        self, records: bytes | None, *, acks: int = -1, timeout_ms: int = 30_000
    ) -> ProducePartitionResponse:
        partition = ProducePartition(TOPIC, TOPIC_ID, 0, records)
        response = await self.ask(PRODUCE, ProduceRequest(acks, timeout_ms, (partition,)))
        return response.partitions[0]

    async def init_producer_id(self) -> InitProducerIdResponse:
        return await self.ask(INIT_PRODUCER_ID, InitProducerIdRequest())

    async def describe(self) -> DescribeQuorumResponse:
        return await self.ask(DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC))

    async def fetch(
        self,
        offset: int,
        *,
        epoch: int = -1,
        last_fetched_epoch: int = -1,
        replica: ReplicaKey | None = None,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        high_watermark: int = -1,
        topic_id: UUID = TOPIC_ID,
        max_bytes: int = 2**20,
        kraft_versions: VersionRange | None = None,
        read_round: int = 0,
        any_replica: bool = False,
    ) -> FetchPartitionResponse:
        """As that replica, or as a consumer."""
        partition = FetchPartition(
            topic_name=TOPIC,
            topic_id=topic_id,
            partition=0,
            fetch_offset=offset,
            max_bytes=max_bytes,
            current_leader_epoch=epoch,
            last_fetched_epoch=last_fetched_epoch,
            replica_directory_id=replica.directory_id if replica else NO_DIRECTORY_ID,
            high_watermark=high_watermark,
        )
        request = FetchRequest(
            cluster_id=CLUSTER_ID,
            replica_id=replica.id if replica else -1,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            partitions=(partition,),
            kraft_versions=kraft_versions,
            read_round=read_round,
            any_replica=any_replica,
        )
        response = await self.ask(FETCH, request)
        if not response.partitions:
            return FetchPartitionResponse(TOPIC, topic_id, 0, error=response.error)
        return response.partitions[0]

    async def vote(
        self,
        candidate: ReplicaKey,
        epoch: int,
        log_end: tuple[int, int],
        *,
        pre_vote: bool = False,
        cluster_id: str | None = CLUSTER_ID,
        receiver: ReplicaKey | None = None,
    ) -> VoteResponse:
        """`log_end` is the candidate's: offset (exclusive) and epoch."""
        return await self.ask(
            VOTE,
            VoteRequest(
                cluster_id=cluster_id,
                voter_id=receiver.id if receiver else -1,
                topic=TOPIC,
                partition=0,
                replica=candidate,
                replica_epoch=epoch,
                voter_directory_id=receiver.directory_id if receiver else NO_DIRECTORY_ID,
                last_offset=log_end[0],
                last_offset_epoch=log_end[1],
                pre_vote=pre_vote,
            ),
        )
