"""Checks in the driver that the log has the rows of a write's tasks, and no others of that write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kraft_trio.errors import KraftError
from kraft_trio.spark.live.quorum import QuorumAddress, QuorumLeader, ask_leader
from kraft_trio.spark.writing.identity import PartitionWrite
from kraft_trio.spark.writing.offsets import Appended
from kraft_trio.wire.apis.describe_quorum import MAX_PRODUCERS, DescribedProducer

MORE_PARTITIONS: Final = 1024
"""How many partitions beyond those of this attempt are looked for."""

ELSE: Final = "with exactlyOnce=false, rows are written at least once (docs/explanation/exactly-once.md)"


class RepeatedWriteError(KraftError):
    """The log has other rows of this write than those to be written.

    An attempt that repeats a write must have the same rows in the same order.
    """


async def check_is_complete(address: QuorumAddress, tasks: Sequence[Appended]) -> None:
    """Ask the leader what it has of this write.  Raises RepeatedWriteError, and NetworkError like `ask_leader`."""
    partitions = possible_partitions(tasks)

    async def known(leader: QuorumLeader) -> dict[int, DescribedProducer]:
        return await leader.producers([partition.producer_id for partition in partitions])

    check_rows(tasks, partitions, await ask_leader(address, known))


def possible_partitions(tasks: Sequence[Appended]) -> list[PartitionWrite]:
    """The partitions of this attempt, and those that an earlier attempt may have had."""
    ours = [task.of for task in tasks]
    first = max((of.partition for of in ours), default=-1) + 1
    more = range(first, first + min(MORE_PARTITIONS, MAX_PRODUCERS - len(ours)))
    return [*ours, *(PartitionWrite(of.write, partition) for of in ours[:1] for partition in more)]


def check_rows(
    tasks: Sequence[Appended], partitions: Sequence[PartitionWrite], known: Mapping[int, DescribedProducer]
) -> None:
    """Raises RepeatedWriteError unless the log has as many rows of each partition as the task had."""
    written = {task.of: task.records for task in tasks}
    for of in partitions:
        producer = known.get(of.producer_id)
        if producer is None or producer.producer_epoch != of.producer_epoch:
            continue
        rows, wanted = producer.last_sequence + 1, written.get(of, 0)
        if rows != wanted:
            raise RepeatedWriteError(
                f"{of}: the log has {rows} rows of it, this attempt {wanted}.  Another attempt had other rows or other "
                "partitions, perhaps because an option of the source or the cluster's size has changed.  Rows may be "
                f"in the log twice; {ELSE}"
            )
