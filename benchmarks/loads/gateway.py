"""Load a node's JSON gateway, ours or etcd's: `python -m benchmarks.loads.gateway HOST:PORT --operation put …`.

`put` commits a value, `get` is a linearizable range of one key, `txn` compares and puts, and `floor` is a serializable
range.  Each request in flight has a connection of its own that stays open.  One thread serves all, and the requests are
made once: 64 threads of Python that wake at the same time would take as much of the machine as a server.
"""

from __future__ import annotations

import asyncio
import functools
import json
import time
from base64 import b64encode

import click
import httptools

from benchmarks.measurement import LoadResult, Stopwatch

CALL_SECONDS = 30.0
KEYS = 1000


def requests(operation: str, worker: int, value_bytes: int) -> tuple[str, list[bytes]]:
    """Return the path and the bodies that a connection sends in turn."""
    value = b64encode(b"x" * value_bytes).decode()
    keys = [b64encode(b"bench/%04d/%06d" % (worker, number)).decode() for number in range(KEYS)]
    if operation == "put":
        return "/v3/kv/put", [_body({"key": key, "value": value}) for key in keys]
    if operation == "txn":
        return "/v3/kv/txn", [
            _body(
                {
                    "compare": [{"key": key, "target": "VERSION", "result": "GREATER", "version": "-1"}],
                    "success": [{"request_put": {"key": key, "value": value}}],
                }
            )
            for key in keys
        ]
    return "/v3/kv/range", [_body({"key": keys[0], "serializable": operation == "floor"})]


def _body(request: object) -> bytes:
    return json.dumps(request).encode()


class Worker(asyncio.Protocol):
    """Sends a request as soon as the one before it has been answered, until the time is over."""

    def __init__(self, number: int, host: str, operation: str, value_bytes: int, watch: Stopwatch) -> None:
        path, bodies = requests(operation, number, value_bytes)
        head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: "
        self._requests = [b"%s%d\r\n\r\n%s" % (head.encode(), len(body), body) for body in bodies]
        self._path = path
        self._watch = watch
        self._sent = 0
        self._body: list[bytes] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._parser = httptools.HttpResponseParser(self)
        self._send()

    def _send(self) -> None:
        self._began = time.perf_counter()
        if self._began >= self._watch.end:
            self._end(None)
            return
        self._transport.write(self._requests[self._sent % len(self._requests)])
        self._sent += 1

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(error)

    def on_body(self, part: bytes) -> None:
        self._body.append(part)

    def on_message_complete(self) -> None:
        body, self._body = b"".join(self._body), []
        status = self._parser.get_status_code()
        if status != 200:
            self._end(RuntimeError(f"{self._path}: HTTP {status}: {body.decode(errors='replace')}"))
            return
        self._watch.record(self._began, time.perf_counter())
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or RuntimeError(f"{self._path}: the server closed the connection"))

    def _end(self, error: Exception | None) -> None:
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)
        self._transport.close()


async def load(
    endpoint: str, operation: str, in_flight: int, value_bytes: int, warm_up_seconds: float, seconds: float
) -> LoadResult:
    """Keep `in_flight` requests outstanding for the time given.

    Raises RuntimeError if one fails, OSError if a connection does, and TimeoutError if none is answered for long.
    """
    watch = Stopwatch("httptools", warm_up_seconds, seconds)
    host, _, port = endpoint.rpartition(":")
    async with asyncio.timeout(warm_up_seconds + seconds + CALL_SECONDS):
        workers = [Worker(number, endpoint, operation, value_bytes, watch) for number in range(in_flight)]
        for worker in workers:
            await asyncio.get_running_loop().create_connection(functools.partial(_same, worker), host, int(port))
        await asyncio.gather(*(worker.ended for worker in workers))
    return watch.result()


def _same(worker: Worker) -> Worker:
    return worker


@click.command(help=__doc__)
@click.argument("endpoint")
@click.option("--operation", type=click.Choice(["put", "get", "txn", "floor"]), default="put", show_default=True)
@click.option("--in-flight", type=click.IntRange(1, 1024), default=1, show_default=True)
@click.option("--value-bytes", type=click.IntRange(0), default=1024, show_default=True)
@click.option("--warm-up-seconds", type=float, default=1.0, show_default=True)
@click.option("--seconds", type=float, default=5.0, show_default=True)
def main(**arguments: object) -> None:
    click.echo(asyncio.run(load(**arguments)).to_json())  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
