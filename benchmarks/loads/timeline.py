"""Run a node of a quorum and note what it does and when: `python -m benchmarks.loads.timeline FILE EVENTS …`.

With `--appends` it leads, and appends so many records of 1 KiB, one after another; without, it follows until SIGTERM.
Then it writes the events to EVENTS as JSON.  Times are those of the machine's monotonic clock, which processes share.
"""

from __future__ import annotations

import json
import logging
import signal
import socket
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import click
import structlog
import trio

from kraft_trio import load_config, open_node
from kraft_trio.storage.disk import real_disk

KEPT: Final = 100_000
VALUE: Final = b"x" * 1024


class Recorder(trio.abc.Instrument):
    """Notes turns of the event loop, messages and fsyncs."""

    def __init__(self) -> None:
        self.events: deque[tuple[Any, ...]] = deque(maxlen=KEPT)
        self._turn_began = time.monotonic_ns()
        self._names: WeakKeyDictionary[socket.socket, tuple[int, int]] = WeakKeyDictionary()
        self._transferred: dict[tuple[str, int, int], int] = defaultdict(int)

    def after_io_wait(self, timeout: float) -> None:
        self._turn_began = time.monotonic_ns()

    def before_io_wait(self, timeout: float) -> None:
        self.events.append(("turn", self._turn_began, time.monotonic_ns()))

    def watch(self) -> None:
        """Replace the functions that send, receive and sync, for the rest of this process."""
        for method in ("send", "sendmsg"):
            setattr(socket.socket, method, self._noting("sent", getattr(socket.socket, method)))
        for method in ("recv", "recv_into"):
            setattr(socket.socket, method, self._noting("received", getattr(socket.socket, method)))
        real_disk.sync_data = self._timing(real_disk.sync_data)

    def _noting(self, kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(connection: socket.socket, *arguments: Any) -> Any:
            began = time.monotonic_ns()
            result = call(connection, *arguments)
            if connection.family != socket.AF_UNIX:
                ports = self._names.get(connection)
                if ports is None:
                    ports = self._names[connection] = (connection.getsockname()[1], connection.getpeername()[1])
                self._transferred[kind, *ports] += result if isinstance(result, int) else len(result)
                self.events.append((kind, began, *ports, self._transferred[kind, *ports]))
            return result

        return noted

    def _timing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(descriptor: int) -> None:
            began = time.monotonic_ns()
            call(descriptor)
            self.events.append(("fsync", began, time.monotonic_ns()))

        return timed


async def run(properties: str, recorder: Recorder, appends: int) -> None:
    trio.lowlevel.add_instrument(recorder)
    config = load_config(properties).config
    async with open_node(config) as node:
        if appends:
            await node.wait_for_leader()
            await node.transfer_leadership(config.node_id)
            for _ in range(appends):
                began = time.monotonic_ns()
                await node.append([VALUE])
                recorder.events.append(("append", began, time.monotonic_ns()))
        else:
            with trio.open_signal_receiver(signal.SIGTERM) as signals:
                await anext(aiter(signals))


@click.command(help=__doc__)
@click.argument("properties")
@click.argument("events", type=click.Path(path_type=Path))
@click.option("--appends", type=click.IntRange(0), default=0)
def main(properties: str, events: Path, appends: int) -> None:
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    recorder = Recorder()
    recorder.watch()
    trio.run(run, properties, recorder, appends)
    events.write_text(json.dumps(list(recorder.events)))


if __name__ == "__main__":
    main()
