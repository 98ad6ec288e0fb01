"""The quorum that scripts/quickstart shows: three `kraft server` processes in a directory of their own."""

from __future__ import annotations

import argparse
import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import trio

from kraft_trio.client.log_client import LogClient
from kraft_trio.protocol.types import Endpoint

KRAFT = Path(sys.executable).with_name("kraft")
NODE_IDS = (1, 2, 3)
STOP_WITHIN_S = 10


def say(text: str) -> None:
    print(f"\n== {text}", flush=True)


def kraft(*arguments: str) -> str:
    """Run one kraft command and return what it printed; its own message explains a failure."""
    done = subprocess.run([KRAFT, *arguments], check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return done.stdout.strip()


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def write_configs(base: Path, ports: dict[int, int], client_ports: dict[int, int]) -> dict[int, Path]:
    servers = ",".join(f"127.0.0.1:{port}" for port in ports.values())
    configs = {}
    for node_id, port in ports.items():
        configs[node_id] = base / f"controller-{node_id}.properties"
        configs[node_id].write_text(
            f"node.id={node_id}\n"
            "process.roles=controller\n"
            f"listeners=CONTROLLER://127.0.0.1:{port},CLIENT://127.0.0.1:{client_ports[node_id]}\n"
            "controller.listener.names=CONTROLLER\n"
            f"controller.quorum.bootstrap.servers={servers}\n"
            f"metadata.log.dir={base / f'node-{node_id}'}\n"
            "kraft.topic.name=quickstart\n"
        )
    return configs


def format_directories(configs: dict[int, Path], ports: dict[int, int]) -> None:
    cluster_id = kraft("storage", "random-uuid")
    voters = ",".join(f"{id}@127.0.0.1:{port}:{kraft('storage', 'random-uuid')}" for id, port in ports.items())
    for config in configs.values():
        print(kraft("storage", "format", "-t", cluster_id, "-c", str(config), "--initial-controllers", voters))


@contextlib.contextmanager
def running(base: Path, configs: dict[int, Path]) -> Iterator[None]:
    """Three processes, stopped by their process ids when the block is left."""
    processes = []
    try:
        for node_id, config in configs.items():
            with (base / f"node-{node_id}.log").open("wb") as output:
                command = [KRAFT, "server", "start", "-c", str(config)]
                processes.append(subprocess.Popen(command, stderr=output, start_new_session=True))
            print(f"node {node_id}: process {processes[-1].pid}, log {base / f'node-{node_id}.log'}")
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_WITHIN_S
        for process in processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


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
    # Also where a shell has started it in the background, and for whoever stops it as a service is stopped.
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="kraft-quickstart-") as directory:
        base = Path(directory)
        free = free_ports(2 * len(NODE_IDS))
        ports, client_ports = (dict(zip(NODE_IDS, free[start::2], strict=True)) for start in (0, 1))
        bootstrap, clients = (",".join(f"127.0.0.1:{port}" for port in of.values()) for of in (ports, client_ports))
        configs = write_configs(base, ports, client_ports)
        say("formatting three directories")
        format_directories(configs, ports)
        say("starting three nodes")
        with contextlib.suppress(KeyboardInterrupt), running(base, configs):
            say("writing and reading five records")
            trio.run(write_and_read, [Endpoint("127.0.0.1", port) for port in client_ports.values()])
            say("the quorum")
            print(kraft("metadata-quorum", "--bootstrap-controller", bootstrap, "describe", "--status"))
            print()
            print(kraft("metadata-quorum", "--bootstrap-controller", bootstrap, "describe", "--replication"))
            if not once:
                say(f"up at {clients}, topic quickstart; controllers at {bootstrap}")
                print(f"Ctrl-C stops it and removes {base}", flush=True)
                signal.pause()
    say("stopped")


if __name__ == "__main__":
    main()
