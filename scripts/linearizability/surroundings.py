"""What a node process has instead of the machine's network and clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import attrs
import trio

from kraft_trio.environment import Environment
from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.network import ImmediateStream, Listener
from kraft_trio.wire.tcp_network import TcpNetwork
from scripts.linearizability.clock_file import ClockFile, DriftingClock
from scripts.linearizability.proxy import CONNECTED

_HOST: Final = "127.0.0.1"


@attrs.frozen
class Surroundings:
    """Made by the harness for each node; it goes into the node's process as it is, or as JSON."""

    node_id: int
    proxy_port: int
    clock_file: str

    @classmethod
    def from_json(cls, text: str) -> Surroundings:
        return cls(**json.loads(text))

    def to_json(self) -> str:
        return json.dumps(attrs.asdict(self))

    def clock(self) -> DriftingClock:
        """For `trio.run`; `environment` takes it, too."""
        return DriftingClock(ClockFile(Path(self.clock_file)))

    def environment(self, clock: DriftingClock) -> Environment:
        """The real one apart from network and clocks."""
        network = ProxiedNetwork(self.node_id, Endpoint(_HOST, self.proxy_port))
        return attrs.evolve(
            Environment.real(), network=network, clock_s=clock.lease_clock_s, wall_clock_ms=clock.wall_clock_ms
        )


@attrs.frozen
class ProxiedNetwork:
    """TCP on loopback, with a proxy in each connection that this node opens."""

    node_id: int
    proxy: Endpoint
    inner: TcpNetwork = attrs.field(factory=TcpNetwork)

    async def connect(self, endpoint: Endpoint) -> ImmediateStream:
        """Waits for ever if the proxy holds the connection, as for a lost SYN."""
        stream = await self.inner.connect(self.proxy)
        try:
            await stream.send_all(json.dumps({"node": self.node_id, "port": endpoint.port}).encode() + b"\n")
            answer = await stream.receive_some(len(CONNECTED))
        except trio.BrokenResourceError:
            answer = b""
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        if answer != CONNECTED:
            await trio.aclose_forcefully(stream)
            raise NetworkError("cannot connect: Connection refused")
        return stream

    async def addresses(self, host: str) -> tuple[str, ...]:
        return await self.inner.addresses(host)

    async def listen(self, endpoint: Endpoint) -> Listener:
        return await self.inner.listen(endpoint)
