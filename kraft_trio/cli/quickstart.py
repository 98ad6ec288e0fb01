"""`kraft quickstart`: runs a quorum of three voters on this machine, with the commands that one would type."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import click
import javaproperties

from kraft_trio.cli.terminal.output import echo
from kraft_trio.cli.terminal.termination import terminations_as_interrupts
from kraft_trio.config.properties import without_variables
from kraft_trio.errors import KraftError
from kraft_trio.formatting import random_uuid

_NODE_IDS: Final = (1, 2, 3)
_PORTS: Final = range(20000, 32000)
"""Below those that systems give to outgoing connections: a node that looks for a later one must not take its port."""
_COMMAND: Final = [sys.executable, "-P", "-m", "kraft_trio"]
"""With -P, as in `kraft` itself, modules of the current directory are not imported."""
_STOP_SECONDS: Final = 10.0


class QuickstartError(KraftError):
    """A command or a node of the quickstart has failed."""


@click.command()
@click.option("--once", is_flag=True, help="Stop when the quorum has been shown.")
def quickstart(once: bool) -> None:
    """Run a quorum of three on this machine, to try it.

    Formats three directories in a temporary one, starts three nodes on free ports of 127.0.0.1, writes and reads
    records, and shows the quorum.  It runs until Ctrl-C, which stops the nodes and removes the directories.
    """
    with terminations_as_interrupts(), tempfile.TemporaryDirectory(prefix="kraft-quickstart-") as directory:
        try:
            _run(Path(directory), once)
        except KeyboardInterrupt:
            echo("\nstopped")


def _run(base: Path, once: bool) -> None:
    ports = _free_ports(2 * len(_NODE_IDS))
    controllers, clients = ([f"127.0.0.1:{port}" for port in ports[start::2]] for start in (0, 1))
    configs = [base / f"node-{node_id}.properties" for node_id in _NODE_IDS]
    for config, node_id, controller, client in zip(configs, _NODE_IDS, controllers, clients, strict=True):
        config.write_text(
            f"node.id={node_id}\n"
            "process.roles=controller\n"
            f"listeners=CLIENT://{client},CONTROLLER://{controller}\n"
            "controller.listener.names=CONTROLLER\n"
            f"controller.quorum.bootstrap.servers={','.join(controllers)}\n"
            f"{javaproperties.join_key_value('metadata.log.dir', str(config.with_suffix('')))}\n"
            "kraft.topic.name=quickstart\n"
        )
    cluster_id = random_uuid()
    voters = ",".join(f"{id_}@{address}:{random_uuid()}" for id_, address in zip(_NODE_IDS, controllers, strict=True))
    for config in configs:
        _kraft("storage", "format", "-t", cluster_id, "-c", str(config), "--initial-controllers", voters)
    with _running(configs, [("127.0.0.1", port) for port in ports[::2]]):
        servers = ("--bootstrap-server", ",".join(clients))
        values = [f"record {number}" for number in range(1, 6)]
        _kraft("records", "append", *servers, *values)
        _kraft("records", "read", *servers)
        for what in ("--status", "--replication"):
            _kraft("metadata-quorum", "--bootstrap-controller", ",".join(controllers), "describe", what)
        if not once:
            echo(f"\nup at {','.join(clients)}, topic quickstart; controllers at {','.join(controllers)}")
            echo(f"write: {_typed('records', 'append', *servers, 'hello')}")
            echo(f"read:  {_typed('records', 'read', *servers)}")
            echo(f"Ctrl-C stops the nodes and removes {base}")
            threading.Event().wait()  # until a signal


@contextmanager
def _running(configs: Sequence[Path], addresses: Sequence[tuple[str, int]]) -> Iterator[None]:
    """The nodes, which listen, until the block ends.  Raises QuickstartError if one ends before it listens.

    `addresses` has each node's last listener: a node binds them in their order.
    """
    nodes: list[subprocess.Popen[bytes]] = []
    with ExitStack() as stack:
        stack.callback(_stop, nodes)
        for config in configs:
            arguments = ("server", "start", "-c", str(config))
            echo(f"\n$ {_typed(*arguments)} &")
            log = stack.enter_context(config.with_suffix(".log").open("wb"))
            # In a session of its own, Ctrl-C does not reach it before `_stop` does.
            node = subprocess.Popen(
                [*_COMMAND, *arguments],
                env=without_variables(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            nodes.append(node)
        for config, node, address in zip(configs, nodes, addresses, strict=True):
            while not _listens(address):
                if node.poll() is not None:
                    said = config.with_suffix(".log").read_text(errors="replace").strip().rpartition("\n")[2]
                    raise QuickstartError(f"{config.stem} has ended: {said}")
                time.sleep(0.05)
        yield


def _listens(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=1).close()
    except OSError:
        return False
    return True


def _stop(nodes: Sequence[subprocess.Popen[bytes]]) -> None:
    for node in nodes:
        node.terminate()
    for node in nodes:
        try:
            node.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            node.kill()
            node.wait()


def _kraft(*arguments: str) -> None:
    """Run a command, which prints its own output.  Raises QuickstartError if it fails."""
    echo(f"\n$ {_typed(*arguments)}")
    sys.stdout.flush()
    code = subprocess.run([*_COMMAND, *arguments], env=without_variables(os.environ), check=False).returncode
    if code != 0:
        raise QuickstartError(f"kraft {arguments[0]} {arguments[1]} ended with code {code}")


def _typed(*arguments: str) -> str:
    program = "kraft" if shutil.which("kraft") else str(Path(sys.executable).with_name("kraft"))
    return shlex.join([program, *arguments])


def _free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that no process listens at."""
    with ExitStack() as held:
        free: list[int] = []
        for port in random.sample(_PORTS, len(_PORTS)):
            listener = held.enter_context(socket.socket())
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            free.append(port)
            if len(free) == count:
                break
    return free
