"""What the benchmarks say to our nodes, straight over `kraft_trio.wire`."""

from __future__ import annotations

import time
from uuid import UUID

import trio

from benchmarks.children import BenchmarkError
from kraft_trio.errors import KraftError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.wire.api import DESCRIBE_CLUSTER, LIST_OFFSETS, PRODUCE, READ_INDEX
from kraft_trio.wire.apis.describe_cluster import CONTROLLERS, DescribeClusterRequest
from kraft_trio.wire.apis.list_offsets import LATEST, ListOffsetsPartition, ListOffsetsRequest
from kraft_trio.wire.apis.produce import ProducePartition, ProducePartitionResponse, ProduceRequest
from kraft_trio.wire.apis.read_index import ReadIndexRequest
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.network import Network
from kraft_trio.wire.tcp_network import TcpNetwork

TOPIC = "__cluster_metadata"
TOPIC_ID = UUID(int=1)
CLIENT_ID = "kraft-benchmark"
COMMIT_TIMEOUT_MS = 30_000
PROBE_SECONDS = 2.0
RESPONSE_LIMIT_BYTES = 1 << 20

_LATEST_OFFSET_REQUEST = ListOffsetsRequest((ListOffsetsPartition(TOPIC, partition=0, timestamp=LATEST),))


async def connect(endpoint: Endpoint, network: Network | None = None) -> Connection:
    """Connect over that network, or over TCP.  Raises KraftError when the node cannot be talked to."""
    stream = await (network or TcpNetwork()).connect(endpoint)
    return await Connection.negotiated(stream, CLIENT_ID, RESPONSE_LIMIT_BYTES)


def produce_request(value: bytes) -> ProduceRequest:
    """One record without a key, to be acknowledged when committed (acks=all)."""
    batch = encode_batch([NewRecord(value=value)], timestamp_ms=time.time_ns() // 1_000_000)
    partition = ProducePartition(topic_name=TOPIC, topic_id=TOPIC_ID, partition=0, records=batch)
    return ProduceRequest(acks=-1, timeout_ms=COMMIT_TIMEOUT_MS, partitions=(partition,))


async def produce(connection: Connection, request: ProduceRequest) -> ProducePartitionResponse:
    """The node's answer.  Raises BenchmarkError when it is for something else, KraftError as the connection does."""
    response = await connection.request(PRODUCE, request)
    if len(response.partitions) != 1:
        raise BenchmarkError(f"Produce of one partition answered for {len(response.partitions)}")
    return response.partitions[0]


async def commit(connection: Connection, request: ProduceRequest) -> None:
    """Raises BenchmarkError when the record was not acknowledged."""
    answer = await produce(connection, request)
    if answer.error != ErrorCode.none:
        raise BenchmarkError(f"Produce answered {answer.error.name}: {answer.error_message}")


async def ask_latest_offset(connection: Connection) -> None:
    """The floor: a request that the leader answers at once.  Raises BenchmarkError when it does not."""
    response = await connection.request(LIST_OFFSETS, _LATEST_OFFSET_REQUEST)
    if [answer.error for answer in response.partitions] != [ErrorCode.none]:
        raise BenchmarkError(f"ListOffsets answered {response.partitions}")


async def ask_cluster_id(connection: Connection) -> str:
    return (await connection.request(DESCRIBE_CLUSTER, DescribeClusterRequest(CONTROLLERS))).cluster_id


async def ask_read_index(connection: Connection, cluster_id: str) -> None:
    """Raises BenchmarkError when the leader does not tell."""
    response = await connection.request(READ_INDEX, ReadIndexRequest(cluster_id))
    if response.error != ErrorCode.none:
        raise BenchmarkError(f"ReadIndex answered {response.error.name}")


async def try_to_commit(endpoint: Endpoint, value: bytes) -> bool:
    """Commit a value on a new connection; False when that node refuses, cannot, or takes longer than PROBE_SECONDS."""
    try:
        with trio.fail_after(PROBE_SECONDS):
            connection = await connect(endpoint)
            answer = await produce(connection, produce_request(value))
            await connection.aclose()
    except (KraftError, OSError, trio.TooSlowError):
        return False
    return answer.error == ErrorCode.none
