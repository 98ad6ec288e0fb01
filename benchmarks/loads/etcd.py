"""Load an etcd member through grpcio: `python -m benchmarks.loads.etcd ENDPOINT --operation put --in-flight 64 …`.

`--operation put` commits one value; `read` is a linearizable Range of a key that is not there, and `floor` a
serializable one: the same path through client and server, without asking other members.  Requests are a few protobuf
bytes made once: no generated code, nothing encoded while measuring.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import click
import grpc  # type: ignore[import-untyped]
import grpc.aio  # type: ignore[import-untyped]

from benchmarks.etcd_messages import put_request, range_request
from benchmarks.measurement import LoadResult, Stopwatch

PUT = "/etcdserverpb.KV/Put"
RANGE = "/etcdserverpb.KV/Range"
CALL_SECONDS = 30.0
REQUESTS_BYTES = 16 << 20


def _requests(operation: str, value_bytes: int, worker: int) -> tuple[str, list[bytes]]:
    if operation == "put":
        number = max(1, min(1000, REQUESTS_BYTES // max(value_bytes, 1)))
        return PUT, [put_request(b"bench/%04d/%06d" % (worker, i), b"x" * value_bytes) for i in range(number)]
    return RANGE, [range_request(b"absent", serializable=operation == "floor")]


def _load_with_threads(endpoint: str, operation: str, in_flight: int, value_bytes: int, watch: Stopwatch) -> None:
    def work(worker: int) -> None:
        method, requests = _requests(operation, value_bytes, worker)
        call = channel.unary_unary(method)
        sent = 0
        while (began := time.perf_counter()) < watch.end:
            call(requests[sent % len(requests)], timeout=CALL_SECONDS)
            watch.record(began, time.perf_counter())
            sent += 1

    with grpc.insecure_channel(endpoint) as channel:
        if in_flight == 1:
            work(0)
            return
        _run_threads(work, in_flight)


def _run_threads(work: Callable[[int], None], count: int) -> None:
    failures: list[BaseException] = []

    def guarded(worker: int) -> None:
        try:
            work(worker)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(worker,)) for worker in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


async def _load_with_asyncio(endpoint: str, operation: str, in_flight: int, value_bytes: int, watch: Stopwatch) -> None:
    async def work(worker: int, channel: grpc.aio.Channel) -> None:
        method, requests = _requests(operation, value_bytes, worker)
        call: Callable[..., Awaitable[bytes]] = channel.unary_unary(method)
        sent = 0
        while (began := time.perf_counter()) < watch.end:
            await call(requests[sent % len(requests)], timeout=CALL_SECONDS)
            watch.record(began, time.perf_counter())
            sent += 1

    async with grpc.aio.insecure_channel(endpoint) as channel:
        await asyncio.gather(*(work(worker, channel) for worker in range(in_flight)))


def _load_with_futures(endpoint: str, operation: str, in_flight: int, value_bytes: int, watch: Stopwatch) -> None:
    """grpcio's own thread completes the calls; each completion starts the next call."""
    done = threading.Semaphore(0)
    failures: list[BaseException] = []
    with grpc.insecure_channel(endpoint) as channel:

        def worker_loop(worker: int) -> Callable[[], None]:
            method, requests = _requests(operation, value_bytes, worker)
            call = channel.unary_unary(method)
            sent = 0

            def begin() -> None:
                nonlocal sent
                began = time.perf_counter()
                if began >= watch.end:
                    done.release()
                    return
                sent += 1
                future = call.future(requests[sent % len(requests)], timeout=CALL_SECONDS)

                def completed(finished: grpc.Future) -> None:
                    if (error := finished.exception()) is not None:
                        failures.append(error)
                        done.release()
                        return
                    watch.record(began, time.perf_counter())
                    begin()

                future.add_done_callback(completed)

            return begin

        for worker in range(in_flight):
            worker_loop(worker)()
        for _ in range(in_flight):
            done.acquire()
    if failures:
        raise failures[0]


def load(
    endpoint: str, mode: str, operation: str, in_flight: int, value_bytes: int, warm_up_seconds: float, seconds: float
) -> LoadResult:
    """Keep `in_flight` calls outstanding for the time given.  Raises grpc.RpcError when one fails."""
    watch = Stopwatch(f"grpcio {mode}", warm_up_seconds, seconds)
    if mode == "asyncio":
        asyncio.run(_load_with_asyncio(endpoint, operation, in_flight, value_bytes, watch))
    elif mode == "futures":
        _load_with_futures(endpoint, operation, in_flight, value_bytes, watch)
    else:
        _load_with_threads(endpoint, operation, in_flight, value_bytes, watch)
    return watch.result()


@click.command(help=__doc__)
@click.argument("endpoint")
@click.option("--mode", type=click.Choice(["threads", "futures", "asyncio"]), default="threads", show_default=True)
@click.option("--operation", type=click.Choice(["put", "read", "floor"]), default="put", show_default=True)
@click.option("--in-flight", type=click.IntRange(1, 1024), default=1, show_default=True)
@click.option("--value-bytes", type=click.IntRange(0), default=1024, show_default=True)
@click.option("--warm-up-seconds", type=float, default=1.0, show_default=True)
@click.option("--seconds", type=float, default=5.0, show_default=True)
def main(**arguments: object) -> None:
    click.echo(load(**arguments).to_json())  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
