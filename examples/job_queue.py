"""A queue of jobs, each submitted once, which survive their workers: python -m examples.job_queue"""

from collections.abc import AsyncIterator, Sequence

import attrs
import msgpack
import trio

from examples.local_quorum import local_quorum
from kraft_trio import Committed, MsgpackSerde, NewRecord, Node, Record


@attrs.frozen
class Job:
    work: str
    id: int = 0  # the offset at which it was submitted
    attempt: int = 0
    end_ms: int = 0  # then another worker may take it


@attrs.frozen
class Take:
    limit_ms: int


@attrs.frozen
class Finish:
    job: Job


class JobQueue:
    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}  # in the order of submission

    def apply(self, record: Committed[Job | Take | Finish]) -> Job | None:
        now_ms = record.timestamp_ms  # the same on all replicas
        match record.value:
            case Job(work):
                self.jobs[record.offset] = Job(work, id=record.offset)
            case Take(limit_ms):
                for job in self.jobs.values():
                    if job.end_ms <= now_ms:
                        self.jobs[job.id] = attrs.evolve(job, attempt=job.attempt + 1, end_ms=now_ms + limit_ms)
                        return self.jobs[job.id]
            case Finish(job) if self.jobs.get(job.id) == job:
                return self.jobs.pop(job.id)
        return None

    def save(self) -> Sequence[NewRecord]:
        return [NewRecord(msgpack.packb(attrs.astuple(job))) for job in self.jobs.values()]

    async def load(self, records: AsyncIterator[Record]) -> None:
        jobs = [Job(*msgpack.unpackb(record.value or b"")) async for record in records]
        self.jobs = {job.id: job for job in jobs}


async def work(node: Node[Job | Take | Finish, Job | None], queue: JobQueue) -> None:
    """Do jobs until all are finished.  A job whose worker was too slow is done twice, and finished once."""
    while queue.jobs:
        await trio.sleep(0.1)
        job = await node.execute(Take(limit_ms=300))
        if job and await node.execute(Finish(job), node.new_request_id()):
            print(f"{job.work}: done at attempt {job.attempt}")


async def main() -> None:
    serde, queues = MsgpackSerde(Job, Take, Finish), [JobQueue() for _ in range(3)]
    async with local_quorum(serde, queues) as nodes, trio.open_nursery() as nursery:
        for number in range(1, 5):
            request_id = nodes[0].new_request_id()
            await nodes[0].execute(Job(f"job {number}"), request_id)
            await nodes[1].execute(Job(f"job {number}"), request_id)  # a retry, which submits nothing
        await nodes[2].execute(Take(limit_ms=300))  # by a worker that dies
        for node, queue in zip(nodes, queues, strict=True):
            nursery.start_soon(work, node, queue)


if __name__ == "__main__":
    trio.run(main)
