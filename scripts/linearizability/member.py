"""A process with a node of the quorum in it, which does what clients ask for over a socket, in lines of JSON.

Each request has a number, which its answer repeats.  Many are under way at once.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any
from uuid import UUID

import trio

from kraft_trio import NodeConfig, open_node
from kraft_trio.environment import Environment
from kraft_trio.errors import KraftError, NotAppendedError
from kraft_trio.node import Node
from kraft_trio.simulation.facts.history import BARRIER_READ, LEASE_READ
from scripts.linearizability.registers import Registers
from scripts.linearizability.surroundings import Surroundings


def run_member(
    properties: str, overrides: dict[str, str], surroundings: Surroundings, connection: socket.socket, log: str
) -> None:
    """Run a node until the socket is closed."""
    with open(log, "ab") as file:
        for standard in (1, 2):
            os.dup2(file.fileno(), standard)
    clock = surroundings.clock()
    member = _Member(NodeConfig.from_file(properties, overrides), surroundings.environment(clock), connection)
    trio.run(member.run, clock=clock)


class _Member:
    def __init__(self, config: NodeConfig, environment: Environment, connection: socket.socket) -> None:
        self._config = config
        self._environment = environment
        self._connection = connection
        self._registers = Registers()
        self._sending = trio.Lock()

    async def run(self) -> None:
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(self._connection))
        opened = open_node(self._config, state_machine=self._registers, environment=self._environment)
        async with opened as node, trio.open_nursery() as nursery:
            pending = b""
            async for data in stream:
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    nursery.start_soon(self._answer, stream, node, json.loads(line))
            nursery.cancel_scope.cancel()

    async def _answer(self, stream: trio.SocketStream, node: Node[bytes, Any], request: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"number": request["number"], "outcome": "unknown", "result": None}
        try:
            with trio.fail_after(request["within_s"]):
                answer |= {"outcome": "ok", **(await self._do(node, request))}
        except NotAppendedError:
            answer["outcome"] = "fail"
        except (KraftError, trio.TooSlowError) as error:
            answer["problem"] = str(error)
        async with self._sending:
            try:
                await stream.send_all(json.dumps(answer).encode() + b"\n")
            except trio.BrokenResourceError:
                pass

    async def _do(self, node: Node[bytes, Any], request: dict[str, Any]) -> dict[str, Any]:
        match request["do"]:
            case "execute":
                command = json.dumps(request["command"]).encode()
                return {"result": await node.execute(command, UUID(request["request_id"]))}
            case "get":
                read_index = await node.tree.read_barrier()
                kind = LEASE_READ if read_index.is_by_lease else BARRIER_READ
                return {"result": self._registers.values.get(request["key"]), "kind": kind}
            case "leader":
                return {"result": (await node.wait_for_leader()).leader_id}
            case "transfer":
                await node.transfer_leadership(request["to"])
                return {}
            case "resign":
                await node.resign()
                return {}
        raise ValueError(f"unknown request: {request}")
