"""Fetch from the leader as so many observers do, say so, and go on until stdin ends: `… HOST PORT --number 50`.

They keep nothing, so that hundreds of them fit into one process: the leader sees the requests of observers that have
written and synced at once what they were sent.  One that an election puts out of step ends the process.
"""

from __future__ import annotations

import sys
from uuid import uuid4

import click
import trio

from benchmarks.children import BenchmarkError
from benchmarks.kraft_client import TOPIC, TOPIC_ID, ask_cluster_id, connect
from kraft_trio.protocol.types import Endpoint
from kraft_trio.protocol.voter_set import SUPPORTED_KRAFT_VERSIONS
from kraft_trio.storage.batches.batch_header import iter_headers
from kraft_trio.wire.api import DESCRIBE_QUORUM, FETCH
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest
from kraft_trio.wire.apis.fetch import FetchPartition, FetchRequest
from kraft_trio.wire.error_codes import ErrorCode

FIRST_ID = 1000
MAX_WAIT_MS = 500
MAX_BYTES = 1 << 20


async def observe(
    endpoint: Endpoint, number: int, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Fetch from the end of the log on.

    Raises BenchmarkError if the leader refuses, and KraftError as a connection does.
    """
    connection = await connect(endpoint)
    cluster_id = await ask_cluster_id(connection)
    quorum = await connection.request(DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC))
    epoch, offset, high_watermark = quorum.leader_epoch, quorum.high_watermark, -1
    directory_id = uuid4()
    is_known = False
    while True:
        partition = FetchPartition(
            *(TOPIC, TOPIC_ID, 0, offset, MAX_BYTES),
            current_leader_epoch=epoch,
            last_fetched_epoch=epoch,
            replica_directory_id=directory_id,
            high_watermark=high_watermark,
        )
        request = FetchRequest(
            *(cluster_id, FIRST_ID + number, MAX_WAIT_MS if is_known else 0),
            max_bytes=MAX_BYTES,
            partitions=(partition,),
            kraft_versions=SUPPORTED_KRAFT_VERSIONS,
        )
        [answer] = (await connection.request(FETCH, request)).partitions
        if answer.error != ErrorCode.none or answer.diverging or answer.snapshot_id:
            raise BenchmarkError(f"Fetch answered {answer}")
        for _, header in iter_headers(answer.records):
            offset = header.last_offset + 1
        high_watermark = answer.high_watermark
        if not is_known:
            is_known = True
            task_status.started()


async def run(endpoint: Endpoint, number: int) -> None:
    async with trio.open_nursery() as nursery:
        for at in range(number):
            await nursery.start(observe, endpoint, at)
        click.echo(f"{number} observe")
        await trio.to_thread.run_sync(sys.stdin.read)
        nursery.cancel_scope.cancel()


@click.command(help=__doc__)
@click.argument("host")
@click.argument("port", type=int)
@click.option("--number", type=click.IntRange(1), required=True)
def main(host: str, port: int, number: int) -> None:
    trio.run(run, Endpoint(host, port), number)


if __name__ == "__main__":
    main()
