"""The processes of a quorum of `kraft server` with the key-value store, and clients of their gateways."""

from __future__ import annotations

import http.client
import itertools
import json
import random
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import attrs
import trio

from harness.node import NodeProcess
from harness.ports import free_ports
from harness.quorum import Quorum
from kraft_trio.client.admin import AdminClient
from kraft_trio.errors import KraftError
from kraft_trio.kv.proto_json import dumps, structure
from kraft_trio.kv.responses import DeleteRangeResponse, PutResponse, RangeResponse, TxnResponse
from kraft_trio.protocol.request_ids import RANDOM_BITS, new_request_id
from scripts.linearizability import server_process
from scripts.linearizability.clients import PAUSE_S, WITHIN_S, Recorder, most_tries
from scripts.linearizability.members import AnyMember
from scripts.linearizability.store import ALL, random_read, random_write, request_of, result_of
from scripts.linearizability.surroundings import Surroundings

REPOSITORY: Final = Path(__file__).parents[2]
OPERATIONS: Final[Mapping[str, tuple[str, type[Any]]]] = {
    "put": ("/v3/kv/put", PutResponse),
    "delete": ("/v3/kv/deleterange", DeleteRangeResponse),
    "txn": ("/v3/kv/txn", TxnResponse),
    "range": ("/v3/kv/range", RangeResponse),
}
UNAVAILABLE: Final = (499, 500, 503, 504)
"""The statuses after which a write may have happened."""


class ServerMember(AnyMember):
    """A node, its process, if any, and its gateway."""

    def __init__(self, node: NodeProcess, surroundings: Surroundings, quorum: Quorum) -> None:
        super().__init__(node, surroundings)
        self._quorum = quorum
        self._overrides: tuple[str, ...] = ()
        (self.port,) = free_ports(1)
        quorum.settings |= {"kraft.state.machine": "kv", "kraft.kv.listener": f"HTTP://127.0.0.1:{self.port}"}
        quorum.write_properties(node)

    @property
    def is_running(self) -> bool:
        return self._node.running

    def start(self, overrides: Mapping[str, str]) -> None:
        self._overrides = tuple(f"{key}={value}" for key, value in overrides.items())
        self._start()

    def _start(self) -> None:
        wrapper = [sys.executable, "-m", server_process.__name__, self._surroundings.to_json()]
        self._node.start(self._overrides, prefix=wrapper, environment={"PYTHONPATH": str(REPOSITORY)})

    async def kill(self) -> bool:
        self.is_paused = False
        await trio.to_thread.run_sync(self._node.kill)
        return self._node.exit_code == -signal.SIGKILL

    @property
    def _pid(self) -> int:
        return self._node.pid

    async def leader_id(self) -> int | None:
        described = await trio.to_thread.run_sync(self._quorum.describe, self._node)
        return None if described is None else described.leader_id

    async def transfer_leadership(self, to: int) -> bool:
        try:
            client = AdminClient(self._quorum.bootstrap_servers)
            await client.transfer_leadership(to, timeout_ms=10_000)
        except KraftError:
            return False  # The leader may have been replaced just then.
        return True

    async def resign(self) -> bool:
        """Stop the process, which hands over, and start another one."""
        code = await trio.to_thread.run_sync(self._node.stop)
        self._start()
        return code == 0


@attrs.define(eq=False)
class StoreClient:
    """Has one operation at a time, each on the gateway of a random node; a write is repeated with its request id."""

    name: str
    members: Any
    recorder: Recorder
    random: random.Random
    _seen: list[str] = attrs.field(factory=list)
    """Values that a transaction may expect."""
    _numbers: itertools.count[int] = attrs.field(factory=itertools.count)

    async def run(self) -> None:
        """Write and read until cancelled; the operation under way is then of unknown outcome."""
        while True:
            await trio.sleep(self.random.expovariate(1 / PAUSE_S))
            if self.random.random() < 0.5:
                value = f"{self.name}/{next(self._numbers)}"
                await self._perform(random_write(self.random, value, self._seen[-4:]))
            else:
                await self._perform(random_read(self.random))

    async def read_all(self) -> None:
        """Read until a node answers."""
        answer = await self._perform([*ALL])
        while answer["outcome"] != "ok":
            await trio.sleep(PAUSE_S)
            answer = await self._perform([*ALL])

    async def _perform(self, command: list[Any]) -> dict[str, Any]:
        invoked = self.recorder.event()
        answer: dict[str, Any] = {"outcome": "unknown"}
        try:
            answer = await self._executed(command)
        finally:
            self.recorder.add(self.name, "gateway", command, answer, invoked)
        if answer["outcome"] == "ok" and command[0] == "range":
            self._seen += [value for key, value in answer["result"][1]]
        return answer

    async def _executed(self, command: list[Any]) -> dict[str, Any]:
        request_id = new_request_id(time.time_ns() // 1_000_000, self.random.getrandbits(RANDOM_BITS))
        is_certain = True
        for _ in range(1 if command[0] == "range" else most_tries(self.random)):
            answer = await self._ask(command, request_id)
            if answer["outcome"] == "ok":
                return answer
            is_certain = is_certain and answer["outcome"] == "fail"
            await trio.sleep(PAUSE_S)
        return {"outcome": "fail" if is_certain else "unknown"}

    async def _ask(self, command: list[Any], request_id: UUID) -> dict[str, Any]:
        running = self.members.running
        if not running:
            return {"outcome": "fail"}
        port, within_s = self.random.choice(running).port, self.random.choice(WITHIN_S)
        path, shape = OPERATIONS[command[0]]
        body = dumps(request_of(command))
        try:
            status, content = await trio.to_thread.run_sync(
                _post, port, path, body, str(request_id), within_s, abandon_on_cancel=True
            )
        except ConnectionRefusedError:
            return {"outcome": "fail"}
        except (OSError, http.client.HTTPException):
            return {"outcome": "unknown"}
        if status in UNAVAILABLE:
            return {"outcome": "unknown"}
        assert status == 200, f"{command}: {status} {content!r}"
        return {"outcome": "ok", "result": result_of(structure(shape, json.loads(content)))}


def _post(port: int, path: str, body: bytes, request_id: str, within_s: float) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=within_s)
    try:
        connection.request("POST", path, body, {"Kraft-Request-Id": request_id})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
