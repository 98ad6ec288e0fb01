"""Run a node of a quorum and note what it does and when: `python -m benchmarks.loads.timeline FILE EVENTS …`.

With `--appends` it leads, and appends so many records of 1 KiB, one after another; without, it follows until SIGTERM.
Then it writes the events to EVENTS as JSON.  Times are those of the machine's monotonic clock, which processes share.

What is noted is put into arrays of integers: objects that stay would make Python collect garbage more often.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import click
import structlog
import trio

from kraft_trio import load_config, open_node
from kraft_trio.actors.snapshots.snapshot_taker import SnapshotTaker
from kraft_trio.cli.serving.garbage import tune_garbage_collector
from kraft_trio.metrics.metrics_file import MetricsFile
from kraft_trio.metrics.node_metrics import NodeMetrics
from kraft_trio.storage.disk import file_syncs
from kraft_trio.storage.disk.real_disk import RealFile
from kraft_trio.storage.log.log_appender import LogAppender
from kraft_trio.system.kernel_syncs import KernelSyncs

VALUE: Final = b"x" * 1024
SPANS: Final = {
    "write": (RealFile, "append"),
    "overwrite": (RealFile, "overwrite"),
    "segment roll": (LogAppender, "_roll"),
    "metrics": (NodeMetrics, "exposition"),
    "metrics file": (MetricsFile, "_write"),
    "snapshot": (SnapshotTaker, "take"),
}
"""Methods whose calls are noted.  What they wait for, if they are async, counts."""

KINDS: Final = {"turn": 5, "sent": 4, "received": 4, "fsync": 5, "gc": 3, "span": 3, "append": 2}
"""How many numbers each kind of event has."""
NAMED: Final = {"fsync": 2, "span": 2}
"""Which of them is that of a name."""


class Recorder(trio.abc.Instrument):
    """Notes turns of the event loop, messages, fsyncs, garbage collections and SPANS."""

    def __init__(self) -> None:
        self._noted = {kind: array("q") for kind in KINDS}
        self._names: dict[str, int] = {}
        self._turn_began = time.monotonic_ns()
        self._turn_began_cpu = time.thread_time_ns()
        self._waiting = _WaitForProcessor()
        self._waited_before = self._waited_at_end = self._waiting.ns()
        self._collection_began = 0
        self._loop = threading.get_ident()
        self._ports: WeakKeyDictionary[socket.socket, tuple[int, int]] = WeakKeyDictionary()
        self._transferred: dict[tuple[str, int, int], int] = defaultdict(int)
        self._in_kernel: dict[int, tuple[int, bool, int]] = {}
        """Of each sync that the kernel makes: file, whether that had grown, and when it began."""
        self._sizes: dict[str, int] = {}
        """The size that each file had when it was synced last."""

    def note(self, kind: str, *numbers: int) -> None:
        self._noted[kind].extend(numbers)

    def events(self) -> Iterator[list[Any]]:
        """Return all, as lists that begin with the kind and, but for messages, begin and end in nanoseconds.

        More numbers follow:

        - a turn has its processor time, and how long the thread waited for a processor, in the turn and before it,
        - a message has the two ports, and the bytes of the connection so far,
        - an fsync has the name of the file, whether that had grown, and whether the event loop waited for it,
        - a collection has its generation,
        - a span has its name.
        """
        names = list(self._names)
        for kind, numbers in self._noted.items():
            for at in range(0, len(numbers), KINDS[kind]):
                event: list[Any] = list(numbers[at : at + KINDS[kind]])
                if kind in NAMED:
                    event[NAMED[kind]] = names[event[NAMED[kind]]]
                yield [kind, *event]

    def after_io_wait(self, timeout: float) -> None:
        self._turn_began = time.monotonic_ns()
        self._turn_began_cpu = time.thread_time_ns()
        self._waited_before = self._waiting.ns()

    def before_io_wait(self, timeout: float) -> None:
        ended = time.monotonic_ns()
        before, at_end = self._waited_before, self._waited_at_end
        self._waited_at_end = waited = self._waiting.ns()
        processor_ns = time.thread_time_ns() - self._turn_began_cpu
        self.note("turn", self._turn_began, ended, processor_ns, waited - before, before - at_end)

    def watch(self) -> None:
        """Replace the functions that send, receive and sync, and those of SPANS, for the rest of this process."""
        for method in ("send", "sendmsg"):
            setattr(socket.socket, method, self._noting("sent", getattr(socket.socket, method)))
        for method in ("recv", "recv_into"):
            setattr(socket.socket, method, self._noting("received", getattr(socket.socket, method)))
        setattr(file_syncs, "sync_data", self._timing(getattr(file_syncs, "sync_data")))  # noqa: B009, B010
        setattr(KernelSyncs, "begin", self._beginning(KernelSyncs.begin))  # noqa: B010
        setattr(KernelSyncs, "take", self._taking(KernelSyncs.take))  # noqa: B010
        for name, (owner, method) in SPANS.items():
            setattr(owner, method, self._span(name, getattr(owner, method)))
        gc.callbacks.append(self._collects)

    def _noting(self, kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(connection: socket.socket, *arguments: Any) -> Any:
            began = time.monotonic_ns()
            result = call(connection, *arguments)
            if connection.family != socket.AF_UNIX:
                ports = self._ports.get(connection)
                if ports is None:
                    ports = self._ports[connection] = (connection.getsockname()[1], connection.getpeername()[1])
                self._transferred[kind, *ports] += result if isinstance(result, int) else len(result)
                self.note(kind, began, *ports, self._transferred[kind, *ports])
            return result

        return noted

    def _timing(self, call: Callable[[int], object]) -> Callable[[int], None]:
        def timed(descriptor: int) -> None:
            file, grew = self._to_sync(descriptor)
            began = time.monotonic_ns()
            call(descriptor)
            self.note("fsync", began, time.monotonic_ns(), file, grew, threading.get_ident() == self._loop)

        return timed

    def _beginning(self, call: Callable[..., int]) -> Callable[..., int]:
        def begin(kernel: KernelSyncs, descriptor: int, eventfd: int) -> int:
            file, began = self._to_sync(descriptor), time.monotonic_ns()
            number = call(kernel, descriptor, eventfd)
            self._in_kernel[number] = (*file, began)
            return number

        return begin

    def _taking(self, call: Callable[..., None]) -> Callable[..., None]:
        """The fsync ends when the event loop hears of it."""

        def take(kernel: KernelSyncs, number: int, eventfd: int) -> None:
            call(kernel, number, eventfd)
            file, grew, began = self._in_kernel.pop(number)
            self.note("fsync", began, time.monotonic_ns(), file, grew, False)

        return take

    def _to_sync(self, descriptor: int) -> tuple[int, bool]:
        """The number of the file's name, and whether it has grown since it was synced."""
        name = Path(os.readlink(f"/proc/self/fd/{descriptor}")).name
        size = os.fstat(descriptor).st_size
        grew = size != self._sizes.get(name, size)
        self._sizes[name] = size
        return self._number(name), grew

    def _span(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        number = self._number(name)

        def timed(*arguments: Any, **options: Any) -> Any:
            began = time.monotonic_ns()
            result = call(*arguments, **options)
            if hasattr(result, "__await__"):
                return until_done(result, began)
            self.note("span", began, time.monotonic_ns(), number)
            return result

        async def until_done(waiting: Any, began: int) -> Any:
            try:
                return await waiting
            finally:
                self.note("span", began, time.monotonic_ns(), number)

        return timed

    def _collects(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collection_began = time.monotonic_ns()
        else:
            self.note("gc", self._collection_began, time.monotonic_ns(), info["generation"])

    def _number(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))


class _WaitForProcessor:
    """How long this thread could have run, but others did; always 0 where the kernel does not tell."""

    def __init__(self) -> None:
        try:
            self._file = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
        except OSError:
            self._file = -1

    def ns(self) -> int:
        return int(os.pread(self._file, 100, 0).split()[1]) if self._file >= 0 else 0


async def run(properties: str, overrides: dict[str, str], recorder: Recorder, appends: int) -> None:
    trio.lowlevel.add_instrument(recorder)
    config = load_config(properties, overrides).config
    async with open_node(config) as node:
        tune_garbage_collector()  # as a server does
        if appends:
            await node.wait_for_leader()
            await node.transfer_leadership(config.node_id)
            for _ in range(appends):
                began = time.monotonic_ns()
                await node.append([VALUE])
                recorder.note("append", began, time.monotonic_ns())
        else:
            with trio.open_signal_receiver(signal.SIGTERM) as signals:
                await anext(aiter(signals))


@click.command(help=__doc__)
@click.argument("properties")
@click.argument("events", type=click.Path(path_type=Path))
@click.option("--appends", type=click.IntRange(0), default=0)
@click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE")
def main(properties: str, events: Path, appends: int, overrides: tuple[str, ...]) -> None:
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    recorder = Recorder()
    recorder.watch()
    settings = dict(text.split("=", 1) for text in overrides)
    trio.run(run, properties, settings, recorder, appends)
    events.write_text(json.dumps(list(recorder.events())))


if __name__ == "__main__":
    main()
