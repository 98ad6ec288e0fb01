"""The program behind scripts/quickstart: three `kraft server` processes in a temporary directory."""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import trio

from harness.command import KRAFT
from harness.node import NodeProcess, stop_all
from harness.ports import free_ports
from kraft_trio.client.log_client import LogClient
from kraft_trio.protocol.types import Endpoint
from scripts.common.run import interruptible

NODE_IDS = (1, 2, 3)
STOP_WITHIN_S = 10


def say(text: str) -> None:
    print(f"\n== {text}", flush=True)


def kraft(*arguments: str) -> str:
    """Run a `kraft` command and return its output.  On failure the command has printed an error, and this exits."""
    done = subprocess.run([KRAFT, *arguments], check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return done.stdout.strip()


class Node(NodeProcess):
    log_format = "console"
    has_own_session = True


def write_configs(nodes: list[Node], client_ports: dict[int, int]) -> None:
    for node in nodes:
        client = Endpoint("127.0.0.1", client_ports[node.id])
        node.write_properties(
            {
                "node.id": node.id,
                "process.roles": "controller",
                "listeners": f"CONTROLLER://{node.endpoint},CLIENT://{client}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.bootstrap.servers": ",".join(str(other.endpoint) for other in nodes),
                "metadata.log.dir": node.directory,
                "kraft.topic.name": "quickstart",
            }
        )


def format_directories(nodes: list[Node]) -> None:
    cluster_id = kraft("storage", "random-uuid")
    voters = ",".join(f"{node.id}@{node.endpoint}:{kraft('storage', 'random-uuid')}" for node in nodes)
    for node in nodes:
        config = str(node.properties)
        print(kraft("storage", "format", "-t", cluster_id, "-c", config, "--initial-controllers", voters))


@contextlib.contextmanager
def running(nodes: list[Node]) -> Iterator[None]:
    """Start the nodes; leaving the block stops them."""
    try:
        for node in nodes:
            node.start()
            print(f"{node}: process {node.pid}, log {node.log}")
        yield
    finally:
        stop_all(nodes, STOP_WITHIN_S)


async def write_and_read(bootstrap: list[Endpoint]) -> None:
    values = [f"record {number}".encode() for number in range(1, 6)]
    with trio.fail_after(60):
        async with LogClient(bootstrap, topic_name="quickstart") as client:
            offsets = await client.produce(values)
            print(f"committed: offsets {offsets[0]}..{offsets[-1]}")
            async for record in client.read(offsets[0], until=offsets[-1] + 1):
                print(f"  offset {record.offset}: {record.value.decode()}")


def main() -> None:
    parser = argparse.ArgumentParser(description="a three-voter quorum on this machine")
    parser.add_argument("--once", action="store_true", help="stop after the records and the status were shown")
    once = parser.parse_args().once
    with interruptible(), tempfile.TemporaryDirectory(prefix="kraft-quickstart-") as directory:
        base = Path(directory)
        free = free_ports(2 * len(NODE_IDS))
        nodes = [Node(node_id, base / f"node-{node_id}", port) for node_id, port in zip(NODE_IDS, free, strict=False)]
        client_ports = dict(zip(NODE_IDS, free[len(NODE_IDS) :], strict=True))
        bootstrap = ",".join(str(node.endpoint) for node in nodes)
        clients = ",".join(f"127.0.0.1:{port}" for port in client_ports.values())
        write_configs(nodes, client_ports)
        say("formatting three directories")
        format_directories(nodes)
        say("starting three nodes")
        with contextlib.suppress(KeyboardInterrupt), running(nodes):
            say("writing and reading five records")
            trio.run(write_and_read, [Endpoint("127.0.0.1", port) for port in client_ports.values()])
            say("the quorum")
            print(kraft("metadata-quorum", "--bootstrap-controller", bootstrap, "describe", "--status"))
            print()
            print(kraft("metadata-quorum", "--bootstrap-controller", bootstrap, "describe", "--replication"))
            if not once:
                say(f"up at {clients}, topic quickstart; controllers at {bootstrap}")
                print(f"write and read: {KRAFT} records append --bootstrap-server {clients} hello")
                print(f"                {KRAFT} records read --bootstrap-server {clients}")
                print(f"Ctrl-C stops it and removes {base}", flush=True)
                signal.pause()
    say("stopped")


if __name__ == "__main__":
    main()
