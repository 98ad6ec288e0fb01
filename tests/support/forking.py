"""A process with a node, and a child of it: python forking.py WAY DIRECTORY LISTENER

It prints what the child tells as JSON.  The child lives until its input ends, which is the parent's.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import trio

from kraft_trio import Committed, NodeConfig, aio, open_node, sync


def main() -> None:
    way, directory, listener = sys.argv[1:]
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # for sigwait, in every thread
    config = NodeConfig(
        node_id=1,
        listeners=listener,
        quorum_bootstrap_servers=listener.partition("://")[2],
        metadata_log_dir=directory,
    )
    WAYS[way](config)


class Machine:
    """Does something when it applies the value b"now"."""

    def __init__(self, act: Callable[[], object] = lambda: None) -> None:
        self.act = act

    def apply(self, record: Committed[bytes]) -> int:
        if record.value == b"now":
            self.act()
        return len(record.value)

    def save(self) -> list[bytes]:
        return []

    async def load(self, records: object) -> None: ...


def live(told: dict[str, str], out: int = 1) -> NoReturn:
    """What a child does: it tells, and lives until the parent's input ends."""
    os.write(out, (json.dumps({"alive": "yes", **told}) + "\n").encode())
    while os.read(0, 1024):
        pass
    os._exit(0)


def refusals(calls: dict[str, Callable[[], object]]) -> dict[str, str]:
    told = {}
    for name, call in calls.items():
        try:
            call()
        except RuntimeError as error:
            told[name] = str(error)
        else:
            told[name] = "went well"
    return told


def calls_of(node: sync.Node[Any, Any]) -> dict[str, Callable[[], object]]:
    return {
        "append": lambda: node.append([b"child"]),
        "execute": lambda: node.execute(b"child"),
        "stale": lambda: node.stale,
        "metrics": lambda: node.metrics,
        "changes": lambda: next(node.changes()),
        "leadership": lambda: node.leadership().__enter__(),
    }


def serve(node: sync.Node[Any, Any]) -> NoReturn:
    """Append whenever SIGUSR1 comes, and say so."""
    while True:
        signal.sigwait({signal.SIGUSR1})
        node.append([b"of the parent"])
        os.write(1, b'{"appended": true}\n')


def forked_from_sync(config: NodeConfig) -> None:
    with sync.open_node(config, state_machine=Machine()) as node:
        node.append([b"value"])
        if os.fork() == 0:
            live(refusals(calls_of(node)))
        serve(node)


def grandchild(config: NodeConfig) -> None:
    with sync.open_node(config, state_machine=Machine()) as node:
        node.append([b"value"])
        if os.fork() == 0:
            if os.fork() == 0:
                live(refusals(calls_of(node)))
            os._exit(0)
        serve(node)


def from_aio(config: NodeConfig) -> None:
    async def run() -> None:
        async with aio.open_node(config, state_machine=Machine()) as node:
            await node.append([b"value"])
            if os.fork() == 0:
                told = refusals({"stale": lambda: node.stale})
                for name, call in {"append": node.append([b"child"]), "barrier": node.read_barrier()}.items():
                    try:
                        call.send(None)
                    except RuntimeError as error:
                        told[name] = str(error)
                live(told)
            await asyncio.Event().wait()

    asyncio.run(run())


def from_trio(config: NodeConfig) -> None:
    async def run() -> None:
        async with open_node(config, state_machine=Machine()) as node:
            await node.append([b"value"])
            if os.fork() == 0:
                told = {}
                for name, call in {"append": node.append([b"child"]), "barrier": node.read_barrier()}.items():
                    try:
                        call.send(None)
                    except RuntimeError as error:
                        told[name] = str(error)
                told |= refusals({"disk": lambda: node.tree.environment.disk.remove("x")})
                live(told)
            await trio.sleep_forever()

    trio.run(run)


def from_apply(config: NodeConfig) -> None:
    def act() -> None:
        if os.fork() == 0:
            live(refusals({"append": lambda: node.append([b"child"])}))

    with sync.open_node(config, state_machine=Machine(act)) as node:
        node.append([b"now"])
        serve(node)


_node: sync.Node[Any, Any] | None = None


def _work() -> None:
    assert _node is not None
    live(refusals(calls_of(_node)))


def by_multiprocessing(config: NodeConfig) -> None:
    """As gunicorn does with `--preload`: the node was opened before the workers are forked."""
    global _node  # noqa: PLW0603
    with sync.open_node(config, state_machine=Machine()) as node:
        node.append([b"value"])
        _node = node
        stdin = os.dup(0)

        def work() -> None:
            os.dup2(stdin, 0)  # multiprocessing has closed it
            _work()

        multiprocessing.get_context("fork").Process(target=work, daemon=True).start()
        serve(node)


def by_program(config: NodeConfig, way: str) -> None:
    with sync.open_node(config, state_machine=Machine()) as node:
        node.append([b"value"])
        if way == "subprocess":
            code = 'import os, sys; os.write(1, b\'{"alive": "yes"}\\n\'); sys.stdin.read()'
            subprocess.Popen([sys.executable, "-c", code], close_fds=False)
        elif way == "preexec":
            code = 'import os, sys; os.write(1, b\'{"alive": "yes"}\\n\'); sys.stdin.read()'
            subprocess.Popen([sys.executable, "-c", code], close_fds=False, preexec_fn=lambda: None)  # noqa: PLW1509
        else:
            multiprocessing.get_context(way).Process(target=sleeping_program, daemon=True).start()  # type: ignore[attr-defined]
        serve(node)


def sleeping_program() -> None:
    os.write(1, b'{"alive": "yes"}\n')
    parent = os.getppid()
    while os.getppid() == parent:
        threading.Event().wait(0.1)
    threading.Event().wait(5)


def leaving(config: NodeConfig, *, error: bool) -> None:
    try:
        with sync.open_node(config, state_machine=Machine()) as node:
            node.append([b"value"])
            child = os.fork()
            if child:
                threading.Event().wait()
            if error:
                raise KeyError("in the child")
    except KeyError:
        pass
    os.write(1, b'{"alive": "left"}\n')
    while os.read(0, 1024):
        pass
    os._exit(0)


WAYS: dict[str, Callable[[NodeConfig], None]] = {
    "sync": forked_from_sync,
    "grandchild": grandchild,
    "aio": from_aio,
    "trio": from_trio,
    "apply": from_apply,
    "multiprocessing": by_multiprocessing,
    "preexec": lambda config: by_program(config, "preexec"),
    "subprocess": lambda config: by_program(config, "subprocess"),
    "forkserver": lambda config: by_program(config, "forkserver"),
    "spawn": lambda config: by_program(config, "spawn"),
    "leaves the block": lambda config: leaving(config, error=False),
    "raises in the block": lambda config: leaving(config, error=True),
}

if __name__ == "__main__":
    main()
