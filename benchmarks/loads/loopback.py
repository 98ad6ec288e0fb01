"""What plain sockets of this machine do: `python -m benchmarks.loads.loopback TOTAL_BYTES [--file PATH]`.

One process sends pieces of a mebibyte, another takes them in; with a file it writes them there, and fsyncs at the end.
Prints a JSON object: bytes and seconds, from the connection to the last byte, or to the end of the fsync.
"""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import click

PIECE_BYTES = 1 << 20


@click.command(help=__doc__)
@click.argument("total_bytes", type=int)
@click.option("--file", "path", type=click.Path(path_type=Path))
def main(total_bytes: int, path: Path | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        child = os.fork()
        if not child:
            _send(listening.getsockname(), total_bytes)
            os._exit(0)
        connection, _ = listening.accept()
        began = time.perf_counter()
        with connection:
            _receive(connection, total_bytes, path)
        seconds = time.perf_counter() - began
        os.waitpid(child, 0)
    print(json.dumps({"bytes": total_bytes, "seconds": seconds}))


def _send(address: tuple[str, int], total_bytes: int) -> None:
    piece = bytes(PIECE_BYTES)
    with socket.create_connection(address) as connection:
        for start in range(0, total_bytes, PIECE_BYTES):
            connection.sendall(piece[: total_bytes - start])


def _receive(connection: socket.socket, total_bytes: int, path: Path | None) -> None:
    buffer = memoryview(bytearray(PIECE_BYTES))
    received = 0
    descriptor = None if path is None else os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    while received < total_bytes:
        size = connection.recv_into(buffer)
        if not size:
            raise SystemExit(f"the connection ended after {received} of {total_bytes} bytes")
        if descriptor is not None:
            os.write(descriptor, buffer[:size])
        received += size
    if descriptor is not None:
        os.fsync(descriptor)
        os.close(descriptor)


if __name__ == "__main__":
    main()
