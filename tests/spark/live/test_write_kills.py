"""What a task does, in processes that are killed, with leaders that are killed: a short form of test_write_soak.py.

Without Spark, whose processes take most of that test's time.
"""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Iterator
from multiprocessing.process import BaseProcess

import pyarrow as pa
import pytest
import trio
from pyspark.sql.types import StringType, StructField, StructType

from harness.quorum import Quorum
from kraft_trio.spark.writing.identity import PartitionWrite, Write
from kraft_trio.spark.writing.options import read_write_options
from kraft_trio.spark.writing.rows import RecordMaker
from kraft_trio.spark.writing.writer import append_all
from tests.acceptance.conftest import MakeQuorum
from tests.spark.live.reading import committed_rows

MICRO_BATCHES, PARTITIONS, PARTS = 4, 2, 8
VALUES = StructType([StructField("value", StringType())])


def values_of(of: PartitionWrite, part: int) -> list[str]:
    """Two batches of the log, or a little less."""
    return [f"{of.write.version}/{of.partition}/{part}/{number}/".ljust(150, ".") for number in range(9)]


class Attempt:
    """A process that appends a partition, and writes a byte to a pipe before each part of its rows."""

    def __init__(self, quorum: Quorum, of: PartitionWrite) -> None:
        self._told, telling = os.pipe()
        # Of what it inherits, it uses nothing but code.
        self._process: BaseProcess = multiprocessing.get_context("fork").Process(
            target=_append, args=(quorum.bootstrap_servers, of, telling)
        )
        self._process.start()
        os.close(telling)

    def kill_after(self, parts: int) -> None:
        """Kill it when it has asked for so many parts of its rows."""
        for _ in range(parts):
            os.read(self._told, 1)
        self._process.kill()
        self._process.join()
        os.close(self._told)

    def finish(self) -> None:
        self._process.join()
        os.close(self._told)
        assert self._process.exitcode == 0


def _append(bootstrap_servers: str, of: PartitionWrite, telling: int) -> None:
    def parts() -> Iterator[pa.RecordBatch]:
        for part in range(PARTS):
            os.write(telling, b".")
            yield pa.record_batch({"value": pa.array(values_of(of, part))})

    options = read_write_options({"bootstrapControllers": bootstrap_servers, "maxBatchBytes": "1024"})
    trio.run(append_all, options, RecordMaker.of(VALUES, is_msgpack=False), of, parts())


@pytest.mark.rotating(5)
def test_attempts_and_leaders_are_killed(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(3)
    quorum.start()
    choose = random.Random(1)
    for batch_id in range(MICRO_BATCHES):
        ofs = [PartitionWrite(Write("the query", batch_id), partition) for partition in range(PARTITIONS)]
        for attempt in [Attempt(quorum, of) for of in ofs]:
            attempt.kill_after(choose.randint(1, PARTS))
        # One of the partitions has two attempts at a time, and the leader dies under them.
        attempts = [Attempt(quorum, of) for of in (*ofs, ofs[batch_id % PARTITIONS])]
        if batch_id % 2:
            leader = quorum.leader()
            leader.kill()
            leader.start()
        for attempt in attempts:
            attempt.finish()
    quorum.wait_until_caught_up()
    found = [(value or b"").decode() for _, value in committed_rows(quorum.nodes[1])]
    for partition in range(PARTITIONS):
        assert [value for value in found if value.split("/")[1] == str(partition)] == [
            value
            for batch_id in range(MICRO_BATCHES)
            for part in range(PARTS)
            for value in values_of(PartitionWrite(Write("the query", batch_id), partition), part)
        ]
