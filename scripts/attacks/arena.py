"""What an attack is given: the quorum's listeners, and connections that count what goes through them."""

from __future__ import annotations

import contextlib
import random
import struct
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from harness.node import NodeProcess
from harness.raw_connection import RawConnection
from harness.waiting import wait_until
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.api import API_VERSIONS
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from kraft_trio.wire.codec import encode_request
from kraft_trio.wire.descriptor import Api
from scripts.attacks import secured
from scripts.attacks.quorum import AttackedQuorum
from scripts.attacks.writer import Writer

LISTENERS = ("CLIENT", "CONTROLLER")
"""What every node has.  `secured` has more."""
ANSWER_S = 10.0
HANG_S = 60.0
"""After so long without the commits that are waited for the quorum has stalled."""


@attrs.define
class Sent:
    """What the attacker has sent in all."""

    frames: int = 0
    bytes: int = 0


class Hostile(RawConnection):
    """A connection of the attacker."""

    def __init__(self, endpoint: Endpoint, sent: Sent, seconds: float) -> None:
        super().__init__(endpoint, seconds)
        self._sent = sent

    def send_bytes(self, data: bytes) -> None:
        self._sent.frames += 1
        self._sent.bytes += len(data)
        super().send_bytes(data)

    def close(self) -> None:
        self._socket.close()

    def drain(self) -> None:
        """Read until the node closes the connection, or sends nothing more.  Raises OSError for the latter."""
        while self._socket.recv(2**20):
            pass

    @contextlib.contextmanager
    def throwing_away(self) -> Iterator[None]:
        """Meanwhile a thread reads what comes; the block waits for its end."""
        reader = threading.Thread(target=self._throw_away, daemon=True)
        reader.start()
        yield
        reader.join()

    def throw_away(self) -> None:
        """Have a thread read what comes as long as the connection is there."""
        threading.Thread(target=self._throw_away, daemon=True).start()

    def _throw_away(self) -> None:
        with refusable():
            self.drain()

    def wait_for_answers(self, count: int = 1) -> int:
        """Read so many frames; how many came before the node closed the connection, or took too long."""
        for number in range(count):
            try:
                self.read_frame()
            except OSError:
                return number
        return count


@attrs.frozen
class Arena:
    """A quorum with a leader, and what is left to an attack's own choice.

    A short attack sends less of the same.
    """

    quorum: AttackedQuorum
    leader: NodeProcess
    epoch: int
    writer: Writer
    is_short: bool
    sent: Sent = attrs.field(factory=Sent)
    random: random.Random = attrs.field(factory=lambda: random.Random(15))

    def wait_for_commits(self, count: int) -> None:
        """Until the well-behaved writer has got so many more records committed.  Raises Overdue."""
        wanted = len(self.writer.acknowledged) + count
        wait_until(f"{count} commits", lambda: len(self.writer.acknowledged) >= wanted, HANG_S)

    def start_again(self, node: NodeProcess, prefix: Sequence[str] = ()) -> None:
        """Start a node that was killed, and wait until it follows.  Raises Overdue."""
        node.start(prefix=prefix)
        node.wait_until_listening()
        self.wait_until_follows(node)

    def wait_until_follows(self, node: NodeProcess) -> None:
        """Until the leader knows that the node has what is committed now.  Raises Overdue."""
        self.quorum.wait_until_holds(node.id, self.quorum.described_by_leader()[1].high_watermark)

    @property
    def nodes(self) -> list[NodeProcess]:
        return list(self.quorum.nodes.values())

    @property
    def followers(self) -> list[NodeProcess]:
        return [node for node in self.nodes if node is not self.leader]

    def count(self, full: int, short: int) -> int:
        """How much of something to send."""
        return short if self.is_short else full

    def endpoint(self, listener: str = "CLIENT", node: NodeProcess | None = None) -> Endpoint:
        node = node or self.leader
        return node.endpoint if listener == "CONTROLLER" else self.quorum.endpoints[node.id][listener]

    def is_served(self, door: str) -> bool:
        """Whether the leader serves a well-behaved client at that listener, within the time of a hang."""

        def is_answered() -> bool:
            with refusable():
                return secured.is_answered(door, self.endpoint(door))
            return False

        return wait_until(f"a client is served at {door}", is_answered, HANG_S)

    def connect(self, listener: str = "CLIENT", node: NodeProcess | None = None, seconds: float = ANSWER_S) -> Hostile:
        return Hostile(self.endpoint(listener, node), self.sent, seconds)

    def introduced(
        self, listener: str = "CLIENT", node: NodeProcess | None = None, seconds: float = ANSWER_S
    ) -> Hostile:
        """A connection that has sent a valid request, and so may send large ones.  Raises OSError."""
        connection = self.connect(listener, node, seconds)
        connection.send_bytes(frame_of(API_VERSIONS, ApiVersionsRequest()))
        connection.read_frame()
        return connection

    def send(
        self,
        frame: bytes,
        listener: str = "CLIENT",
        node: NodeProcess | None = None,
        seconds: float = ANSWER_S,
    ) -> bool:
        """Send one whole frame on a new connection; return whether the node answered."""
        answers = 0
        with refusable(), self.introduced(listener, node, seconds) as connection:
            connection.send_bytes(frame)
            answers = connection.wait_for_answers()
        return answers == 1

    def ask(self, api: Api[Any, Any], request: Any, version: int | None = None, listener: str = "CLIENT") -> bool:
        """Send a request to the leader; whether anything was answered."""
        return self.send(frame_of(api, request, version), listener)


@contextlib.contextmanager
def refusable() -> Iterator[None]:
    """A block that the node may end by closing the connection, or by not accepting one."""
    with contextlib.suppress(OSError):
        yield


def frame_of(api: Api[Any, Any], request: Any, version: int | None = None) -> bytes:
    """A sound frame with its length."""
    return encode_request(api, api.max_version if version is None else version, 1, "attack", request)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body
