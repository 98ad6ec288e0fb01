"""A queue of jobs, each submitted once, which survive their workers: python -m examples.job_queue"""

from collections.abc import AsyncIterator, Sequence

import attrs
import msgpack
import trio

from examples.local_quorum import local_quorum
from kraft_trio import Committed, MsgpackSerde, NewRecord, Node, Record


@attrs.frozen
class Job:
    id: int
    work: str
    attempt: int = 0
    end_ms: int = 0  # when another worker may take it


@attrs.frozen
class Submit:
    work: str


@attrs.frozen
class Take:
    limit_ms: int


@attrs.frozen
class Finish:
    job: Job


class JobQueue:
    """Jobs in the order of submission.  Time is that of the records, so all replicas agree which job is late."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.now_ms = 0

    def apply(self, record: Committed[Submit | Take | Finish]) -> Job | None:
        self.now_ms = max(self.now_ms, record.timestamp_ms)
        match record.value:
            case Submit(work):
                job = Job(record.offset, work)
            case Take(limit_ms):
                free = [job for job in self.jobs.values() if job.end_ms <= self.now_ms]
                if not free:
                    return None
                job = attrs.evolve(free[0], attempt=free[0].attempt + 1, end_ms=self.now_ms + limit_ms)
            case Finish(job):
                return self.jobs.pop(job.id) if self.jobs.get(job.id) == job else None
        self.jobs[job.id] = job
        return job

    def save(self) -> Sequence[NewRecord]:
        return [NewRecord(msgpack.packb([self.now_ms, *map(attrs.astuple, self.jobs.values())]))]

    async def load(self, records: AsyncIterator[Record]) -> None:
        self.now_ms, *jobs = msgpack.unpackb((await anext(records)).value or b"")
        self.jobs = {job[0]: Job(*job) for job in jobs}


async def work(node: Node[Submit | Take | Finish, Job | None], queue: JobQueue) -> None:
    """Do jobs until all are finished.  A job whose worker was too slow is done twice, and finished once."""
    while queue.jobs:
        job = await node.execute(Take(limit_ms=300))
        if job is None:
            await trio.sleep(0.1)
        elif await node.execute(Finish(job), node.new_request_id()):
            print(f"{job.work}: done at attempt {job.attempt}")


async def main() -> None:
    serde, queues = MsgpackSerde(Submit, Take, Finish), [JobQueue() for _ in range(3)]
    async with local_quorum(serde, queues) as nodes, trio.open_nursery() as nursery:
        for number in range(1, 5):
            request_id = nodes[0].new_request_id()
            for node in nodes[:2]:  # the second call is a retry: it gets the same job
                await node.execute(Submit(f"job {number}"), request_id)
        await nodes[2].execute(Take(limit_ms=300))  # by a worker that dies
        for node, queue in zip(nodes, queues, strict=True):
            nursery.start_soon(work, node, queue)


if __name__ == "__main__":
    trio.run(main)
