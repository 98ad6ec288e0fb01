"""Load a node's JSON gateway, ours or etcd's: `python -m benchmarks.loads.gateway HOST:PORT --operation put …`.

`put` commits a value, `get` is a linearizable range of one key, `txn` compares and puts, and `floor` is a serializable
range.  Each worker is a thread with a connection of its own that stays open, and its requests are made once.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from base64 import b64encode

import click

from benchmarks.measurement import LoadResult, Stopwatch

CALL_SECONDS = 30.0
KEYS = 1000
HEADERS = {"Content-Type": "application/json"}


def requests(operation: str, worker: int, value_bytes: int) -> tuple[str, list[bytes]]:
    """Return the path and the bodies that a worker sends in turn."""
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


def load(
    endpoint: str, operation: str, in_flight: int, value_bytes: int, warm_up_seconds: float, seconds: float
) -> LoadResult:
    """Keep `in_flight` requests outstanding for the time given.  Raises RuntimeError when one fails."""
    watch = Stopwatch("http.client", warm_up_seconds, seconds)
    failures: list[BaseException] = []

    def work(worker: int) -> None:
        path, bodies = requests(operation, worker, value_bytes)
        host, _, port = endpoint.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=CALL_SECONDS)
        try:
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sent = 0
            while (began := time.perf_counter()) < watch.end and not failures:
                connection.request("POST", path, bodies[sent % len(bodies)], HEADERS)
                response = connection.getresponse()
                answer = response.read()
                if response.status != 200:
                    raise RuntimeError(f"{path}: HTTP {response.status}: {answer.decode(errors='replace')}")
                watch.record(began, time.perf_counter())
                sent += 1
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(in_flight)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return watch.result()


@click.command(help=__doc__)
@click.argument("endpoint")
@click.option("--operation", type=click.Choice(["put", "get", "txn", "floor"]), default="put", show_default=True)
@click.option("--in-flight", type=click.IntRange(1, 1024), default=1, show_default=True)
@click.option("--value-bytes", type=click.IntRange(0), default=1024, show_default=True)
@click.option("--warm-up-seconds", type=float, default=1.0, show_default=True)
@click.option("--seconds", type=float, default=5.0, show_default=True)
def main(**arguments: object) -> None:
    click.echo(load(**arguments).to_json())  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
